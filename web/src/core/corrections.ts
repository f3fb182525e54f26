// What a person corrected between two states of a graph, in a form that can be moved to another image of the series.
//
// Branches that were added and branches that were removed are carried over. Moves of single nodes are not: where exactly
// a line is drawn differs from image to image.

import { addPath, deleteNodes, insertOnEdge } from "./actions.ts";
import { distanceToPolyline, polylineLength } from "./geometry.ts";
import type { XY } from "./geometry.ts";
import type { Graph, NodeId } from "./graph.ts";
import type { Action } from "./history.ts";
import { spatialIndex } from "./spatial.ts";

/** A map of the plane: (x, y) -> (a x - b y + c, b x + a y + d). */
export type Similarity = readonly [number, number, number, number];

export interface Correction {
  readonly kind: "add" | "remove";
  /** The branch from its base to its tip. The base is where it leaves the tree, if `attached`. */
  readonly points: readonly XY[];
  readonly attached: boolean;
}

/** Shorter branches are not carried over, px. */
const SHORTEST_PX = 5;

/** A point under a map. */
export function mapped([a, b, c, d]: Similarity, { x, y }: XY): XY {
  return { x: a * x - b * y + c, y: b * x + a * y + d };
}

/** The map that undoes another one. */
export function inverse([a, b, c, d]: Similarity): Similarity {
  const square = a * a + b * b;
  const [p, q] = [a / square, -b / square];
  return [p, q, -(p * c - q * d), -(q * c + p * d)];
}

/** Move a correction from px of one date to px of another, by the maps of both to the reference date. */
export function moved(correction: Correction, from: Similarity, to: Similarity): Correction {
  const back = inverse(to);
  return { ...correction, points: correction.points.map((p) => mapped(back, mapped(from, p))) };
}

/** Branches of `after` that `before` does not have, and the other way round. */
export function corrections(before: Graph, after: Graph): Correction[] {
  return [...branchesBeyond(before, after, "remove"), ...branchesBeyond(after, before, "add")].filter(
    ({ points }) => polylineLength(points) >= SHORTEST_PX,
  );
}

/** Branches of `graph` whose nodes are not in `other`, each from the node that it leaves to a tip. */
function branchesBeyond(graph: Graph, other: Graph, kind: Correction["kind"]): Correction[] {
  const isOwn = (id: NodeId): boolean => !other.has(id);
  // A node on an edge that both have is no branch: something below it is in the other graph too.
  const isBranch = new Map<NodeId, boolean>();
  for (const id of [...graph.topology.order].reverse()) {
    isBranch.set(id, isOwn(id) && graph.children(id).every((child) => isBranch.get(child) === true));
  }
  const found: Correction[] = [];
  for (const id of graph.topology.order) {
    if (!isBranch.get(id)) continue;
    const { parent } = graph.node(id);
    const isContinuation = parent !== null && isBranch.get(parent) && mainChild(graph, parent) === id;
    if (isContinuation) continue;
    const points: XY[] = parent === null ? [] : [place(graph, parent)];
    for (let at: NodeId | null = id; at !== null; at = mainChild(graph, at)) points.push(place(graph, at));
    found.push({ kind, points, attached: parent !== null });
  }
  return found;
}

/** The child along which a branch goes on: that of the same axis, otherwise the first. */
function mainChild(graph: Graph, id: NodeId): NodeId | null {
  return graph.continuation(id) ?? graph.children(id)[0] ?? null;
}

function place(graph: Graph, id: NodeId): XY {
  const { x, y } = graph.node(id);
  return { x, y };
}

/** Carry out a correction. The graph stays as it is if there is nothing within `tolerance` px to apply it to. */
export const applyCorrection =
  ({ kind, points, attached }: Correction, tolerance: number): Action =>
  (graph) =>
    kind === "add" ? added(graph, points, attached, tolerance) : removed(graph, points, tolerance);

function added(graph: Graph, points: readonly XY[], attached: boolean, tolerance: number): Graph {
  const last = points[points.length - 1];
  if (last === undefined || points.slice(1).every((p) => spatialIndex(graph).hit(p, tolerance) !== null)) return graph;
  if (!attached) return addPath(null, points, "edited")(graph);
  const [base, ...rest] = points as [XY, ...XY[]];
  const hit = spatialIndex(graph).hit(base, 2 * tolerance);
  if (hit === null) return graph;
  if (hit.kind === "node") return addPath(hit.id, rest, "edited")(graph);
  return addPath(graph.nextNode, rest, "edited")(insertOnEdge(hit.id, hit.at.x, hit.at.y, "edited")(graph));
}

/** Delete the tips' side of what lies along the branch; branches that leave it stay. */
function removed(graph: Graph, points: readonly XY[], tolerance: number): Graph {
  const along = (id: NodeId): boolean => distanceToPolyline(graph.node(id), points) <= tolerance;
  const base = points[0] as XY;
  const gone = new Set<NodeId>();
  for (const id of [...graph.topology.order].reverse()) {
    const { x, y } = graph.node(id);
    const isBase = points.length > 1 && Math.hypot(x - base.x, y - base.y) <= tolerance;
    if (along(id) && !isBase && graph.children(id).every((child) => gone.has(child))) gone.add(id);
  }
  return deleteNodes(gone, "subtree")(graph);
}
