import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The bundle is committed and ships in the wheel, so file names carry no hash and the output is reproducible.
export default defineConfig({
  base: "./",
  plugins: [svelte()],
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
