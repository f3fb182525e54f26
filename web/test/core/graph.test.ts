import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  addChild, addPath, connect, continueAxis, cutEdge, deleteNode, insertOnEdge, mergeGraph, mergeNodes, moveNode, reRoot, reparent,
  setScale,
} from "../../src/core/actions.ts";
import { withAxes } from "../../src/core/axes.ts";
import { axisPoints } from "../../src/core/axispoints.ts";
import { fromDocument, loadDocument, toDocument } from "../../src/core/document.ts";
import { Graph } from "../../src/core/graph.ts";
import { History } from "../../src/core/history.ts";
import { scaleOf } from "../../src/core/measures.ts";
import { Vector } from "../../src/core/vector.ts";

/** Root 0, main axis 0-1-2-3, lateral 1-4-5 with a function, second tree 6-7. */
const DOCUMENT = {
  format: "treeformer-skeleton", version: 1,
  nodes: [[0, 0], [0, 10], [0, 20], [0, 30], [8, 14], [16, 18], [50, 0], [50, 9]],
  edges: [[0, 1], [1, 2], [2, 3], [1, 4], [4, 5], [6, 7]],
  roots: [0, 6],
  edge_score: [0.9, 0.8, 0.7, 0.6, 0.5, 0.4],
  plant: [0, 0, 0, 0, 0, 0, 1, 1],
  axes: [
    { nodes: [0, 1, 2, 3], parent: null, plant: 0, id: "m", label: "main" },
    { nodes: [1, 4, 5], parent: 0, plant: 0, id: "l", functions: [{ name: "diameter", samples: [3, 2, 1], domain: "polyline", origin: "" }] },
    { nodes: [6, 7], parent: null, plant: 1 },
  ],
  edge_axis: [0, 0, 0, 1, 1, 2],
};
const graph = fromDocument(DOCUMENT);
const parents = (g: Graph): Record<number, number | null> => Object.fromEntries(g.nodes.values().map(({ id, parent }) => [id, parent]));
const points = (g: Graph): number[][] => [...g.axes.keys()].map((id) => [...axisPoints(g, id)]);

describe("vector", () => {
  test("behaves like a map, and old versions stay", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(300), fc.option(fc.nat()))), (changes) => {
        let vector = Vector.empty<number>();
        const map = new Map<number, number>();
        for (const [key, value] of changes) {
          const before = [...vector.entries()];
          const old = vector;
          vector = value === null ? vector.delete(key) : vector.set(key, value);
          if (value === null) map.delete(key);
          else map.set(key, value);
          expect([...old.entries()]).toEqual(before);
        }
        expect([...vector.entries()]).toEqual([...map].sort((a, b) => a[0] - b[0]));
        expect(vector.size).toBe(map.size);
      }),
    );
  });
});

describe("structural sharing", () => {
  const large = addPath(null, Array.from({ length: 2000 }, (_, k) => ({ x: k, y: 0 })))(Graph.empty());

  test("a move keeps the topology, the axes and all other nodes", () => {
    const moved = moveNode(1000, 5, 5)(large);
    expect(moved.topology).toBe(large.topology);
    expect(moved.axes).toBe(large.axes);
    const changed = moved.nodes.values().filter((node) => node !== large.get(node.id));
    expect(changed.map(({ id }) => id)).toEqual([1000]);
  });

  test("an added node leaves all others as they are", () => {
    const added = addChild(1999, 5, 5)(large);
    expect(added.nodes.values().filter((node) => node !== large.get(node.id)).map(({ id }) => id)).toEqual([2000]);
  });
});

