// A branch under construction, and the actions that add it to the graph as one step.

import { addPath, addRoot, connect, insertOnEdge } from "../core/actions.ts";
import type { Graph, NodeId, Source } from "../core/graph.ts";
import type { Action } from "../core/history.ts";
import type { Hit, Point } from "./types.ts";

/** Where a branch begins or ends: at a node, on an edge, or nowhere near the graph. */
export type Anchor =
  | { readonly kind: "node"; readonly id: NodeId }
  | { readonly kind: "edge"; readonly id: NodeId; readonly at: Point }
  | { readonly kind: "free"; readonly at: Point };

/** The anchor of a click: what was hit, otherwise the place itself. */
export function anchorOf(hit: Hit | null, at: Point): Anchor {
  if (hit === null) return { kind: "free", at: { x: at.x, y: at.y } };
  return hit.kind === "node" ? { kind: "node", id: hit.id } : { kind: "edge", id: hit.id, at: hit.at };
}

/** The position of an anchor. */
export function placeOf(graph: Graph, anchor: Anchor): Point {
  return anchor.kind === "node" ? graph.node(anchor.id) : anchor.at;
}

/** True if a branch from one anchor may end at the other: they are in different trees. */
export function mayEndAt(graph: Graph, start: Anchor, end: Anchor): boolean {
  if (end.kind === "free") return false;
  return start.kind === "free" || graph.rootOf(start.id) !== graph.rootOf(end.id);
}

/** Add a branch: nodes for its points, an edge to the tree where it ends. The points exclude both anchors. */
export const addBranch =
  (start: Anchor, points: readonly Point[], end: Anchor | null, source: Source): Action =>
  (graph) => {
    let state = graph;
    const nodeAt = (anchor: Anchor): NodeId => {
      if (anchor.kind === "node") return anchor.id;
      const id = state.nextNode;
      const { x, y } = anchor.at;
      state = (anchor.kind === "edge" ? insertOnEdge(anchor.id, x, y, source) : addRoot(x, y, source))(state);
      return id;
    };
    let last: NodeId = nodeAt(start);
    if (points.length > 0) {
      const first = state.nextNode;
      state = addPath(last, points, source)(state);
      last = first + points.length - 1;
    }
    if (end === null || end.kind === "free") return state;
    const target = nodeAt(end);
    return connect(last, target)(state);
  };

/** Connect a node to an anchor. On an edge, a node is inserted first. */
export const connectTo =
  (id: NodeId, anchor: Anchor): Action =>
  (graph) => {
    if (anchor.kind === "free") return graph;
    if (anchor.kind === "node") return connect(id, anchor.id)(graph);
    return connect(id, graph.nextNode)(insertOnEdge(anchor.id, anchor.at.x, anchor.at.y)(graph));
  };
