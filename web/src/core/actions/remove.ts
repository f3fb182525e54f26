// Actions that remove nodes and edges.

import { partOfAxis } from "../axes.ts";
import type { Axis, AxisId, Graph, Node, NodeId } from "../graph.ts";
import type { Action } from "../history.ts";
import { Edit, freshPlant, mainChild, reach } from "./common.ts";

export type Removal = "heal" | "cut" | "subtree";

const NONE: ReadonlySet<NodeId> = new Set();

/** Remove nodes: "heal" joins their children to their parents, "cut" makes the children roots, "subtree" removes all. */
export const deleteNodes =
  (ids: Iterable<NodeId>, how: Removal = "heal"): Action =>
  (graph) => {
    const gone = new Set([...ids].filter((id) => graph.has(id)));
    if (gone.size === 0) return graph;
    if (how === "heal") return heal(graph, gone);
    return how === "cut" ? sever(graph, gone, NONE) : deleteSubtrees(graph, gone);
  };

export const deleteNode = (id: NodeId, how: Removal = "heal"): Action => deleteNodes([id], how);

function deleteSubtrees(graph: Graph, ids: Iterable<NodeId>): Graph {
  const edit = new Edit(graph);
  const gone = new Set(ids);
  for (const id of graph.topology.order) {
    const { parent } = graph.node(id);
    if (parent !== null && gone.has(parent)) gone.add(id);
    if (gone.has(id)) edit.delete(id);
  }
  return edit.finish();
}

/**
 * Remove nodes and join what was below them to the next node above. If the root is removed, the part with the longest
 * path becomes the root of the others. An edge that replaces several gets their lowest score.
 */
function heal(graph: Graph, gone: ReadonlySet<NodeId>): Graph {
  const edit = new Edit(graph);
  const tops = new Map<NodeId, NodeId[]>();
  for (const id of graph.topology.order) {
    if (gone.has(id)) {
      edit.delete(id);
      continue;
    }
    const node = graph.node(id);
    if (node.parent === null || !gone.has(node.parent)) continue;
    let above: NodeId | null = node.parent;
    let score = node.edgeScore;
    while (above !== null && gone.has(above)) {
      const removed: Node = graph.node(above);
      if (score !== null && removed.edgeScore !== null) score = Math.min(score, removed.edgeScore);
      above = removed.parent;
    }
    edit.set(id, { parent: above, edgeScore: score, source: { ...node.source, edge: "edited" } });
    if (above === null) {
      const root = graph.rootOf(id);
      tops.set(root, [...(tops.get(root) ?? []), id]);
    }
  }
  for (const [root, list] of tops) {
    const far = (id: NodeId): number => {
      const [a, b] = [graph.node(root), graph.node(id)];
      return reach(graph, id) + Math.hypot(a.x - b.x, a.y - b.y);
    };
    const first = list.reduce((best, id) => (far(id) > far(best) ? id : best));
    const { source } = graph.node(first);
    edit.set(first, { parent: null, axis: null, edgeScore: null, source: { ...source, edge: source.node } });
    for (const id of list) if (id !== first) edit.set(id, { parent: first });
  }
  return edit.finish();
}

/** Cut the edge between a node and its parent. The node becomes the root of a tree that is a new plant. */
export const cutEdge = (id: NodeId): Action => cutEdges([id]);

/** Cut several edges, each named by its child. */
export const cutEdges =
  (ids: Iterable<NodeId>): Action =>
  (graph) =>
    sever(graph, NONE, new Set(ids));

/** Make a node the root of its subtree, which stays in its plant. */
export const detach = (graph: Graph, id: NodeId): Graph => sever(graph, NONE, new Set([id]), false);

/**
 * Remove nodes, and the edges above other nodes. What is cut off becomes a new plant, except for the largest part of a
 * tree whose root is removed.
 */
function sever(graph: Graph, gone: ReadonlySet<NodeId>, cut: ReadonlySet<NodeId>, asNewPlants = true): Graph {
  const edit = new Edit(graph);
  const isTop = ({ id, parent }: Node): boolean => parent !== null && (cut.has(id) || gone.has(parent));
  const tops = new Set<NodeId>();
  for (const id of graph.topology.order) {
    const node = graph.node(id);
    if (gone.has(id)) edit.delete(id);
    else if (isTop(node)) tops.add(id);
  }
  if (tops.size === 0 && gone.size === 0) return graph;
  splitPaths(edit, gone, tops);
  for (const id of tops) {
    const { source } = graph.node(id);
    edit.set(id, { parent: null, axis: null, edgeScore: null, source: { ...source, edge: source.node } });
  }
  if (asNewPlants && graph.explicitPlants) numberParts(edit, gone, tops);
  return edit.finish();
}

/** Give each part of an axis but the first a record of its own. */
function splitPaths(edit: Edit, gone: ReadonlySet<NodeId>, tops: ReadonlySet<NodeId>): void {
  const graph = edit.before;
  const touched = new Set<AxisId>();
  for (const id of [...gone, ...tops]) {
    const { axis } = graph.node(id);
    if (axis !== null) touched.add(axis);
  }
  for (const axis of touched) {
    // An edge is left if neither of its nodes is removed and it is not cut.
    let part: AxisId | null = null;
    let isBroken = false;
    let hasFirst = false;
    for (const id of graph.path(axis).slice(1)) {
      if (gone.has(id) || tops.has(id)) {
        isBroken = true;
        continue;
      }
      if (isBroken && hasFirst) part = edit.addAxis(partOfAxis(edit.axes.get(axis) as Axis));
      isBroken = false;
      hasFirst = true;
      if (part !== null) edit.set(id, { axis: part });
    }
  }
}

function numberParts(edit: Edit, gone: ReadonlySet<NodeId>, tops: ReadonlySet<NodeId>): void {
  const graph = edit.before;
  const kept = new Set(graph.roots.filter((root) => gone.has(root)).map((root) => mainChild(graph, root)));
  const plantOf = new Map<NodeId, number>();
  let next = freshPlant(graph);
  for (const id of graph.topology.order) {
    const { parent, plant } = graph.node(id);
    if (parent === null || gone.has(id)) continue;
    const above = plantOf.get(parent);
    if (tops.has(id)) {
      if (!kept.has(id) && plant === graph.node(parent).plant) plantOf.set(id, next++);
    } else if (above !== undefined && plant === graph.node(parent).plant) plantOf.set(id, above);
  }
  for (const [id, plant] of plantOf) edit.set(id, { plant });
}

/** Remove an axis and everything below it. */
export const deleteAxis =
  (axis: AxisId): Action =>
  (graph) => {
    const head = graph.path(axis)[1];
    return head === undefined ? graph : deleteSubtrees(graph, [head]);
  };
