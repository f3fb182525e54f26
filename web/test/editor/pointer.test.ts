/** Clicks and drags: selecting, moving, merging, cutting, the lasso. */

import { beforeEach, expect, test } from "vitest";
import { at, click, drag, editor, node, open, press, selected } from "./opened.ts";

beforeEach(() => open());

test("a click selects a node or an edge, one beside them selects nothing and lets the page pan", () => {
  expect(click(102, 201)).toBe(true);
  expect([selected(), editor.state.mode]).toEqual([[1], "select"]);
  expect(click(101, 250)).toBe(true);
  expect([selected(), editor.state.edge]).toEqual([[], 2]);
  expect(click(250, 50)).toBe(false);
  expect([editor.state.edge, editor.state.mode]).toEqual([null, "browse"]);
  click(100, 200);
  click(100, 300, { shift: true });
  expect(selected()).toEqual([1, 2]);
  click(100, 300, { shift: true });
  expect(selected()).toEqual([1]);
});

test("a drag moves the selected nodes as one step", () => {
  drag({ x: 100, y: 400 }, { x: 130, y: 420 });
  expect(node(3)).toMatchObject({ x: 130, y: 420, source: { node: "edited" } });
  expect([editor.state.undoAnnotation, editor.state.mode, editor.state.dirty]).toEqual(["Move node", "select", true]);
  press("Ctrl+z");
  expect(node(3)).toMatchObject({ x: 100, y: 400 });
  expect([editor.state.canUndo, editor.state.dirty]).toEqual([false, false]);
  press("Ctrl+Shift+z");
  expect(node(3).x).toBe(130);
});

test("a small movement of the pointer is a click, not a move", () => {
  drag({ x: 100, y: 400 }, { x: 101, y: 401 });
  expect(editor.state.canUndo).toBe(false);
});

test("Escape puts a dragged node back", () => {
  editor.pointerDown(at(100, 400));
  editor.pointerMove(at(150, 400));
  expect([editor.state.mode, node(3).x]).toEqual(["drag", 150]);
  press("Escape");
  expect([editor.state.mode, node(3).x, editor.state.canUndo]).toEqual(["select", 100, false]);
  editor.pointerUp(at(150, 400));
  expect(node(3).x).toBe(100);
});

test("a node that is deleted while the button is down cannot be dragged", () => {
  editor.pointerDown(at(100, 400));
  press("Delete");
  editor.pointerMove(at(150, 400));
  expect([editor.state.graph.has(3), editor.state.mode]).toEqual([false, "select"]);
  editor.pointerUp(at(150, 400));
  press("Ctrl+z");
  expect(node(3)).toMatchObject({ x: 100, y: 400 });
});

test("a node that is dropped on another tree is merged with it, not with Alt", () => {
  drag({ x: 300, y: 100 }, { x: 184, y: 262 }, { alt: true });
  expect(editor.state.graph.roots).toEqual([0, 5]);
  press("Ctrl+z");
  drag({ x: 300, y: 100 }, { x: 184, y: 262 });
  expect(editor.state.graph.roots).toEqual([0]);
  expect(node(6).parent).toBe(4);
  expect(node(6).plant).toBe(0);
});

test("Ctrl+click cuts an edge; the part that would come off is shown before", () => {
  editor.pointerMove(at(100, 250, { ctrl: true }));
  expect([...editor.state.preview.affected]).toEqual([2, 3]);
  click(100, 250, { ctrl: true });
  expect(node(2).parent).toBeNull();
  expect(node(3).plant).toBe(2);
});

test("a double click on an edge inserts a node", () => {
  editor.doubleClick(at(103, 250));
  expect(selected()).toEqual([7]);
  expect(node(7)).toMatchObject({ x: 100, y: 250, parent: 1 });
  expect(node(2).parent).toBe(7);
});

test("the lasso selects what it surrounds; Shift adds", () => {
  press("l");
  const around = (x0: number, y0: number, x1: number, y1: number, more: object = {}): void => {
    editor.pointerDown(at(x0, y0, more));
    for (const [x, y] of [[x1, y0], [x1, y1], [x0, y1]] as const) editor.pointerMove(at(x, y, more));
    editor.pointerUp(at(x0, y1, more));
  };
  around(90, 190, 110, 310);
  expect([selected(), editor.state.mode]).toEqual([[1, 2], "select"]);
  press("l");
  around(290, 90, 310, 110, { shift: true });
  expect(selected()).toEqual([1, 2, 5]);
  press("Delete");
  expect(editor.state.graph.size).toBe(4);
});
