import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// Tests of the core and of the editor need no DOM; tests of the page state `// @vitest-environment happy-dom`.
export default defineConfig({
  plugins: [svelte()],
  resolve: { conditions: ["browser"] },
  test: { include: ["test/**/*.test.ts"], environment: "node", maxWorkers: 2, testTimeout: 60_000 },
});
