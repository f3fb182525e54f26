import { resolve } from "node:path";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { build, defineConfig, type Plugin } from "vite";

/** Build the notebook widget after the page, into the folder `widget`: one module and one style sheet. */
function widget(): Plugin {
  let [root, folder] = ["", ""];
  return {
    name: "widget",
    apply: "build",
    configResolved(config) {
      root = config.root;
      folder = resolve(config.root, config.build.outDir, "widget");
    },
    async closeBundle() {
      await build({
        configFile: false,
        root,
        logLevel: "warn",
        plugins: [svelte({ configFile: false })],
        build: {
          outDir: folder,
          emptyOutDir: true,
          target: "es2022",
          sourcemap: false,
          modulePreload: false,
          cssCodeSplit: false,
          rollupOptions: {
            input: "src/widget/main.ts",
            preserveEntrySignatures: "strict",
            output: { entryFileNames: "widget.js", assetFileNames: "widget[extname]" },
          },
        },
      });
    },
  };
}

// The bundle is committed and ships in the wheel, so file names carry no hash and the output is reproducible.
export default defineConfig({
  base: "./",
  plugins: [svelte(), widget()],
  build: {
    outDir: "../src/treeformer/web/static",
    emptyOutDir: true,
    target: "es2022",
    sourcemap: false,
    rollupOptions: {
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
});
