// node test/predict/decode.mjs IN OUT: decode recorded network outputs, one JSON line per image.

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const [source, target] = process.argv.slice(2);
if (source === undefined || target === undefined) {
  console.error("usage: node test/predict/decode.mjs IN OUT");
  process.exit(2);
}
const load = async (path) => (await runnerImport(fileURLToPath(new URL(path, import.meta.url)), { configFile: false })).module;
const { predictImage } = await load("../../src/predict/pipeline.ts");
const { forestDocument, predictionMetadata } = await load("../../src/predict/document.ts");
const { jsonText, rsmlText, traitTable } = await load("../../src/predict/files.ts");
const { fromDocument } = await load("../../src/core/document.ts");
const { measurePlants } = await load("../../src/core/measures.ts");

function floats(text) {
  if (text === null) return null;
  const bytes = Uint8Array.from(Buffer.from(text, "base64"));
  return new Float32Array(bytes.buffer);
}

const results = [];
for (const line of readFileSync(source, "utf8").split("\n").filter((text) => text !== "")) {
  const { settings, working_size, size, name, outputs } = JSON.parse(line);
  const image = {
    size,
    resized: async ([width, height]) => ({ width, height, rgb: new Uint8Array(3 * width * height) }),
  };
  let call = 0;
  const engine = async () => {
    const one = outputs[call++];
    const [nodeScore, points, edgeCost, rootLogit, attributes] = one.map(floats);
    return { nodeScore, points, edgeCost, rootLogit, attributes };
  };
  const { forest, options } = await predictImage(image, settings, working_size, engine, "recorded");
  const document = forestDocument(forest, name, predictionMetadata(settings, options, "0.0.0"));
  const text = jsonText(document);
  results.push({
    calls: call,
    document: JSON.parse(text),
    text,
    measures: measurePlants(fromDocument(document)),
    table: traitTable(document, name, null),
    rsml: rsmlText(document, name, "2026-01-01T00:00:00Z"),
  });
}
writeFileSync(target, results.map((one) => `${JSON.stringify(one)}\n`).join(""));
