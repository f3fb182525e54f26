// node test/replay/write.mjs FILE [COUNT] [SEED]: write random sequences of actions as JSON lines.

import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const [path, count = "200", seed = "1"] = process.argv.slice(2);
if (path === undefined) {
  console.error("usage: node test/replay/write.mjs FILE [COUNT] [SEED]");
  process.exit(2);
}
const { module } = await runnerImport(fileURLToPath(new URL("replay.ts", import.meta.url)), { configFile: false });
module.writeSequences(path, Number(count), Number(seed));
