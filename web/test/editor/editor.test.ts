import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { fromDocument } from "../../src/core/document.ts";
import { Graph } from "../../src/core/graph.ts";
import { Editor } from "../../src/editor/editor.ts";
import { BINDINGS, bindingOf, keyText } from "../../src/editor/keys.ts";
import { DEFINITIONS } from "../../src/editor/operations.ts";
import type { ModeName, Point } from "../../src/editor/types.ts";
import { documents } from "../arbitrary.ts";
import { checkGraph } from "../check.ts";

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

let editor: Editor;
beforeEach(() => {
  editor = new Editor(fromDocument(DOCUMENT));
});

const at = (x: number, y: number, more: object = {}) => ({ x, y, tolerance: 8, ...more });
const click = (x: number, y: number, more: object = {}): boolean => {
  const taken = editor.pointerDown(at(x, y, more));
  editor.pointerUp(at(x, y, more));
  return taken;
};
const drag = (from: Point, to: Point, more: object = {}): void => {
  editor.pointerDown(at(from.x, from.y, more));
  editor.pointerMove(at((from.x + to.x) / 2, (from.y + to.y) / 2, more));
  editor.pointerMove(at(to.x, to.y, more));
  editor.pointerUp(at(to.x, to.y, more));
};
const press = (text: string) => {
  const parts = text.split("+");
  const key = parts.pop() as string;
  return editor.key({ key: key === "Space" ? " " : key, ctrl: parts.includes("Ctrl"), shift: parts.includes("Shift"), alt: parts.includes("Alt") });
};
const selected = (): number[] => [...editor.state.selection];
const node = (id: number) => editor.state.graph.node(id);

describe("pointer", () => {
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
});

