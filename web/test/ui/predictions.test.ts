import { expect, it } from "vitest";
import type { Backend } from "../../src/api";
import { fromDocument, toDocument } from "../../src/core/document";
import { scaleOf } from "../../src/core/measures";
import { Editor } from "../../src/editor/editor";
import { Predictions } from "../../src/ui/predictions.svelte";
import { Session } from "../../src/ui/session";

const predicted = (rsml: object) => ({
  format: "treeformer-skeleton", version: 1, roots: [0], nodes: [[10, 10], [10, 50]], edges: [[0, 1]],
  metadata: { model: "default", rsml },
});

it("keeps the scale that the file of a prediction states", async () => {
  const editor = new Editor(fromDocument(predicted({ unit: "mm", resolution: "11.8", software: "old" })));
  const backend = {
    predict: async () => "job",
    jobs: async () => [{ job: "job", state: "done", document: predicted({ software: "new" }) }],
    skeleton: async () => ({ document: predicted({}), revision: "r1", origin: "result" }),
  } as unknown as Backend;
  const session = new Session(backend, "a.jpg", "w1", {
    document: () => toDocument(editor.state.graph),
    status: () => undefined,
  });
  await session.load();
  const told: string[] = [];
  const hooks = { job: () => undefined, saved: () => undefined, tell: (text: string) => told.push(text) };
  await new Predictions(backend, session, editor, hooks).predict(null, null);
  expect(told).toEqual([]);
  expect(editor.state.undoAnnotation).toBe("Predict again");
  expect(scaleOf(editor.state.graph)).toBe(11.8);
  expect(editor.state.graph.metadata.rsml).toMatchObject({ software: "new" });
});

it("does not overwrite what another window saved while the image had no result", async () => {
  const editor = new Editor();
  const drawn = { ...predicted({}), metadata: { editor: { accepted: false } } };
  const none = { document: toDocument(editor.state.graph), revision: null, origin: "none" };
  const answers = [none, { document: drawn, revision: "r1", result_revision: "r1", origin: "result" }];
  const backend = {
    predict: async () => "job",
    jobs: async () => [{ job: "job", state: "done", document: predicted({}) }],
    skeleton: async () => answers.shift(),
  } as unknown as Backend;
  const session = new Session(backend, "a.jpg", "w1", { document: () => editor.document(), status: () => undefined });
  await session.load();
  const hooks = { job: () => undefined, saved: () => undefined, tell: () => undefined };
  await new Predictions(backend, session, editor, hooks).predict(null, null);
  expect([editor.state.graph.size, session.revision]).toEqual([2, null]);
});
