/** A graph that replaces the present one, such as another prediction. */

import { beforeEach, describe, expect, test } from "vitest";
import { fromDocument } from "../../src/core/document.ts";
import { at, click, editor, node, open, press, selected } from "./opened.ts";

beforeEach(() => open());

describe("another graph in place of this one", () => {
  /** Two nodes that have nothing to do with the document. */
  const OTHER = {
    format: "treeformer-skeleton", version: 1, nodes: [[10, 10], [10, 60]], edges: [[0, 1]], roots: [0], plant: [0, 0],
    axes: [{ nodes: [0, 1], parent: null, plant: 0, functions: [{ name: "diameter", samples: [2, 1] }] }], edge_axis: [0],
  };
  const replace = (): void => editor.replaceGraph("Predict again", fromDocument(OTHER));
  const places = (): number[][] => editor.state.graph.nodes.values().map(({ x, y }) => [x, y]);

  test("has ids of its own and is written as it was read", () => {
    editor.select([1]);
    replace();
    expect(editor.state.graph.nodes.values().map(({ id, parent }) => [id, parent])).toEqual([[7, null], [8, 7]]);
    expect([selected(), editor.state.mode]).toEqual([[], "browse"]);
    const { metadata: _, ...written } = editor.document() as Record<string, unknown>;
    expect(written).toEqual(OTHER);
    press("Ctrl+z");
    expect(editor.state.graph.size).toBe(7);
  });

  test("ends a branch that is being drawn, which stays in the history", () => {
    click(100, 200);
    press("b");
    click(60, 220);
    replace();
    click(40, 300);
    press("Enter");
    expect(places()).toEqual([[10, 10], [10, 60]]);
    press("Ctrl+z");
    expect(editor.state.graph.size).toBe(8);
    expect(node(7)).toMatchObject({ x: 60, y: 220, parent: 1 });
  });

  test("ends a drag", () => {
    editor.pointerDown(at(180, 260));
    editor.pointerMove(at(200, 280));
    expect(editor.state.mode).toBe("drag");
    replace();
    editor.pointerMove(at(300, 300));
    editor.pointerUp(at(300, 300));
    expect([places(), editor.state.mode]).toEqual([[[10, 10], [10, 60]], "browse"]);
  });

  test("is what corrections are made of, until undo returns to the other one", () => {
    const opened = editor.version;
    expect(opened.base).toBe(opened.graph);
    editor.perform("Add", (graph) => graph.with({ pxPerMm: 2 }));
    const mine = editor.version;
    expect(mine.base).toBe(opened.base);
    replace();
    expect(editor.version.base).toBe(editor.state.graph);
    editor.returnTo("My version", mine);
    expect(editor.version).toEqual(mine);
    press("Ctrl+z");
    expect(editor.version.base).toBe(editor.state.graph);
    press("Ctrl+z");
    expect(editor.version).toEqual(mine);
  });
});

test("a prediction of a region that arrives during a drag leaves the node where it was dragged to", () => {
  const region = { format: "treeformer-skeleton", version: 1, nodes: [[10, 10], [10, 60]], edges: [[0, 1]], roots: [0] };
  editor.pointerDown(at(180, 260));
  editor.pointerMove(at(200, 280));
  editor.mergeRegion(region, [0, 0, 50, 80]);
  expect([editor.state.mode, node(4).x, editor.state.graph.size]).toEqual(["select", 200, 9]);
  editor.pointerMove(at(300, 300));
  editor.pointerUp(at(300, 300));
  expect(node(4).x).toBe(200);
  press("Ctrl+z");
  expect([node(4).x, editor.state.graph.size]).toEqual([200, 7]);
  press("Ctrl+z");
  expect(node(4).x).toBe(180);
});
