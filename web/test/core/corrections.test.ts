import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addPath, deleteNodes, insertOnEdge, moveNodes } from "../../src/core/actions.ts";
import { applyCorrection, corrections, inverse, mapped, moved } from "../../src/core/corrections.ts";
import type { Similarity } from "../../src/core/corrections.ts";
import { fromDocument } from "../../src/core/document.ts";
import type { Graph } from "../../src/core/graph.ts";
import { commands, actionOf, documents } from "../arbitrary.ts";
import { checkGraph } from "../check.ts";

/** A line from (100, 100) down to (100, 400), a lateral to (180, 260). */
const DOCUMENT = {
  format: "treeformer-skeleton", version: 1,
  nodes: [[100, 100], [100, 200], [100, 300], [100, 400], [180, 260]],
  edges: [[0, 1], [1, 2], [2, 3], [1, 4]], roots: [0], plant: [0, 0, 0, 0, 0],
  axes: [{ nodes: [0, 1, 2, 3], parent: null, plant: 0 }, { nodes: [1, 4], parent: 0, plant: 0 }],
  edge_axis: [0, 0, 0, 1],
};

const TURNED: Similarity = [0.98 * Math.cos(0.1), 0.98 * Math.sin(0.1), 30, -12];
const shape = (graph: Graph): string[] =>
  graph.nodes.values().map(({ x, y, parent }) => {
    const above = parent === null ? null : graph.node(parent);
    const text = (p: { x: number; y: number }): string => `${p.x.toFixed(3)} ${p.y.toFixed(3)}`;
    return `${text({ x, y })} < ${above ? text(above) : "root"}`;
  }).sort();
const at = (graph: Graph, map: Similarity): Graph =>
  fromDocument({ ...DOCUMENT, nodes: graph.nodes.values().map((node) => (({ x, y }) => [x, y])(mapped(map, node))) });

describe("corrections", () => {
  const before = fromDocument(DOCUMENT);

  test("a branch that was added is added at the other date, at the same place of the plant", () => {
    const after = addPath(2, [{ x: 60, y: 330 }, { x: 20, y: 350 }])(before);
    const other = at(before, TURNED);
    const [only, ...more] = corrections(before, after);
    expect(more).toEqual([]);
    expect(only).toMatchObject({ kind: "add", attached: true });
    const offered = moved(only!, [1, 0, 0, 0], inverse(TURNED));
    const result = applyCorrection(offered, 6)(other);
    checkGraph(result);
    const wanted = after.nodes.values().map((node) => mapped(TURNED, node));
    expect(result.nodes.values().map(({ x, y }) => [x.toFixed(3), y.toFixed(3)])).toEqual(
      wanted.map(({ x, y }) => [x.toFixed(3), y.toFixed(3)]),
    );
    expect(result.get(5)?.parent).toBe(2);
    // A second time there is nothing to add.
    expect(applyCorrection(offered, 6)(result)).toBe(result);
  });

  test("a branch that begins on an edge, and one with a side branch", () => {
    const start = insertOnEdge(3, 100, 350)(before);
    const first = addPath(5, [{ x: 150, y: 360 }, { x: 200, y: 400 }])(start);
    const after = addPath(6, [{ x: 160, y: 300 }])(first);
    const list = corrections(before, after);
    expect(list.map(({ points }) => points.length)).toEqual([3, 2]);
    const result = list.reduce((graph, one) => applyCorrection(one, 6)(graph), before);
    expect(shape(result)).toEqual(shape(after));
  });

  test("a branch that was removed is removed; what leaves it and was kept stays", () => {
    const after = deleteNodes([4], "subtree")(before);
    const list = corrections(before, after);
    expect(list).toEqual([{ kind: "remove", attached: true, points: [{ x: 100, y: 200 }, { x: 180, y: 260 }] }]);
    expect(shape(applyCorrection(list[0]!, 6)(before))).toEqual(shape(after));
    const grown = addPath(4, [{ x: 260, y: 300 }])(before);
    expect(applyCorrection(list[0]!, 6)(grown)).toBe(grown);
  });

  test("moves and nodes inserted on an edge are not carried over, nor what has no counterpart", () => {
    expect(corrections(before, moveNodes([4], 10, 3)(before))).toEqual([]);
    expect(corrections(before, insertOnEdge(3, 100, 350)(before))).toEqual([]);
    const far = { kind: "add" as const, attached: true, points: [{ x: 500, y: 500 }, { x: 600, y: 600 }] };
    expect(applyCorrection(far, 6)(before)).toBe(before);
  });

  test("the inverse undoes a map", () => {
    const similarity = fc.tuple(fc.double({ min: 0.2, max: 3, noNaN: true }), fc.double({ min: -3, max: 3, noNaN: true }),
      fc.integer({ min: -900, max: 900 }), fc.integer({ min: -900, max: 900 }));
    fc.assert(fc.property(similarity, fc.integer({ min: 0, max: 4000 }), fc.integer({ min: 0, max: 4000 }), (map, x, y) => {
      const back = mapped(inverse(map), mapped(map, { x, y }));
      expect(Math.hypot(back.x - x, back.y - y)).toBeLessThan(1e-6);
    }));
  });

  test("any edits, offered to any graph, leave a forest", () => {
    fc.assert(fc.property(documents(), documents(), commands(8), (one, two, list) => {
      const start = fromDocument(one);
      let edited = start;
      for (const command of list) edited = actionOf(edited, command)?.action(edited) ?? edited;
      let other = fromDocument(two);
      for (const correction of corrections(start, edited)) other = applyCorrection(correction, 6)(other);
      checkGraph(other);
    }), { numRuns: 60 });
  });
});
