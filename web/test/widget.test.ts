import { expect, test } from "vitest";
import { levelCount, WidgetBackend } from "../src/widget/backend.ts";

const photo = { bitmap: Promise.resolve({} as ImageBitmap), size: [1300, 700] as const };

test("levels end with the first that fits into one tile", () => {
  expect([levelCount(512, 512), levelCount(513, 20), levelCount(1024, 1025), levelCount(4096, 1)]).toEqual([1, 2, 3, 4]);
});

test("the backend reads and writes the document of the notebook", async () => {
  let document: Record<string, unknown> = { nodes: [] };
  const backend = new WidgetBackend(photo, () => document, (value) => (document = value));
  expect(await backend.pyramid()).toEqual({ width: 1300, height: 700, tile: 512, levels: 3 });
  expect((await backend.skeleton()).document).toBe(document);
  const common = { image: "a", revision: "", window: "w" };
  await backend.saveDraft({ ...common, document: { nodes: [1] } });
  expect(document).toEqual({ nodes: [1] });
  await backend.save({ ...common, accepted: true, document: { nodes: [2] } });
  expect((await backend.skeleton()).document).toEqual({ nodes: [2] });
  await expect(backend.predict()).rejects.toThrow("treeformer.predict");
});
