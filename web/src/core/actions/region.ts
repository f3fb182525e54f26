// Merge the prediction of a region into a graph.

import type { Axis, AxisId, Graph, Node, NodeId } from "../graph.ts";
import { plantOf } from "../graph.ts";
import { withExplicitAxes } from "../axes.ts";
import type { Action } from "../history.ts";
import { freshPlant, numberPlants, settle } from "./common.ts";
import { connect } from "./connect.ts";
import { deleteNodes } from "./remove.ts";

export type Box = readonly [x0: number, y0: number, x1: number, y1: number];

export interface MergeOptions {
  /** Nodes inside this box are replaced, px; null keeps everything. */
  readonly region: Box | null;
  /** Ends that were cut at the border are joined to new nodes within this distance, px. */
  readonly snap: number;
}

/** Insert another graph. Its plants become new ones unless they are joined to trees that were cut at the border. */
export const mergeGraph =
  (other: Graph, { region, snap }: MergeOptions): Action =>
  (graph) => {
    const inside = region === null ? [] : graph.nodes.values().filter((node) => isInside(node, region));
    if (inside.length === 0 && other.size === 0) return graph;
    const gone = new Set(inside.map(({ id }) => id));
    // Nodes outside that lose a neighbor inside are loose ends.
    const ends = new Set<NodeId>();
    graph.nodes.forEach(({ id, parent }) => {
      if (parent === null || gone.has(id) === gone.has(parent)) return;
      ends.add(gone.has(id) ? parent : id);
    });
    const cleared = deleteNodes(gone, "cut")(graph);
    const first = cleared.nextNode;
    const merged = insertAll(cleared, other);
    return joinEnds(merged, [...ends], first, snap);
  };

function isInside({ x, y }: Node, [x0, y0, x1, y1]: Box): boolean {
  return x >= x0 && x <= x1 && y >= y0 && y <= y1;
}

function insertAll(graph: Graph, given: Graph): Graph {
  if (given.size === 0) return graph;
  const host = graph.explicitAxes ? numberPlants(graph) : graph;
  const other = host.explicitAxes ? withExplicitAxes(given) : given;
  const { nextNode, nextAxis } = host;
  const isNumbered = host.explicitPlants || (host.explicitAxes && host.size === 0);
  const firstPlant = freshPlant(host);
  const shift = (id: NodeId): NodeId => id + nextNode;
  const nodes = other.nodes.values().map((node): [NodeId, Node] => [
    shift(node.id),
    {
      ...node,
      id: shift(node.id),
      parent: node.parent === null ? null : shift(node.parent),
      axis: node.axis === null || !host.explicitAxes ? null : node.axis + nextAxis,
      plant: isNumbered ? firstPlant + plantOf(other, node.id) : null,
    },
  ]);
  const axes = new Map(host.axes);
  if (host.explicitAxes) {
    for (const [id, axis] of other.axes) axes.set(id + nextAxis, shiftAxis(axis, nextAxis, shift, firstPlant));
  }
  const changed = host.with({
    nodes: host.nodes.update(nodes),
    nextNode: nextNode + other.nextNode,
    nextAxis: nextAxis + (host.explicitAxes ? other.nextAxis : 0),
    axes,
    explicitPlants: isNumbered,
    assumedRoots: new Set([...host.assumedRoots, ...[...other.assumedRoots].map(shift)]),
  });
  return settle(changed, host);
}

function shiftAxis(axis: Axis, by: AxisId, shift: (id: NodeId) => NodeId, firstPlant: number): Axis {
  const values = axis.functions?.map((one) => ({
    ...one,
    values: one.values === null ? null : new Map([...one.values].map(([id, value]) => [shift(id), value])),
  }));
  const { id: _, ...record } = axis.record;
  return {
    ...axis,
    parent: axis.parent === null ? null : axis.parent + by,
    plant: axis.plant + firstPlant,
    skipped: new Set([...axis.skipped].map(shift)),
    verbatim: axis.verbatim && { points: axis.verbatim.points.map(shift), path: axis.verbatim.path.map(shift) },
    functions: values ?? null,
    record,
  };
}

/** Join loose ends to the nearest new nodes, shortest distance first; each end and each new node is used once. */
function joinEnds(graph: Graph, ends: readonly NodeId[], firstNew: NodeId, snap: number): Graph {
  const pairs: { end: NodeId; node: NodeId; distance: number }[] = [];
  for (const end of ends) {
    const at = graph.node(end);
    graph.nodes.forEach((node) => {
      if (node.id < firstNew) return;
      const distance = Math.hypot(node.x - at.x, node.y - at.y);
      if (distance <= snap) pairs.push({ end, node: node.id, distance });
    });
  }
  pairs.sort((a, b) => a.distance - b.distance || a.end - b.end || a.node - b.node);
  const used = new Set<NodeId>();
  let state = graph;
  for (const { end, node } of pairs) {
    if (used.has(end) || used.has(node) || state.rootOf(end) === state.rootOf(node)) continue;
    used.add(end).add(node);
    state = connect(end, node)(state);
  }
  return state;
}
