// Random documents and random actions, for properties in vitest and for the replay in Python.

import fc from "fast-check";
import * as actions from "../src/core/actions.ts";
import { fromDocument } from "../src/core/document.ts";
import type { SkeletonDocument } from "../src/core/document.ts";
import type { Graph, Json, NodeId } from "../src/core/graph.ts";
import type { Action } from "../src/core/history.ts";
import { moveRow, outline } from "../src/core/outline.ts";
import type { OutlineRow } from "../src/core/outline.ts";

const coordinate = fc.oneof(fc.integer({ min: 0, max: 400 }), fc.double({ min: -50, max: 450, noNaN: true }));
const score = fc.double({ min: 0, max: 1, noNaN: true });
const label = fc.oneof(fc.constant(""), fc.string({ maxLength: 5 }));
const json: fc.Arbitrary<Json> = fc.oneof(fc.boolean(), fc.integer(), fc.string({ maxLength: 4 }), fc.constant(null));
const properties = fc.dictionary(fc.string({ maxLength: 4 }), fc.string({ maxLength: 4 }), { maxKeys: 2 });
const free = fc.dictionary(fc.string({ maxLength: 4 }), json, { maxKeys: 2 });

interface Shape {
  readonly parents: readonly (number | null)[];
  readonly rename: readonly number[];
}

/** A forest with at most `most` nodes: the parent of each node, and the index of each node in the file. */
function shape(most: number): fc.Arbitrary<Shape> {
  return fc.integer({ min: 0, max: most }).chain((count) =>
    fc.record({
      parents: fc.tuple(
        ...Array.from({ length: count }, (_, k) =>
          k === 0
            ? fc.constant(null)
            : fc.oneof(
                { weight: 1, arbitrary: fc.constant(null) },
                { weight: 6, arbitrary: fc.integer({ min: 0, max: k - 1 }) },
                { weight: 6, arbitrary: fc.constant(k - 1) },
              ),
        ),
      ) as unknown as fc.Arbitrary<(number | null)[]>,
      rename: fc.shuffledSubarray(Array.from({ length: count }, (_, k) => k), { minLength: count, maxLength: count }),
    }),
  );
}

/** Any document of the native format whose edges form a forest and whose axes are paths away from the roots. */
export function documents(most = 24): fc.Arbitrary<SkeletonDocument> {
  return shape(most).chain(({ parents, rename }) => {
    const count = parents.length;
    const name = (k: number): number => rename[k] as number;
    const children = parents.flatMap((parent, k) => (parent === null ? [] : [[parent, k] as const]));
    const rootOf = parents.map((_, k) => {
      let at = k;
      while (parents[at] != null) at = parents[at] as number;
      return at;
    });
    const lowest = new Map<number, number>();
    rootOf.forEach((root, k) => lowest.set(root, Math.min(lowest.get(root) ?? Infinity, name(k))));
    const trees = parents.flatMap((parent, k) => (parent === null ? [k] : []));
    return fc
      .record({
        points: fc.array(fc.tuple(coordinate, coordinate), { minLength: count, maxLength: count }),
        flips: fc.array(fc.boolean(), { minLength: children.length, maxLength: children.length }),
        order: fc.shuffledSubarray(children, { minLength: children.length, maxLength: children.length }),
        roots: fc.array(fc.integer({ min: 0, max: 9 }), { minLength: trees.length, maxLength: trees.length }),
        radius: fc.option(fc.array(fc.option(fc.double({ min: 0, max: 9, noNaN: true })), { minLength: count, maxLength: count })),
        nodeScore: fc.option(fc.array(score, { minLength: count, maxLength: count })),
        edgeScore: fc.option(fc.array(score, { minLength: children.length, maxLength: children.length })),
        plants: fc.option(fc.array(fc.integer({ min: 0, max: 3 }), { minLength: trees.length, maxLength: trees.length })),
        records: fc.option(fc.array(fc.record({ id: label, label, properties, metadata: free }, { requiredKeys: [] }), { maxLength: 3 })),
        axisKind: fc.option(fc.array(fc.integer({ min: 0, max: 9 }), { minLength: count, maxLength: count })),
        axisRecord: fc.record({ id: label, label, accession: label, properties, metadata: free }, { requiredKeys: [] }),
        sample: fc.option(fc.double({ min: 0, max: 9, noNaN: true })),
        metadata: fc.option(free),
        size: fc.option(fc.tuple(fc.integer({ min: 1, max: 500 }), fc.integer({ min: 1, max: 500 }))),
        imageName: fc.option(label),
        editor: fc.boolean(),
      })
      .map((given) => {
        const document: { [key: string]: Json } = { format: "treeformer-skeleton", version: 1 };
        const at = new Map(rename.map((index, k) => [index, k]));
        const old = (index: number): number => at.get(index) as number;
        const inOrder = Array.from({ length: count }, (_, index) => old(index));
        document.nodes = inOrder.map((k) => given.points[k] as [number, number]);
        document.edges = given.order.map(([u, v], k) => (given.flips[k] ? [name(v), name(u)] : [name(u), name(v)]));
        // A root is stated for most trees; without it the lowest node counts, which must then be the real one.
        const stated = trees.filter((tree, k) => (given.roots[k] as number) < 8 || lowest.get(tree) !== name(tree));
        if (stated.length > 0) document.roots = stated.map(name).sort((a, b) => a - b);
        if (given.radius !== null) document.radius = inOrder.map((k) => given.radius?.[k] ?? null);
        if (given.nodeScore !== null) document.node_score = given.nodeScore;
        if (given.edgeScore !== null) document.edge_score = given.edgeScore;
        if (given.plants !== null) {
          const plantOfTree = new Map(trees.map((tree, k) => [tree, given.plants?.[k] as number]));
          document.plant = inOrder.map((k) => plantOfTree.get(rootOf[k] as number) as number);
        }
        if (given.records !== null && given.records.length > 0) document.plants = given.records;
        if (given.axisKind !== null) addAxes(document, parents, given.axisKind, given.order, name, given);
        if (given.metadata !== null) document.metadata = given.metadata;
        if (given.size !== null) document.image_size = given.size;
        if (given.imageName !== null) document.image_name = given.imageName;
        if (given.editor) {
          const words = ["predicted", "accepted", "edited", "drawn", "traced", "imported"];
          const metadata = (document.metadata ?? {}) as { [key: string]: Json };
          metadata.editor = {
            node_source: inOrder.map((k) => words[k % 6] as string),
            edge_source: given.order.map((_, k) => words[(k * 5) % 6] as string),
            seconds: 1.5,
            actions: 3,
            accepted: true,
            model: { name: "m", version: "1", hash: "h" },
            px_per_mm: 2.5,
          };
          document.metadata = metadata;
        }
        return document;
      });
  });
}

