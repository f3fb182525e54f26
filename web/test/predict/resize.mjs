// node test/predict/resize.mjs IN OUT: resample recorded pixels and decode 16-bit PNG, one JSON line per case.

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const [source, target] = process.argv.slice(2);
if (source === undefined || target === undefined) {
  console.error("usage: node test/predict/resize.mjs IN OUT");
  process.exit(2);
}
const load = async (path) => (await runnerImport(fileURLToPath(new URL(path, import.meta.url)), { configFile: false })).module;
const { grayTo8Bit, lanczosWeights, reduceRows, resampleColumns, resampleRows } = await load("../../src/predict/image/resample.ts");
const { decodeGray16 } = await load("../../src/predict/image/png16.ts");
const { readHeader } = await load("../../src/predict/image/header.ts");

const lines = [];
for (const line of readFileSync(source, "utf8").split("\n").filter((text) => text !== "")) {
  const one = JSON.parse(line);
  const bytes = Uint8Array.from(Buffer.from(one.bytes, "base64"));
  if (one.kind === "png") {
    const header = readHeader(bytes);
    const { width, height, values } = await decodeGray16(bytes);
    lines.push({ header, width, height, pixels: Buffer.from(grayTo8Bit(values)).toString("base64") });
    continue;
  }
  const { width, height, block, target: size, span } = one;
  const reduced = [Math.ceil(width / block), Math.ceil(height / block)];
  const blocks = new Uint8Array(3 * reduced[0] * reduced[1]);
  reduceRows(bytes, width, height, 3, block, blocks, 0);
  const across = new Uint8Array(3 * size[0] * reduced[1]);
  resampleRows(blocks, reduced[0], reduced[1], 3, lanczosWeights(reduced[0], span[0], size[0]), across, 0);
  const result = resampleColumns(across, size[0], lanczosWeights(reduced[1], span[1], size[1]));
  lines.push({ blocks: Buffer.from(blocks).toString("base64"), pixels: Buffer.from(result).toString("base64") });
}
writeFileSync(target, lines.map((one) => `${JSON.stringify(one)}\n`).join(""));
