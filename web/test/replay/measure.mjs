// node test/replay/measure.mjs IN OUT: read documents (JSON lines); write the traits and the document of each again.

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const [source, target] = process.argv.slice(2);
if (source === undefined || target === undefined) {
  console.error("usage: node test/replay/measure.mjs IN OUT");
  process.exit(2);
}
const load = async (path) => (await runnerImport(fileURLToPath(new URL(path, import.meta.url)), { configFile: false })).module;
const { fromDocument, toDocument } = await load("../../src/core/document.ts");
const { measurePlants } = await load("../../src/core/measures.ts");
const lines = readFileSync(source, "utf8").split("\n").filter((line) => line !== "");
const rows = lines.map((line) => {
  const graph = fromDocument(JSON.parse(line));
  return `${JSON.stringify({ traits: measurePlants(graph), document: toDocument(graph) })}\n`;
});
writeFileSync(target, rows.join(""));