function addAxes(
  document: { [key: string]: Json },
  parents: readonly (number | null)[],
  kind: readonly number[],
  order: readonly (readonly [number, number])[],
  name: (k: number) => number,
  given: { axisRecord: { [key: string]: Json }; sample: number | null },
): void {
  const axes: { nodes: number[]; parent: number | null; plant: number; [key: string]: Json }[] = [];
  const axisOf = new Map<number, number>();
  const tip = new Map<number, number>();
  const plant = document.plant as number[] | undefined;
  parents.forEach((parent, k) => {
    if (parent === null || kind[k] === 0) return;
    const above = axisOf.get(parent);
    if (above !== undefined && tip.get(above) === parent && (kind[k] as number) > 4) {
      (axes[above] as { nodes: number[] }).nodes.push(k);
      axisOf.set(k, above);
      tip.set(above, k);
      return;
    }
    axisOf.set(k, axes.length);
    tip.set(axes.length, k);
    axes.push({ nodes: [parent, k], parent: above ?? null, plant: plant?.[name(k)] ?? 0, ...given.axisRecord });
  });
  document.axes = axes.map(({ nodes, ...rest }, index) => {
    // Readers leave out junctions that they add: the attach point, or a node in the middle.
    const points = nodes.filter((_, k) => !((index % 3 === 1 && k === 0) || (index % 4 === 2 && k === 1 && nodes.length > 2)));
    const row: { [key: string]: Json } = { nodes: points.map(name), ...rest };
    if (given.sample !== null) {
      row.functions = [
        { name: "diameter", samples: points.map((p, k) => (k === 1 ? null : (given.sample as number) + p)), domain: "polyline", origin: "" },
        { name: "age", samples: [1, 2], domain: "uniform", origin: "base", positions: [0, 1] },
      ];
    }
    return row;
  });
  document.edge_axis = order.map(([, child]) => axisOf.get(child) ?? -1);
}

/** One random action. The numbers choose among the nodes that exist when it is applied. */
export interface Command {
  readonly kind: number;
  readonly a: number;
  readonly b: number;
  readonly x: number;
  readonly y: number;
}

export const commands = (most = 12): fc.Arbitrary<Command[]> =>
  fc.array(
    fc.record({ kind: fc.nat(CASES.length - 1), a: fc.nat(999), b: fc.nat(999), x: coordinate, y: coordinate }),
    { maxLength: most },
  );

