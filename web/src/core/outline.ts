// The skeleton as a list: plants, below each its axes, below each the axes that begin on it. Rows can be moved.

import { reparent } from "./actions.ts";
import { attachedTo, withAxes } from "./axes.ts";
import { distance } from "./geometry.ts";
import { plantOf } from "./graph.ts";
import type { AxisId, Graph, NodeId } from "./graph.ts";
import type { Action } from "./history.ts";

export interface OutlineRow {
  /** The plant or axis; unique within a graph. */
  readonly key: string;
  /** null for a plant. */
  readonly axis: AxisId | null;
  readonly label: string;
  /** 0 for plants. */
  readonly depth: number;
  /** px. */
  readonly length: number;
  /** The nodes of the axis without the one that it is attached to; all nodes of the plant. */
  readonly nodes: readonly NodeId[];
  /** What moves with the row: the first node of the axis, the roots of the plant. */
  readonly heads: readonly NodeId[];
}

const rows = new WeakMap<Graph, readonly OutlineRow[]>();

/** The rows from top to bottom; cached per graph. */
export function outline(given: Graph): readonly OutlineRow[] {
  let known = rows.get(given);
  if (known === undefined) rows.set(given, (known = derive(given)));
  return known;
}

function derive(given: Graph): OutlineRow[] {
  const graph = withAxes(given);
  const below = new Map<AxisId | null, AxisId[]>();
  for (const axis of graph.topology.paths.keys()) {
    const parent = attachedTo(graph, axis);
    below.set(parent, [...(below.get(parent) ?? []), axis]);
  }
  const members = new Map<number, NodeId[]>();
  for (const id of graph.topology.order) {
    const plant = plantOf(given, id);
    members.set(plant, [...(members.get(plant) ?? []), id]);
  }
  const found: OutlineRow[] = [];
  const add = (axis: AxisId, depth: number): number => {
    const path = graph.path(axis);
    const name = graph.axes.get(axis)?.record;
    const text = [name?.label, name?.id].find((one) => typeof one === "string" && one !== "");
    const length = path.reduce((sum, id, k) => (k === 0 ? 0 : sum + distance(graph.node(id), graph.node(path[k - 1] as NodeId))), 0);
    found.push({
      key: `axis-${axis}`, axis, label: `Axis ${text ?? axis + 1}`, depth, length, nodes: path.slice(1), heads: path.slice(1, 2),
    });
    return (below.get(axis) ?? []).reduce((sum, child) => sum + add(child, depth + 1), length);
  };
  for (const plant of [...members.keys()].sort((a, b) => a - b)) {
    const nodes = members.get(plant) as NodeId[];
    const heads = nodes.filter((id) => graph.node(id).parent === null);
    const at = found.length;
    const main = (below.get(null) ?? []).filter((axis) => plantOf(given, graph.path(axis)[0] as NodeId) === plant);
    const length = main.reduce((sum, axis) => sum + add(axis, 1), 0);
    found.splice(at, 0, { key: `plant-${plant}`, axis: null, label: `Plant ${plant}`, depth: 0, length, nodes, heads });
  }
  return found;
}

/** The node of a row that a head would be attached to: the nearest one that does not lie below it; null if there is none. */
export function attachment(graph: Graph, head: NodeId, target: OutlineRow): NodeId | null {
  const from = graph.node(head);
  let best: NodeId | null = null;
  let least = Infinity;
  for (const id of target.nodes) {
    const far = distance(from, graph.node(id));
    if (far < least && !graph.isBelow(id, head)) [best, least] = [id, far];
  }
  return best;
}

/** Why a row cannot be moved to another one; null if it can. */
export function moveReason(graph: Graph, row: OutlineRow, target: OutlineRow): string | null {
  if (row.key === target.key) return "A row cannot be moved to itself.";
  if (row.heads.some((head) => attachment(graph, head, target) === null)) return "That axis begins below this one.";
  const nodes = new Set<NodeId | null>(target.nodes);
  return row.heads.every((head) => nodes.has(graph.node(head).parent)) ? "It is attached there already." : null;
}

/** Attach an axis, or the trees of a plant, to the nearest nodes of another axis or plant. */
export const moveRow =
  (row: OutlineRow, target: OutlineRow): Action =>
  (graph) => {
    if (moveReason(graph, row, target) !== null) return graph;
    return row.heads.reduce((now, head) => {
      const place = attachment(now, head, target);
      return place === null ? now : reparent(head, place)(now);
    }, graph);
  };