describe("drawing", () => {
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

  test("scale line, region and lasso by keyboard alone", () => {
    const go = (keys: string, times: number): void => {
      for (let k = 0; k < times; k++) press(keys);
    };
    editor.placeCursor(at(80, 80));
    press("s");
    press("Space");
    go("Alt+Shift+ArrowRight", 5);
    press("Space");
    expect(editor.state.scaleLine).toBe(80);
    press("Escape");
    press("g");
    press("Enter");
    expect(editor.state.region).toBe(null);
    press("Escape");
    editor.placeCursor(at(80, 80));
    press("g");
    press("Space");
    go("Alt+Shift+ArrowRight", 2);
    go("Alt+ArrowDown", 3);
    press("Enter");
    expect(editor.state.region).toEqual([80, 80, 112, 83]);
    press("Escape");
    editor.placeCursor(at(90, 90));
    press("l");
    press("Space");
    go("Alt+Shift+ArrowRight", 2);
    go("Alt+Shift+ArrowDown", 8);
    go("Alt+Shift+ArrowLeft", 2);
    press("Space");
    expect(selected()).toEqual([0, 1]);
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
});

describe("operations and keys", () => {
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

  test("plants: P and a click, a digit, or P again", () => {
    click(300, 100);
    press("p");
    click(100, 200);
    expect(node(6).plant).toBe(0);
    press("p");
    press("4");
    expect([node(5).plant, node(6).plant]).toEqual([4, 4]);
    press("p");
    press("p");
    expect(node(6).plant).toBe(5);
  });

  test("navigation: parent, child, next branch point, previous tip", () => {
    click(100, 200);
    press("[");
    expect(selected()).toEqual([0]);
    press("]");
    press("]");
    expect(selected()).toEqual([2]);
    press("n");
    expect(selected()).toEqual([3]);
    press("n");
    expect(selected()).toEqual([4]);
    press("Shift+n");
    expect(selected()).toEqual([3]);
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

  test("the scale follows from a line and its length", () => {
    press("s");
    drag({ x: 0, y: 0 }, { x: 30, y: 40 });
    expect(editor.state.scaleLine).toBe(50);
    expect(editor.setScale(10)).toBe(true);
    expect(editor.state.graph.pxPerMm).toBe(5);
  });

  test("a region is reported in any direction of the drag", () => {
    press("g");
    drag({ x: 50, y: 60 }, { x: 10, y: 20 });
    expect(editor.state.region).toEqual([10, 20, 50, 60]);
  });

  test("commands go to the page, keys without a meaning are left to the browser", () => {
    expect(press("Ctrl+s")).toEqual({ handled: true, command: "save" });
    expect(press("?").command).toBe("help");
    expect(editor.key({ key: "?", shift: true }).command).toBe("help");
    expect(press("Ctrl+r")).toEqual({ handled: false, command: null });
    expect(press("F5").handled).toBe(false);
  });

  test("no key is bound twice, and each operation has a key or a reason to have none", () => {
    const keys = BINDINGS.map(({ keys: text }) => text);
    expect(new Set(keys).size).toBe(keys.length);
    for (const { keys: text } of BINDINGS) {
      const parts = text.length > 1 ? text.split("+") : [text];
      const key = parts.pop() as string;
      const input = { key: key === "Space" ? " " : key, ctrl: parts.includes("Ctrl"), shift: parts.includes("Shift"), alt: parts.includes("Alt") };
      expect(keyText(input)).toBe(text);
      expect(bindingOf(input)?.keys).toBe(text);
    }
    const bound = new Set(BINDINGS.flatMap((one) => ("operation" in one ? [one.operation] : [])));
    expect(DEFINITIONS.filter(({ id }) => !bound.has(id))).toEqual([]);
  });

  test("every mode and every modifier has hints", () => {
    const modes: ModeName[] = ["browse", "draw", "lasso", "scale", "region"];
    for (const mode of modes) {
      const fresh = new Editor(Graph.empty());
      const id = { draw: "draw-branch", lasso: "lasso", scale: "set-scale", region: "select-region" }[mode as string];
      if (id !== undefined) fresh.run(id as "lasso");
      expect(fresh.state.mode).toBe(mode);
      for (const bits of [0, 1, 2, 3, 4]) {
        expect(fresh.hints({ shift: (bits & 1) > 0, ctrl: (bits & 2) > 0, alt: (bits & 4) > 0 }).length).toBeGreaterThan(0);
      }
    }
    click(100, 200);
    expect(editor.hints().map(({ keys }) => keys)).toContain("R");
    expect(editor.hints({ shift: true }).map(({ keys }) => keys)).toContain("Shift+Delete");
  });
});

describe("review", () => {
  test("Space walks the queue, Enter accepts and goes on, X cuts; the queue survives both", () => {
    expect(editor.state.review.map(({ key }) => key)).toEqual(["low-score:4", "low-score:2"]);
    press("Space");
    expect([editor.state.reviewItem?.key, editor.state.edge]).toEqual(["low-score:4", 4]);
    press("x");
    expect(node(4).parent).toBeNull();
    press("Space");
    expect(editor.state.reviewItem?.key).toBe("low-score:2");
    press("Enter");
    expect(node(2).source.edge).toBe("accepted");
    expect(editor.state.review.some(({ key }) => key === "low-score:2")).toBe(false);
  });

  test("Shift+Space goes back, around the start", () => {
    press("Shift+Space");
    expect(editor.state.reviewItem?.key).toBe("low-score:2");
    press("Shift+Space");
    expect(editor.state.reviewItem?.key).toBe("low-score:4");
  });

  test("an empty queue says so", () => {
    press("Shift+Enter");
    press("Space");
    expect(editor.state.message).toBe("Nothing is left to review.");
  });
});

describe("document", () => {
  test("counts actions and seconds of work, without long pauses", () => {
    for (const now of [100, 105, 105.5, 1000]) editor.touch(now);
    click(100, 400);
    press("Delete");
    const { editor: info } = editor.document(true).metadata as unknown as { editor: Record<string, unknown> };
    expect(info).toMatchObject({ seconds: 35.5, actions: 1, accepted: true });
    editor.markSaved();
    expect(editor.state.dirty).toBe(false);
    press("Ctrl+z");
    expect(editor.state.dirty).toBe(true);
  });

  test("listeners are told, until they unsubscribe", () => {
    let calls = 0;
    const stop = editor.subscribe(() => calls++);
    click(100, 400);
    stop();
    const before = calls;
    click(100, 300);
    expect(before).toBeGreaterThan(0);
    expect(calls).toBe(before);
  });
});

test("any sequence of clicks, drags and keys leaves a valid graph", () => {
  const coordinate = fc.integer({ min: 0, max: 400 });
  const keys = ["a", "b", "c", "d", "e", "g", "l", "m", "n", "p", "r", "s", "x", "[", "]", "Space", "Enter", "Escape", "Delete",
    "Shift+Delete", "Ctrl+Delete", "Backspace", "Shift+m", "Shift+p", "Ctrl+z", "Ctrl+Shift+z", "Alt+ArrowUp", "3", "Ctrl+a"];
  const event = fc.record({
    what: fc.constantFrom("click", "drag", "double", "move", "key", "key"), x: coordinate, y: coordinate, u: coordinate, v: coordinate,
    key: fc.constantFrom(...keys), shift: fc.boolean(), ctrl: fc.boolean(),
  });
  fc.assert(
    fc.property(documents(12), fc.array(event, { maxLength: 25 }), (document, events) => {
      editor = new Editor(fromDocument(document));
      for (const { what, x, y, u, v, key, shift, ctrl } of events) {
        const more = { shift, ctrl, tolerance: 30 };
        if (what === "click") click(x, y, more);
        else if (what === "drag") drag({ x, y }, { x: u, y: v }, more);
        else if (what === "double") editor.doubleClick(at(x, y, more));
        else if (what === "move") editor.pointerMove(at(x, y, more));
        else press(key);
        const { graph, selection, edge, hover } = editor.state;
        checkGraph(graph);
        for (const id of selection) expect(graph.has(id)).toBe(true);
        if (edge !== null) expect(graph.node(edge).parent).not.toBeNull();
        if (hover !== null) expect(graph.has(hover.id)).toBe(true);
      }
      editor.operations();
    }),
    { numRuns: 300 },
  );
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

describe("numbers of plants", () => {
  /** Trees of two nodes, the root of each at x = 100 * (k + 1). */
  const trees = (count: number, numbered: boolean) => ({
    format: "treeformer-skeleton", version: 1,
    nodes: Array.from({ length: 2 * count }, (_, k) => [100 * (1 + Math.floor(k / 2)), k % 2 === 0 ? 100 : 200]),
    edges: Array.from({ length: count }, (_, k) => [2 * k, 2 * k + 1]),
    roots: Array.from({ length: count }, (_, k) => 2 * k),
    ...(numbered ? { plant: Array.from({ length: 2 * count }, (_, k) => Math.floor(k / 2)) } : {}),
  });
  const type = (...keys: string[]): number | null => {
    click(100, 100);
    press("p");
    keys.forEach(press);
    return node(0).plant;
  };

  test.each([true, false])("of two digits are typed like those of one (numbered in the file: %s)", (numbered) => {
    const begin = (): void => void (editor = new Editor(fromDocument(trees(13, numbered))));
    begin();
    expect(type("1", "2")).toBe(12);
    begin();
    expect([type("1"), editor.state.mode]).toEqual([numbered ? 0 : null, "plant"]);
    expect(editor.state.message).toBe("Plant 1: press Enter, or type another digit.");
    press("Enter");
    expect([node(0).plant, editor.state.mode, editor.state.message]).toEqual([1, "select", ""]);
    begin();
    expect(type("1", "Backspace", "7")).toBe(7);
  });

  test("are forgotten by Escape and by another tool", () => {
    editor = new Editor(fromDocument(trees(13, true)));
    expect(type("1", "Escape", "p", "1", "c", "p", "1", "1")).toBe(11);
  });
});
