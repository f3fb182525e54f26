/** Nodes and branches that are drawn. */

import { beforeEach, expect, test } from "vitest";
import { at, click, editor, node, open, press, selected } from "./opened.ts";

beforeEach(() => open());

test("clicks draw a lateral, Enter ends it", () => {
  click(100, 300);
  press("b");
  click(130, 320);
  click(160, 330);
  expect(editor.state.preview.line).toHaveLength(4);
  press("Enter");
  expect([node(7), node(8)]).toMatchObject([{ parent: 2, x: 130, source: { node: "drawn", edge: "drawn" } }, { parent: 7, x: 160 }]);
  expect([editor.state.undoAnnotation, selected()]).toEqual(["Draw branch", [8]]);
  press("Ctrl+z");
  expect(editor.state.graph.size).toBe(7);
});

test("a double click ends a branch without a second point at the same place", () => {
  press("b");
  click(400, 400);
  click(450, 450);
  click(451, 450);
  editor.doubleClick(at(451, 450));
  expect(editor.state.graph.size).toBe(9);
  expect(node(8)).toMatchObject({ parent: 7, plant: 2 });
});

test("a branch that begins on an edge and ends at another tree joins them", () => {
  press("b");
  click(100, 350);
  click(200, 300);
  click(300, 100);
  expect(editor.state.graph.roots).toEqual([0]);
  expect(editor.state.graph.ancestors(5)).toEqual([5, 8, 7, 2, 1, 0]);
});

test("Backspace removes the last point, Escape the branch", () => {
  press("b");
  click(400, 400);
  click(450, 450);
  press("Backspace");
  expect(editor.state.preview.line).toHaveLength(2);
  press("Escape");
  expect([editor.state.graph.size, editor.state.mode]).toEqual([7, "browse"]);
});

test("a branch whose start is deleted meanwhile begins anew", () => {
  click(100, 400);
  press("b");
  press("Delete");
  expect([editor.state.graph.size, editor.state.mode]).toEqual([6, "draw"]);
  click(200, 450);
  click(220, 470);
  press("Enter");
  expect(editor.state.graph.size).toBe(8);
  expect(editor.state.graph.roots).toHaveLength(3);
});

test("one node is added with A, by keyboard alone", () => {
  click(100, 400);
  press("a");
  for (let k = 0; k < 3; k++) press("Alt+Shift+ArrowDown");
  press("Space");
  expect(node(7)).toMatchObject({ x: 100, y: 448, parent: 3 });
  expect(editor.state.mode).toBe("select");
  press("Alt+ArrowRight");
  expect(node(7).x).toBe(101);
});

test("a tool that is chosen while a branch is drawn keeps the branch and acts on what is selected", () => {
  click(180, 260);
  press("b");
  click(220, 300);
  click(260, 340);
  editor.run("connect");
  expect([editor.state.graph.size, editor.state.mode, selected()]).toEqual([9, "connect", [4]]);
  expect(node(8)).toMatchObject({ x: 260, y: 340, parent: 7 });
  editor.run("undo");
  expect(editor.state.graph.size).toBe(7);
});
