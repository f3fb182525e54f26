// node test/replay/measure.mjs IN OUT: measure the documents of a file of JSON lines, one line of traits for each.

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const [source, target] = process.argv.slice(2);
if (source === undefined || target === undefined) {
  console.error("usage: node test/replay/measure.mjs IN OUT");
  process.exit(2);
}
const load = async (path) => (await runnerImport(fileURLToPath(new URL(path, import.meta.url)), { configFile: false })).module;
const { fromDocument } = await load("../../src/core/document.ts");
const { measurePlants } = await load("../../src/core/measures.ts");
const lines = readFileSync(source, "utf8").split("\n").filter((line) => line !== "");
writeFileSync(target, lines.map((line) => `${JSON.stringify(measurePlants(fromDocument(JSON.parse(line))))}\n`).join(""));