describe("actions", () => {
  test("a child of a tip continues its axis, one elsewhere begins a lateral", () => {
    const atTip = addChild(3, 0, 40)(graph);
    expect(axisPoints(atTip, 0)).toEqual([0, 1, 2, 3, 8]);
    const elsewhere = addChild(2, 9, 25)(graph);
    expect(axisPoints(elsewhere, 3)).toEqual([2, 8]);
    expect(elsewhere.axes.get(3)?.parent).toBe(0);
  });

  test("an inserted node is on the axis, between the scores and the values", () => {
    const inserted = insertOnEdge(4, 4, 12)(graph);
    expect(axisPoints(inserted, 1)).toEqual([1, 8, 4, 5]);
    expect(inserted.node(8).edgeScore).toBe(0.6);
    const { axes } = toDocument(inserted) as unknown as { axes: { functions?: { samples: number[] }[] }[] };
    expect(axes[1]?.functions?.[0]?.samples[1]).toBeCloseTo(2.5);
  });

  test("nodes beyond the known values of an axis have the nearest one, because RSML needs every sample", () => {
    const extended = addChild(8, 32, 26)(addChild(5, 24, 22)(graph));
    expect(axisPoints(extended, 1)).toEqual([1, 4, 5, 8, 9]);
    const samples = (g: Graph) =>
      (toDocument(g) as unknown as { axes: { functions?: { samples: (number | null)[] }[] }[] }).axes[1]?.functions?.[0]?.samples;
    expect(samples(extended)).toEqual([3, 2, 1, 1, 1]);
    const functions = [{ raw: { name: "diameter" }, values: new Map([[5, 2]]) }];
    const axis = { ...extended.axes.get(1)!, functions };
    expect(samples(extended.with({ axes: new Map(extended.axes).set(1, axis) }))).toEqual([2, 2, 2, 2, 2]);
  });

  test("a scale that is removed is removed from the metadata of RSML too, and undo brings it back", () => {
    const rsml = { unit: "cm", resolution: "118", software: "x" };
    const scaled = graph.with({ metadata: { rsml, other: 1 } });
    expect(scaleOf(scaled)).toBeCloseTo(11.8);
    const history = new History(scaled);
    expect(history.perform("Remove scale", setScale(null))).toBe(true);
    expect(scaleOf(history.graph)).toBeNull();
    expect(history.graph.metadata).toEqual({ rsml: { software: "x" }, other: 1 });
    expect(history.perform("Remove scale", setScale(null))).toBe(false);
    history.undo();
    expect(scaleOf(history.graph)).toBeCloseTo(11.8);
  });

  test("delete heals with the lowest score, or cuts", () => {
    const healed = deleteNode(2)(graph);
    expect(parents(healed)[3]).toBe(1);
    expect(healed.node(3).edgeScore).toBe(0.7);
    expect(axisPoints(healed, 0)).toEqual([0, 1, 3]);
    const cut = deleteNode(1, "cut")(graph);
    expect(parents(cut)).toEqual({ 0: null, 2: null, 3: 2, 4: null, 5: 4, 6: null, 7: 6 });
    expect(new Set([0, 2, 4, 6].map((id) => cut.node(id).plant)).size).toBe(4);
    expect(parents(deleteNode(1, "subtree")(graph))).toEqual({ 0: null, 6: null, 7: 6 });
  });

  test("deleting a root makes the longest child the root of the others", () => {
    const other = addChild(0, 5, 0)(graph);
    expect(parents(deleteNode(0)(other))).toMatchObject({ 1: null, 2: 1, 8: 1 });
  });

  test("a cut makes a new plant whose axis is a part of the old one", () => {
    const cut = cutEdge(2)(graph);
    expect(cut.node(2)).toMatchObject({ parent: null, plant: 2, axis: null, edgeScore: null });
    expect(axisPoints(cut, 0)).toEqual([0, 1]);
    expect(cut.axes.get(0)?.record.id).toBe("m");
    const part = cut.node(3).axis as number;
    expect(cut.axes.get(part)).toMatchObject({ parent: null, plant: 2, record: { label: "main" } });
    expect(cut.axes.get(part)?.record.id).toBeUndefined();
  });

  test("cut and connect restore the tree", () => {
    const back = connect(4, 1)(cutEdge(4)(graph));
    expect(parents(back)).toEqual(parents(graph));
    expect(points(back)).toEqual(points(graph));
    expect(back.axes.get(1)).toMatchObject({ parent: 0, plant: 0, record: { id: "l" } });
  });

  test("connect attaches a root, and re-roots the smaller tree if neither is one", () => {
    expect(parents(connect(6, 5)(graph))[6]).toBe(5);
    expect(parents(connect(5, 6)(graph))[6]).toBe(5);
    const turned = connect(7, 5)(graph);
    expect(parents(turned)).toMatchObject({ 7: 5, 6: 7 });
    expect(turned.node(6).plant).toBe(0);
    expect(turned.node(6).edgeScore).toBe(0.4);
  });

  test("connecting at a tip continues its axis", () => {
    const joined = connect(6, 3)(graph);
    expect(axisPoints(joined, 0)).toEqual([0, 1, 2, 3, 6, 7]);
    expect(joined.axes.has(2)).toBe(false);
  });

  test("re-parent refuses a cycle and moves a lateral with its record", () => {
    expect(reparent(1, 5)(graph)).toBe(graph);
    const moved = reparent(4, 2)(graph);
    expect(axisPoints(moved, 1)).toEqual([2, 4, 5]);
    expect(moved.axes.get(1)).toMatchObject({ parent: 0, record: { id: "l" } });
  });

  test("re-root turns the path; twice is the identity for parents and scores", () => {
    const turned = reRoot(3)(graph);
    expect(parents(turned)).toMatchObject({ 3: null, 2: 3, 1: 2, 0: 1, 4: 1 });
    expect(axisPoints(turned, 0)).toEqual([3, 2, 1, 0]);
    expect(turned.axes.get(1)?.parent).toBe(0);
    const back = reRoot(0)(turned);
    expect(parents(back)).toEqual(parents(graph));
    expect(points(back)).toEqual(points(graph));
    expect(back.nodes.values().map(({ edgeScore }) => edgeScore)).toEqual(graph.nodes.values().map(({ edgeScore }) => edgeScore));
  });

  test("continue axis exchanges the two continuations", () => {
    const swapped = continueAxis(4)(graph);
    expect(axisPoints(swapped, 0)).toEqual([0, 1, 4, 5]);
    expect(axisPoints(swapped, 1)).toEqual([1, 2, 3]);
    expect(swapped.axes.get(1)?.parent).toBe(0);
    expect(points(continueAxis(2)(swapped))).toEqual(points(graph));
    expect(continueAxis(2)(graph)).toBe(graph);
    expect(continueAxis(1)(graph)).toBe(graph);
  });

  test("merged nodes are one, at the place of the second", () => {
    const merged = mergeNodes(6, 5)(graph);
    expect(merged.has(6)).toBe(false);
    expect(parents(merged)[7]).toBe(5);
    expect(merged.node(5)).toMatchObject({ x: 16, y: 18 });
  });

  test("the prediction of a region replaces its nodes and is joined at the border", () => {
    const line = fromDocument({
      format: "treeformer-skeleton", version: 1, nodes: [[0, 0], [0, 10], [0, 20], [0, 30], [0, 40]],
      edges: [[0, 1], [1, 2], [2, 3], [3, 4]], roots: [0], plant: [0, 0, 0, 0, 0],
      axes: [{ nodes: [0, 1, 2, 3, 4], parent: null, plant: 0 }], edge_axis: [0, 0, 0, 0],
    });
    const found = fromDocument({
      format: "treeformer-skeleton", version: 1, nodes: [[1, 14], [1, 20], [1, 26]], edges: [[0, 1], [1, 2]], roots: [0],
      plant: [0, 0, 0], axes: [{ nodes: [0, 1, 2], parent: null, plant: 0 }], edge_axis: [0, 0],
    });
    const merged = mergeGraph(found, { region: [-5, 13, 5, 27], snap: 8 })(line);
    expect(merged.roots).toEqual([0]);
    expect(merged.has(2)).toBe(false);
    expect(merged.nodes.values().every(({ plant }) => plant === 0)).toBe(true);
    expect(points(merged)).toEqual([[0, 1, 5, 6, 7, 3, 4]]);
  });

  test("axes that are not stated are inferred and stay implicit until one is changed", () => {
    const { axes: _, edge_axis: __, ...plain } = DOCUMENT;
    const implicit = fromDocument(plain);
    const moved = moveNode(3, 1, 31)(implicit);
    expect(toDocument(moved).axes).toBeUndefined();
    expect(points(withAxes(implicit))).toEqual([[0, 1, 2, 3], [6, 7], [1, 4, 5]]);
    expect(toDocument(continueAxis(4)(implicit)).axes).toBeDefined();
  });
});

