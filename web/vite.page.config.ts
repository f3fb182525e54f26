// The static page: `make page` runs `treeformer export --web` and this build. The result is in dist/page.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin } from "vite";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const modelFolder = process.env.TREEFORMER_PAGE_MODEL ?? here("../dist/page-model");
const version = /__version__ = "([^"]+)"/.exec(readFileSync(here("../src/treeformer/__init__.py"), "utf8"))?.[1] ?? "";
const VIRTUAL = "virtual:page-files";

interface Copy {
  readonly from: string;
  readonly to: (hash: string) => string;
}

const COPIES: Record<"settings" | "weights" | "runtime" | "example", Copy> = {
  settings: { from: `${modelFolder}/model.json`, to: (hash) => `model/model-${hash}.json` },
  weights: { from: `${modelFolder}/model.onnx`, to: (hash) => `model/model-${hash}.onnx` },
  runtime: {
    from: here("node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm"),
    to: (hash) => `runtime/ort-${hash}.wasm`,
  },
  example: { from: here("../src/treeformer/examples/taproot.jpg"), to: (hash) => `example-${hash}.jpg` },
};

/** Copy model, runtime and example under names with their hashes, and write the service worker. */
function pageFiles(): Plugin {
  const copied = new Map<string, { to: string; bytes: Buffer }>();
  return {
    name: "page-files",
    enforce: "post",
    resolveId: (id) => (id === VIRTUAL ? `\0${VIRTUAL}` : null),
    load(id) {
      if (id !== `\0${VIRTUAL}`) return null;
      for (const [name, { from, to }] of Object.entries(COPIES)) {
        const bytes = readFileSync(from);
        const hash = createHash("sha256").update(bytes).digest("hex").slice(0, 12);
        copied.set(name, { to: to(hash), bytes });
      }
      const entry = (name: string) => ({ address: copied.get(name)?.to, bytes: copied.get(name)?.bytes.length });
      const files = { settings: entry("settings").address, weights: entry("weights"), runtime: entry("runtime") };
      const parts = { files, version, example: entry("example").address };
      return Object.entries(parts).map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};`).join("\n");
    },
    generateBundle(_options, bundle) {
      const large: string[] = [];
      // The runtime's own reference to its WebAssembly file: the worker passes the bytes of the copy instead.
      for (const name of Object.keys(bundle)) if (name.endsWith(".wasm")) delete bundle[name];
      for (const { to, bytes } of copied.values()) {
        this.emitFile({ type: "asset", fileName: to, source: bytes });
        large.push(to);
      }
      const small = Object.keys(bundle).filter((name) => !large.includes(name)).sort();
      const code = readFileSync(here("src/page/sw.js"), "utf8")
        .replace("__SMALL__", JSON.stringify(["index.html", ...small.filter((name) => name !== "index.html")]))
        .replace("__LARGE__", JSON.stringify(large));
      this.emitFile({ type: "asset", fileName: "sw.js", source: code });
    },
  };
}

export default defineConfig({
  root: here("page"),
  base: "./",
  plugins: [svelte({ configFile: false }), pageFiles()],
  worker: { format: "es" },
  build: {
    outDir: here("../dist/page"),
    emptyOutDir: true,
    target: "es2022",
    sourcemap: false,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 2000,
  },
});
