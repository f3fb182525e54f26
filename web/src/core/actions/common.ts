// What actions share: changes of nodes, and the rules that hold after each of them.

import { newAxis, repairAxes } from "../axes.ts";
import { MAX_PX } from "../document/format.ts";
import type { Axis, AxisFunction, AxisId, Graph, Node, NodeId, Source } from "../graph.ts";
import { plantOf } from "../graph.ts";

/** A set of changes to a graph, applied together. */
export class Edit {
  private readonly changes = new Map<NodeId, Node | undefined>();
  readonly axes: Map<AxisId, Axis>;
  private nextNode: NodeId;
  private nextAxis: AxisId;

  constructor(readonly before: Graph) {
    this.axes = new Map(before.axes);
    this.nextNode = before.nextNode;
    this.nextAxis = before.nextAxis;
  }

  get(id: NodeId): Node {
    const node = this.changes.has(id) ? this.changes.get(id) : this.before.get(id);
    if (node === undefined) throw new Error(`there is no node ${id}`);
    return node;
  }

  set(id: NodeId, fields: Partial<Node>): void {
    this.changes.set(id, { ...this.get(id), ...fields });
  }

  delete(id: NodeId): void {
    this.changes.set(id, undefined);
  }

  add(node: Omit<Node, "id">): NodeId {
    const id = this.nextNode++;
    this.changes.set(id, { id, ...node });
    return id;
  }

  addAxis(axis: Axis = newAxis()): AxisId {
    const id = this.nextAxis++;
    this.axes.set(id, axis);
    return id;
  }

  /** The edited graph with valid axes and plants. */
  finish(): Graph {
    if (this.changes.size === 0 && this.axes.size === this.before.axes.size) return this.before;
    const { before, nextNode, nextAxis } = this;
    const nodes = before.nodes.update(this.changes);
    const changed = before.with({ nodes, nextNode, nextAxis, axes: this.axes });
    return settle(changed, before);
  }
}

/** Restore what holds for every graph after a change of its structure. */
export function settle(graph: Graph, before: Graph): Graph {
  const repaired = graph.explicitAxes ? repairAxes(graph, before) : graph;
  const numbered = numberPlants(repaired);
  return updateAxisPlants(forgetAssumedRoots(numbered), before);
}

/** Number the plants if axes are explicit, because the record of an axis names its plant. */
export function numberPlants(graph: Graph, always = false): Graph {
  if (graph.explicitPlants || !(graph.explicitAxes || always) || graph.size === 0) return graph;
  const changes = graph.nodes.values().map((node): [NodeId, Node] => [node.id, { ...node, plant: plantOf(graph, node.id) }]);
  const numbered = graph.with({ nodes: graph.nodes.update(changes), explicitPlants: true }, true);
  return updateAxisPlants(numbered, graph);
}

function updateAxisPlants(graph: Graph, before: Graph): Graph {
  if (!graph.explicitPlants) return graph;
  let axes: Map<AxisId, Axis> | null = null;
  for (const [id, axis] of graph.axes) {
    const head = graph.path(id)[1];
    if (head === undefined) continue;
    const plant = graph.node(head).plant ?? 0;
    const isNew = !before.axes.has(id);
    if (axis.plant !== plant && (isNew || before.get(head)?.plant !== plant)) {
      axes ??= new Map(graph.axes);
      axes.set(id, { ...axis, plant });
    }
  }
  return axes === null ? graph : graph.with({ axes });
}

function forgetAssumedRoots(graph: Graph): Graph {
  const kept = [...graph.assumedRoots].filter((id) => graph.get(id)?.parent === null);
  return kept.length === graph.assumedRoots.size ? graph : graph.with({ assumedRoots: new Set(kept) });
}

/** The lowest plant number that no node and no record uses. */
export function freshPlant(graph: Graph): number {
  let next = graph.plants.length;
  graph.nodes.forEach(({ plant }) => {
    if (plant !== null && plant >= next) next = plant + 1;
  });
  return next;
}

/** True if both numbers are finite and within the limits of a Skeleton. */
export function isPlace(x: number, y: number): boolean {
  return Math.abs(x) <= MAX_PX && Math.abs(y) <= MAX_PX;
}

/** A new node without scores. */
export function blank(x: number, y: number, source: Source, fields: Partial<Omit<Node, "id">> = {}): Omit<Node, "id"> {
  const nothing = { parent: null, plant: null, axis: null, radius: null, score: null, edgeScore: null };
  return { x, y, ...nothing, source: { node: source, edge: source }, ...fields };
}

/** The nodes of an axis from `id` to its tip. */
export function chainBelow(graph: Graph, id: NodeId, axis: AxisId): NodeId[] {
  const chain: NodeId[] = [];
  for (let at: NodeId | undefined = id; at !== undefined; ) {
    chain.push(at);
    at = graph.children(at).find((child) => graph.node(child).axis === axis);
  }
  return chain;
}

/** Length of the longest path from a node to a tip below it, px. */
export function reach(graph: Graph, id: NodeId): number {
  const nodes = graph.subtree(id);
  const longest = new Map<NodeId, number>();
  for (const at of nodes.reverse()) {
    const node = graph.node(at);
    if (node.parent === null || at === id) continue;
    const parent = graph.node(node.parent);
    const through = (longest.get(at) ?? 0) + Math.hypot(node.x - parent.x, node.y - parent.y);
    if (through > (longest.get(node.parent) ?? 0)) longest.set(node.parent, through);
  }
  return longest.get(id) ?? 0;
}

/** The child with the longest path through it, null at tips. */
export function mainChild(graph: Graph, id: NodeId): NodeId | null {
  const here = graph.node(id);
  let best: NodeId | null = null;
  let longest = -1;
  for (const child of graph.children(id)) {
    const node = graph.node(child);
    const through = reach(graph, child) + Math.hypot(node.x - here.x, node.y - here.y);
    if (through > longest) [best, longest] = [child, through];
  }
  return best;
}

/** The record of two axes that become one: that of the first, with the values of both. */
export function unite(first: Axis, second: Axis): Axis {
  const functions = first.functions?.map((one): AxisFunction => {
    const other = second.functions?.find((two) => two.raw.name === one.raw.name && two.values !== null);
    if (one.values === null || other?.values == null) return one;
    return { raw: one.raw, values: new Map([...other.values, ...one.values]) };
  });
  const skipped = new Set([...first.skipped, ...second.skipped]);
  return { ...first, verbatim: null, skipped, functions: functions ?? first.functions };
}

/** Remove nodes from the points that axes leave out: a person placed them, so they are points. */
export function unskip(graph: Graph, ids: ReadonlySet<NodeId>): ReadonlyMap<AxisId, Axis> {
  let axes: Map<AxisId, Axis> | null = null;
  for (const [id, axis] of graph.axes) {
    if (axis.skipped.size === 0) continue;
    const skipped = new Set([...axis.skipped].filter((node) => !ids.has(node)));
    if (skipped.size === axis.skipped.size) continue;
    axes ??= new Map(graph.axes);
    axes.set(id, { ...axis, skipped });
  }
  return axes ?? graph.axes;
}
