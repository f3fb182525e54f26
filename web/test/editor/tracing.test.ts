/** Branches that follow the line in the image. */

import { beforeEach, expect, test } from "vitest";
import type { Point } from "../../src/editor/types.ts";
import { at, click, editor, node, open, press } from "./opened.ts";

beforeEach(() => open());

test("a trace inserts the path that the tracer finds", async () => {
  click(100, 400);
  press("t");
  expect(editor.state.message).toBe("The image is not loaded yet.");
  editor.setTracer(async (from, to) => [from, { x: 150, y: 470 }, { x: 160, y: 480 }, { x: 170, y: 490 }, to]);
  press("t");
  click(200, 450);
  expect(editor.state.preview.busy).toBe(true);
  await new Promise((resolve) => setTimeout(resolve));
  press("Enter");
  // The point at (160, 480) lies between its neighbors and is left out.
  expect(editor.state.graph.size).toBe(10);
  expect(node(9)).toMatchObject({ x: 200, y: 450, source: { node: "traced" } });
});

test("the trace to the pointer is shown before the click, one request at a time", async () => {
  const asked: Point[] = [];
  const answers: (() => void)[] = [];
  editor.setTracer((from, to) => {
    asked.push(to);
    return new Promise((resolve) => answers.push(() => resolve([from, { x: to.x, y: from.y }, to])));
  });
  click(100, 400);
  press("t");
  asked.length = answers.length = 0;
  press("Escape");
  press("t");
  const answer = async (): Promise<void> => {
    answers.shift()?.();
    await new Promise((resolve) => setTimeout(resolve));
  };
  while (answers.length > 0) await answer();
  asked.length = 0;
  for (const x of [150, 160, 170]) editor.pointerMove(at(x, 450));
  expect(asked).toEqual([{ x: 150, y: 450 }]);
  await answer();
  // The pointer moved on meanwhile: only its last place is traced.
  expect(asked.slice(1)).toEqual([{ x: 170, y: 450 }]);
  await answer();
  expect(editor.state.preview.line).toEqual([{ x: 100, y: 400 }, { x: 170, y: 400 }, { x: 170, y: 450 }]);
  expect(editor.state.graph.size).toBe(7);
  press("Escape");
  editor.pointerMove(at(300, 450));
  expect(asked).toHaveLength(2);
});

test("a trace that fails says why, and one that is cancelled changes nothing", async () => {
  editor.setTracer(async () => Promise.reject(new Error("no crop")));
  click(100, 400);
  press("t");
  click(200, 450);
  await new Promise((resolve) => setTimeout(resolve));
  expect(editor.state.message).toBe("The trace failed: no crop");
  editor.setTracer(async (from, to) => [from, to]);
  click(200, 450);
  press("Escape");
  await new Promise((resolve) => setTimeout(resolve));
  expect([editor.state.graph.size, editor.state.mode]).toEqual([7, "select"]);
});
