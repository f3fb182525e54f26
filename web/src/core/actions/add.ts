// Actions that add nodes.

import type { AxisId, Graph, Node, NodeId, Source } from "../graph.ts";
import type { Action } from "../history.ts";
import { newAxis } from "../axes.ts";
import { Edit, blank, freshPlant, isPlace } from "./common.ts";

export interface Place {
  readonly x: number;
  readonly y: number;
  /** Radius, px, if it is known. */
  readonly radius?: number | null;
}

/** Add a node that is the root of a new tree and of a new plant. Its id is `graph.nextNode`. */
export const addRoot =
  (x: number, y: number, source: Source = "drawn"): Action =>
  (graph) => {
    if (!isPlace(x, y)) return graph;
    const edit = new Edit(graph);
    edit.add(blank(x, y, source, { plant: graph.explicitPlants ? freshPlant(graph) : null }));
    return edit.finish();
  };

/** Add a child. It continues the axis at a tip and begins a new axis elsewhere. Its id is `graph.nextNode`. */
export const addChild =
  (parent: NodeId, x: number, y: number, source: Source = "drawn"): Action =>
  (graph) =>
    addPath(parent, [{ x, y }], source)(graph);

/**
 * Add a line of nodes that begins at a node, or a new tree if `from` is null. The line is one axis: it continues that of
 * a tip and is a new one elsewhere. The new ids count up from `graph.nextNode`.
 */
export const addPath =
  (from: NodeId | null, points: readonly Place[], source: Source = "drawn"): Action =>
  (graph) => {
    if (points.length === 0 || !points.every(({ x, y }) => isPlace(x, y))) return graph;
    const edit = new Edit(graph);
    const plant = from !== null ? graph.node(from).plant : graph.explicitPlants ? freshPlant(graph) : null;
    let axis: AxisId | null = null;
    let at = from;
    for (const { x, y, radius } of points) {
      if (at !== null && axis === null && graph.explicitAxes) axis = axisOfChild(edit, graph.get(at) ?? null);
      at = edit.add(blank(x, y, source, { parent: at, plant, axis: at === null ? null : axis, radius: radius ?? null }));
    }
    return edit.finish();
  };

/** The axis of a new edge below a node: that of a tip, otherwise a new one. A null node is new itself. */
function axisOfChild(edit: Edit, parent: Node | null): AxisId {
  const isTip = parent !== null && parent.axis !== null && edit.before.children(parent.id).length === 0;
  return isTip ? (parent.axis as AxisId) : edit.addAxis(newAxis({ parent: parent?.axis ?? null }));
}

/** Insert a node on the edge between `child` and its parent. Its id is `graph.nextNode`. */
export const insertOnEdge =
  (child: NodeId, x: number, y: number, source: Source = "drawn"): Action =>
  (graph) => {
    const below = graph.node(child);
    const above = graph.parent(child);
    if (above === null || !isPlace(x, y)) return graph;
    const edit = new Edit(graph);
    const id = edit.add({
      ...blank(x, y, source),
      parent: above.id,
      plant: below.plant,
      axis: below.axis,
      radius: interpolatedRadius(above, below, x, y),
      edgeScore: below.edgeScore,
      source: { node: source, edge: below.source.edge },
    });
    edit.set(child, { parent: id });
    return edit.finish();
  };

function interpolatedRadius(above: Node, below: Node, x: number, y: number): number | null {
  if (above.radius === null || below.radius === null) return null;
  const [a, b] = [Math.hypot(x - above.x, y - above.y), Math.hypot(x - below.x, y - below.y)];
  const t = a + b > 0 ? a / (a + b) : 0;
  return (1 - t) * above.radius + t * below.radius;
}

/** The ids that `addPath` gives to new nodes. */
export function newIds(before: Graph, after: Graph): NodeId[] {
  return Array.from({ length: after.nextNode - before.nextNode }, (_, k) => before.nextNode + k);
}
