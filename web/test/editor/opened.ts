/** A small document in an editor, and short names for what a person does with it. */

import { fromDocument } from "../../src/core/document.ts";
import { Editor } from "../../src/editor/editor.ts";
import type { Point } from "../../src/editor/types.ts";

/** Root 0 at (100, 100), a line down to 3, a lateral 1-4; another tree 5-6 at x = 300. */
const DOCUMENT = {
  format: "treeformer-skeleton", version: 1, metadata: { model: "m" },
  nodes: [[100, 100], [100, 200], [100, 300], [100, 400], [180, 260], [300, 100], [300, 200]],
  edges: [[0, 1], [1, 2], [2, 3], [1, 4], [5, 6]], roots: [0, 5], plant: [0, 0, 0, 0, 0, 1, 1],
  edge_score: [0.9, 0.3, 0.9, 0.2, 0.9], node_score: [1, 1, 1, 1, 1, 1, 1],
  axes: [
    { nodes: [0, 1, 2, 3], parent: null, plant: 0 },
    { nodes: [1, 4], parent: 0, plant: 0 },
    { nodes: [5, 6], parent: null, plant: 1 },
  ],
  edge_axis: [0, 0, 0, 1, 2],
};

/** The editor of the present test. */
export let editor: Editor;

/** Open a document in a new editor. */
export function open(document: unknown = DOCUMENT): void {
  editor = new Editor(fromDocument(document));
}

export const at = (x: number, y: number, more: object = {}) => ({ x, y, tolerance: 8, ...more });
export const click = (x: number, y: number, more: object = {}): boolean => {
  const taken = editor.pointerDown(at(x, y, more));
  editor.pointerUp(at(x, y, more));
  return taken;
};
export const drag = (from: Point, to: Point, more: object = {}): void => {
  editor.pointerDown(at(from.x, from.y, more));
  editor.pointerMove(at((from.x + to.x) / 2, (from.y + to.y) / 2, more));
  editor.pointerMove(at(to.x, to.y, more));
  editor.pointerUp(at(to.x, to.y, more));
};
export const press = (text: string) => {
  const parts = text.split("+");
  const key = parts.pop() as string;
  return editor.key({ key: key === "Space" ? " " : key, ctrl: parts.includes("Ctrl"), shift: parts.includes("Shift"), alt: parts.includes("Alt") });
};
export const selected = (): number[] => [...editor.state.selection];
export const node = (id: number) => editor.state.graph.node(id);