type Case = readonly [name: string, make: (a: NodeId, b: NodeId, x: number, y: number, graph: Graph) => Action];

const REGION: SkeletonDocument = {
  format: "treeformer-skeleton", version: 1, nodes: [[100, 100], [110, 120], [120, 140], [130, 110]],
  edges: [[0, 1], [1, 2], [1, 3]], roots: [0], node_score: [1, 1, 1, 1], edge_score: [0.9, 0.8, 0.7], plant: [0, 0, 0, 0],
  axes: [{ nodes: [0, 1, 2], parent: null, plant: 0 }, { nodes: [1, 3], parent: 0, plant: 0 }], edge_axis: [0, 0, 1],
};

const some = (graph: Graph, a: number, b: number): NodeId[] => graph.nodes.values().map(({ id }) => id).filter((id) => (id * 7 + a) % 5 <= b % 3);

const rowOf = (graph: Graph, k: number): OutlineRow => outline(graph)[k % outline(graph).length] as OutlineRow;

export const CASES: readonly Case[] = [
  ["moveNode", (a, _b, x, y) => actions.moveNode(a, x, y)],
  ["moveNodes", (a, b, x, y, graph) => actions.moveNodes(some(graph, a, b), x / 10, y / 10)],
  ["addRoot", (_a, _b, x, y) => actions.addRoot(x, y)],
  ["addChild", (a, _b, x, y) => actions.addChild(a, x, y)],
  ["addPath", (a, b, x, y) => actions.addPath(b % 4 === 0 ? null : a, [{ x, y }, { x: y, y: x, radius: 2 }, { x: x + 1, y }], "traced")],
  ["insertOnEdge", (a, _b, x, y) => actions.insertOnEdge(a, x, y)],
  ["deleteHeal", (a) => actions.deleteNode(a, "heal")],
  ["deleteCut", (a) => actions.deleteNode(a, "cut")],
  ["deleteSubtree", (a, _b, x, _y, graph) => (x < 100 || graph.children(a).length < 2 ? actions.deleteNode(a, "subtree") : actions.deleteNode(a))],
  ["deleteSome", (a, b, _x, y, graph) => actions.deleteNodes(some(graph, a, b).slice(0, 4), y < 150 ? "heal" : "cut")],
  ["cutEdge", (a) => actions.cutEdge(a)],
  ["cutEdges", (a, b, _x, _y, graph) => actions.cutEdges(some(graph, a, b).slice(0, 3))],
  ["connect", (a, b) => actions.connect(a, b)],
  ["reparent", (a, b) => actions.reparent(a, b)],
  ["mergeNodes", (a, b) => actions.mergeNodes(a, b)],
  ["reRoot", (a) => actions.reRoot(a)],
  ["setPlant", (a, b) => actions.setPlant([a], b % 3 === 0 ? "new" : b % 5)],
  ["continueAxis", (a) => actions.continueAxis(a)],
  ["startAxis", (a) => actions.startAxis(a)],
  ["accept", (a, b) => actions.accept([a, b])],
  ["acceptAll", () => actions.acceptAll()],
  ["setRadius", (a, b) => actions.setRadius([a], b % 2 === 0 ? null : b)],
  ["setScale", (_a, b) => actions.setScale(b % 2 === 0 ? null : b)],
  ["setAxisLabel", (a, _b, _x, _y, graph) => actions.setAxisLabel(graph.node(a).axis ?? 0, "main")],
  ["deleteAxis", (a, _b, _x, _y, graph) => actions.deleteAxis(graph.node(a).axis ?? 0)],
  ["moveRow", (a, b, _x, _y, graph) => moveRow(rowOf(graph, a), rowOf(graph, b))],
  ["mergeGraph", (_a, b, x, y) => actions.mergeGraph(fromDocument(REGION), { region: b % 2 === 0 ? [80, 80, 200, 200] : null, snap: Math.abs(x + y) / 8 })],
];

const NEEDS_NO_NODE = new Set(["addRoot", "acceptAll", "setScale", "mergeGraph"]);

/** The action of a command for a graph; null if the graph has no nodes and the action needs one. */
export function actionOf(graph: Graph, { kind, a, b, x, y }: Command): { name: string; action: Action } | null {
  const [name, make] = CASES[kind] as Case;
  const ids = graph.nodes.values().map(({ id }) => id);
  if (ids.length === 0 && !NEEDS_NO_NODE.has(name)) return null;
  const pick = (k: number): NodeId => ids[k % Math.max(1, ids.length)] as NodeId;
  return { name, action: make(pick(a), pick(b), x, y, graph) };
}
