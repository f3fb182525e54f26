// Actions that remove nodes and edges.

import type { AxisId, Graph, NodeId } from "../graph.ts";
import type { Action } from "../history.ts";
import { Edit, freshPlant, mainChild, splitAxisAt } from "./common.ts";

export type Removal = "heal" | "cut" | "subtree";

/** Remove nodes: "heal" joins their children to their parents, "cut" makes the children roots, "subtree" removes all. */
export const deleteNodes =
  (ids: Iterable<NodeId>, how: Removal = "heal"): Action =>
  (graph) => {
    const list = [...new Set(ids)].filter((id) => graph.has(id));
    if (list.length === 0) return graph;
    if (how === "subtree") return deleteSubtrees(graph, list);
    return list.reduce((state, id) => (how === "heal" ? heal(state, id) : cutOut(state, id)), graph);
  };

export const deleteNode = (id: NodeId, how: Removal = "heal"): Action => deleteNodes([id], how);

function deleteSubtrees(graph: Graph, ids: readonly NodeId[]): Graph {
  const edit = new Edit(graph);
  for (const id of new Set(ids.flatMap((id) => graph.subtree(id)))) edit.delete(id);
  return edit.finish();
}

/** Remove a node and join its children to its parent. Below a root, the main child becomes the root of the others. */
function heal(graph: Graph, id: NodeId): Graph {
  const node = graph.node(id);
  const edit = new Edit(graph);
  edit.delete(id);
  const above = node.parent ?? mainChild(graph, id);
  for (const child of graph.children(id)) {
    if (child === above) {
      const { source } = graph.node(child);
      edit.set(child, { parent: null, axis: null, edgeScore: null, source: { ...source, edge: source.node } });
      continue;
    }
    const { edgeScore, source } = graph.node(child);
    const lowest = edgeScore === null ? null : Math.min(edgeScore, node.edgeScore ?? edgeScore);
    edit.set(child, { parent: above, edgeScore: lowest, source: { ...source, edge: "edited" } });
  }
  return edit.finish();
}

/** Remove a node; its children become roots. */
function cutOut(graph: Graph, id: NodeId): Graph {
  const node = graph.node(id);
  const kept = node.parent === null ? mainChild(graph, id) : null;
  let state = graph;
  for (const child of graph.children(id)) state = detach(state, child, child !== kept);
  const edit = new Edit(state);
  edit.delete(id);
  return edit.finish();
}

/** Cut the edge between a node and its parent. The node becomes the root of a tree that is a new plant. */
export const cutEdge =
  (id: NodeId): Action =>
  (graph) =>
    detach(graph, id, true);

/** Cut several edges. */
export const cutEdges =
  (ids: Iterable<NodeId>): Action =>
  (graph) =>
    [...new Set(ids)].reduce((state, id) => detach(state, id, true), graph);

/** Make a node the root of its subtree. */
export function detach(graph: Graph, id: NodeId, asNewPlant: boolean): Graph {
  const node = graph.node(id);
  if (node.parent === null) return graph;
  const edit = new Edit(graph);
  splitAxisAt(edit, id);
  edit.set(id, { parent: null, axis: null, edgeScore: null, source: { ...node.source, edge: node.source.node } });
  if (asNewPlant && graph.explicitPlants) {
    const old = graph.node(node.parent).plant;
    const plant = freshPlant(graph);
    for (const member of graph.subtree(id)) if (graph.node(member).plant === old) edit.set(member, { plant });
  }
  return edit.finish();
}

/** Remove the part of an axis below a node, laterals included: a shorter way to say "delete the subtrees". */
export const deleteAxis =
  (axis: AxisId): Action =>
  (graph) => {
    const head = graph.path(axis)[1];
    return head === undefined ? graph : deleteSubtrees(graph, [head]);
  };
