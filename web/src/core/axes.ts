// Axes of a forest: inference from the shape, orders, and the repair that keeps every axis one path.

import type { Axis, AxisId, Graph, JsonObject, Node, NodeId } from "./graph.ts";

/** Two continuations whose directions differ by less than this (in cosine) are a tie: the longer one wins. */
export const STRAIGHTNESS_TIE = 1e-9;

const NONE: ReadonlySet<NodeId> = new Set();
const NOTHING: Axis["omitted"] = new Set();

/** A new axis record. */
export function newAxis(fields: Partial<Axis> = {}): Axis {
  const empty = { skipped: NONE, verbatim: null, functions: null, omitted: NOTHING, record: {} };
  return { parent: null, plant: 0, ...empty, ...fields };
}

/** The record of a part that was cut off an axis: the same label and values, but no id, which belongs to one axis. */
export function partOfAxis(axis: Axis): Axis {
  const record: JsonObject = Object.fromEntries(Object.entries(axis.record).filter(([key]) => key !== "id"));
  const functions = axis.functions?.filter((one) => one.values !== null) ?? null;
  return { ...axis, verbatim: null, functions, record };
}

/** True if each node of a path is the parent of the next. */
export function isChain(graph: Graph, path: readonly NodeId[]): boolean {
  for (let at = 1; at < path.length; at++) {
    if (graph.node(path[at] as NodeId).parent !== path[at - 1]) return false;
  }
  return true;
}

/** Order of each axis: 0 without a parent, otherwise one more than its parent's. Raise an error for a cycle. */
export function axisOrders(axes: ReadonlyMap<AxisId, Axis>): Map<AxisId, number> {
  const orders = new Map<AxisId, number>();
  for (const start of axes.keys()) {
    const pending: AxisId[] = [];
    let at: AxisId | null = start;
    while (at !== null && !orders.has(at)) {
      if (pending.length > axes.size) throw new Error(`axis ${start} is its own ancestor`);
      pending.push(at);
      at = axes.get(at)?.parent ?? null;
    }
    let order = at === null ? -1 : (orders.get(at) as number);
    for (const axis of pending.reverse()) orders.set(axis, ++order);
  }
  return orders;
}

/** For each node, the child along which an inferred axis continues. Roots and tips have none. */
export function inferContinuation(graph: Graph, minReachFraction = 0): Map<NodeId, NodeId> {
  const { order } = graph.topology;
  const reach = new Map<NodeId, number>();
  const length = (node: Node, parent: Node): number => Math.hypot(node.x - parent.x, node.y - parent.y);
  for (let at = order.length - 1; at >= 0; at--) {
    const node = graph.node(order[at] as NodeId);
    if (node.parent === null) continue;
    const through = (reach.get(node.id) ?? 0) + length(node, graph.node(node.parent));
    if (through > (reach.get(node.parent) ?? 0)) reach.set(node.parent, through);
  }
  const continues = new Map<NodeId, NodeId>();
  for (const id of order) {
    const node = graph.node(id);
    const children = graph.children(id);
    if (node.parent === null || children.length === 0) continue;
    const incoming = direction(graph.node(node.parent), node);
    const far = minReachFraction * (reach.get(id) ?? 0);
    const candidates = children
      .map((child) => {
        const to = graph.node(child);
        const outgoing = direction(node, to);
        return {
          child,
          through: (reach.get(child) ?? 0) + length(to, node),
          straightness: incoming[0] * outgoing[0] + incoming[1] * outgoing[1],
        };
      })
      .filter((one) => one.through >= far);
    const straightest = Math.max(...candidates.map((one) => one.straightness));
    let best: (typeof candidates)[number] | null = null;
    for (const one of candidates) {
      if (one.straightness < straightest - STRAIGHTNESS_TIE) continue;
      if (best === null || one.through > best.through || (one.through === best.through && one.child < best.child)) {
        best = one;
      }
    }
    if (best !== null) continues.set(id, best.child);
  }
  return continues;
}

function direction(from: Node, to: Node): [number, number] {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy);
  return length > 0 ? [dx / length, dy / length] : [0, 0];
}

/** The graph with inferred axes that are then explicit. A graph with explicit axes is returned as it is. */
export function withExplicitAxes(graph: Graph): Graph {
  if (graph.explicitAxes) return graph;
  const continues = inferContinuation(graph);
  const axes = new Map<AxisId, Axis>();
  const axisOf = new Map<NodeId, AxisId>();
  const changes: [NodeId, Node][] = [];
  for (const id of graph.topology.order) {
    const node = graph.node(id);
    if (node.parent === null) continue;
    const above = axisOf.get(node.parent);
    let axis = above;
    if (above === undefined || continues.get(node.parent) !== id) {
      axis = axes.size;
      axes.set(axis, newAxis({ parent: above ?? null, plant: node.plant ?? 0 }));
    }
    axisOf.set(id, axis as AxisId);
    changes.push([id, { ...node, axis: axis as AxisId }]);
  }
  return graph.with({ nodes: graph.nodes.update(changes), axes, nextAxis: axes.size, explicitAxes: true });
}

