/** Operations on what is selected, and why one is not available. */

import { beforeEach, expect, test } from "vitest";
import { click, editor, node, open, press } from "./opened.ts";

beforeEach(() => open());

test("connect: C, then a click", () => {
  click(300, 100);
  press("c");
  click(180, 260);
  expect(node(5)).toMatchObject({ parent: 4, plant: 0 });
});

test("connect to an edge inserts a node there", () => {
  click(300, 100);
  press("c");
  click(100, 350);
  expect(node(5).parent).toBe(7);
  expect(node(7)).toMatchObject({ parent: 2, y: 350 });
});

test("an unavailable operation says why", () => {
  expect(editor.operation("re-root")).toMatchObject({ available: false, reason: "Select one node first.", shortcut: "R" });
  expect(editor.run("re-root")).toBe(false);
  expect(editor.state.message).toBe("Select one node first.");
  click(100, 100);
  expect(editor.operation("re-root").reason).toBe("This node is the root.");
  expect(editor.operation("cut-edge").reason).toBe("This node is a root: there is no edge above it.");
  click(100, 300);
  expect(editor.operation("continue-axis").reason).toBe("The axis continues here already.");
});