describe("documents", () => {
  test("axes that are no paths are split, and a note says so", () => {
    const { graph: split, notes } = loadDocument({
      format: "treeformer-skeleton", version: 1, nodes: [[0, 0], [0, 1], [1, 2], [2, 2]], edges: [[0, 1], [1, 2], [1, 3]],
      roots: [0], axes: [{ nodes: [0, 1, 2] }], edge_axis: [0, 0, 0],
    });
    expect(split.axes.size).toBe(2);
    expect(notes).toEqual(["1 of the axes were not one path from base to tip and were split."]);
  });

  test("provenance is written for each node and edge", () => {
    const edited = addChild(3, 0, 40)(moveNode(2, 1, 20)(graph));
    const written = toDocument(edited, { seconds: 12, actions: 2, accepted: true, model: null });
    const { editor } = written.metadata as unknown as { editor: Record<string, string[]> };
    expect(editor.node_source).toEqual(["imported", "imported", "edited", "imported", "imported", "imported", "imported", "imported", "drawn"]);
    expect(editor.edge_source).toHaveLength(7);
    expect(editor).toMatchObject({ seconds: 12, actions: 2, accepted: true, model: null, px_per_mm: null });
    expect(fromDocument(written).node(8).source.node).toBe("drawn");
  });
});