const inferred = new WeakMap<Graph, Graph>();

/** The graph with its axes, inferred if they are not explicit; cached per graph. For display and measures. */
export function withAxes(graph: Graph): Graph {
  if (graph.explicitAxes) return graph;
  let known = inferred.get(graph);
  if (known === undefined) {
    known = withExplicitAxes(graph);
    inferred.set(graph, known);
  }
  return known;
}

/** The parent that follows from the place where an axis is attached: the axis of that node, null at a root. */
export function attachedTo(graph: Graph, axis: AxisId): AxisId | null {
  const attach = graph.path(axis)[0];
  return attach === undefined ? null : graph.node(attach).axis;
}

/**
 * Make the axes of a graph valid after an action. Roots have no axis, each axis is one path, axes that lost their
 * edges are dropped, and parents follow the places where axes are attached.
 *
 * @param graph Any forest.
 * @param before The graph before the action; null if the graph comes from a file, whose parents are then kept.
 */
export function repairAxes(graph: Graph, before: Graph | null): Graph {
  const fixed = splitAxes(clearInvalidAxes(graph));
  const axes = new Map(fixed.axes);
  if (before !== null) dropEmptyAxes(axes, fixed, before);
  let changed = axes.size !== fixed.axes.size;
  const isOn = (host: Graph, axis: AxisId, parent: AxisId): boolean => {
    const attach = host.path(axis)[0];
    return attach !== undefined && host.path(parent).includes(attach);
  };
  for (const [id, axis] of axes) {
    const attach = fixed.path(id)[0];
    const was = before?.axes.get(id);
    const moved = before !== null && attach !== undefined && (was === undefined || before.path(id)[0] !== attach);
    const { parent } = axis;
    const lost = parent !== null && !axes.has(parent);
    const left = parent !== null && before !== null && !lost && !isOn(fixed, id, parent) && isOn(before, id, parent);
    if (!(moved || lost || left)) continue;
    const keeps = parent !== null && !lost && isOn(fixed, id, parent);
    const next = keeps ? parent : attachedTo(fixed, id);
    if (next !== parent) {
      axes.set(id, { ...axis, parent: next });
      changed = true;
    }
  }
  if (!isAcyclic(axes)) {
    for (const [id, axis] of axes) axes.set(id, { ...axis, parent: attachedTo(fixed, id) });
    changed = true;
  }
  return changed ? fixed.with({ axes }) : fixed;
}

function clearInvalidAxes(graph: Graph): Graph {
  const changes: [NodeId, Node][] = [];
  graph.nodes.forEach((node) => {
    if (node.parent === null) {
      if (node.axis !== null || node.edgeScore !== null) changes.push([node.id, { ...node, axis: null, edgeScore: null }]);
    } else if (node.axis !== null && !graph.axes.has(node.axis)) changes.push([node.id, { ...node, axis: null }]);
  });
  return changes.length === 0 ? graph : graph.with({ nodes: graph.nodes.update(changes) });
}

/** Split axes that are not one path. The first part keeps the record. */
function splitAxes(graph: Graph): Graph {
  const axes = new Map(graph.axes);
  let { nextAxis } = graph;
  const changes: [NodeId, Node][] = [];
  for (const [id, path] of graph.topology.paths) {
    if (isChain(graph, path)) continue;
    const partAt = new Map<NodeId, AxisId>();
    let first = true;
    for (const member of path.slice(1)) {
      const node = graph.node(member);
      let part = partAt.get(node.parent as NodeId);
      if (part !== undefined) partAt.delete(node.parent as NodeId);
      else if (first) [part, first] = [id, false];
      else {
        part = nextAxis++;
        axes.set(part, partOfAxis(graph.axes.get(id) as Axis));
      }
      partAt.set(member, part);
      if (part !== id) changes.push([member, { ...node, axis: part }]);
    }
  }
  return changes.length === 0 ? graph : graph.with({ nodes: graph.nodes.update(changes), axes, nextAxis });
}

function dropEmptyAxes(axes: Map<AxisId, Axis>, graph: Graph, before: Graph): void {
  for (const [id, axis] of axes) {
    if (graph.path(id).length > 0) continue;
    const hadEdges = before.path(id).length > 0;
    const isNew = !before.axes.has(id);
    const points = axis.verbatim?.points ?? [];
    const lostPoints = points.length > 0 && !points.some((point) => graph.has(point));
    if (hadEdges || isNew || lostPoints) axes.delete(id);
  }
}

function isAcyclic(axes: ReadonlyMap<AxisId, Axis>): boolean {
  try {
    axisOrders(axes);
    return true;
  } catch {
    return false;
  }
}
