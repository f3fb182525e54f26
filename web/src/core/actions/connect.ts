// Actions that change which nodes are joined: connect, re-parent, re-root, merge nodes.

import { newAxis, partOfAxis } from "../axes.ts";
import type { Axis, AxisId, Graph, Node, NodeId } from "../graph.ts";
import type { Action } from "../history.ts";
import { Edit, chainBelow, mainChild, unite } from "./common.ts";
import { deleteNode, detach } from "./remove.ts";

/** Give a node another parent. Nothing happens if the new parent lies below the node, which would be a cycle. */
export const reparent =
  (id: NodeId, parent: NodeId): Action =>
  (graph) => {
    const node = graph.node(id);
    if (node.parent === parent || graph.isBelow(parent, id)) return graph;
    // Only the head of an axis keeps its record; a part of an axis that runs on above becomes an axis of its own.
    const isHead = node.parent !== null && node.axis !== null && graph.node(node.parent).axis !== node.axis;
    if (isHead) {
      const edit = new Edit(graph);
      edit.set(id, { parent, edgeScore: null, source: { ...node.source, edge: "drawn" } });
      adoptPlant(edit, graph, id, parent);
      return edit.finish();
    }
    return attach(detach(graph, id), id, parent);
  };

/** Make a root the child of a node of another tree. */
function attach(graph: Graph, id: NodeId, parent: NodeId): Graph {
  const edit = new Edit(graph);
  const node = graph.node(id);
  const host = graph.node(parent);
  adoptPlant(edit, graph, id, parent);
  let axis: AxisId | null = null;
  if (graph.explicitAxes) {
    const next = mainChild(graph, id);
    const nextAxis = next === null ? null : graph.node(next).axis;
    if (host.axis !== null && graph.children(parent).length === 0) {
      axis = host.axis;
      if (nextAxis !== null) {
        for (const member of chainBelow(graph, next as NodeId, nextAxis)) edit.set(member, { axis });
        edit.axes.set(axis, unite(edit.axes.get(axis) as Axis, edit.axes.get(nextAxis) as Axis));
      }
    } else axis = nextAxis ?? edit.addAxis(newAxis({ parent: host.axis }));
  }
  edit.set(id, { parent, axis, edgeScore: null, source: { ...node.source, edge: "drawn" } });
  return edit.finish();
}

function adoptPlant(edit: Edit, graph: Graph, id: NodeId, parent: NodeId): void {
  const { plant } = graph.node(parent);
  for (const member of graph.subtree(id)) if (graph.node(member).plant !== plant) edit.set(member, { plant });
}

/**
 * Join two nodes by an edge. In different trees, a root is attached to the other node; if neither is a root, the smaller
 * tree is re-rooted. In one tree, the edge replaces the one above the first node (above the second if that is below).
 */
export const connect =
  (a: NodeId, b: NodeId): Action =>
  (graph) => {
    if (a === b || areJoined(graph, a, b)) return graph;
    const [child, parent] = connection(graph, a, b);
    const isOneTree = graph.rootOf(a) === graph.rootOf(b);
    const rooted = isOneTree ? graph : reRoot(child)(graph);
    return reparent(child, parent)(rooted);
  };

/** True if an edge joins two nodes. */
export function areJoined(graph: Graph, a: NodeId, b: NodeId): boolean {
  return graph.node(a).parent === b || graph.node(b).parent === a;
}

/** Which of two nodes `connect` makes the child, and which the parent. */
export function connection(graph: Graph, a: NodeId, b: NodeId): [child: NodeId, parent: NodeId] {
  if (graph.rootOf(a) === graph.rootOf(b)) return graph.isBelow(b, a) ? [b, a] : [a, b];
  const [aIsRoot, bIsRoot] = [graph.rootOf(a) === a, graph.rootOf(b) === b];
  if (aIsRoot !== bIsRoot) return aIsRoot ? [a, b] : [b, a];
  if (aIsRoot) return [a, b];
  const size = (id: NodeId): number => graph.subtree(graph.rootOf(id)).length;
  return size(a) <= size(b) ? [a, b] : [b, a];
}

/** Join two nodes and make them one, at the position of the second. */
export const mergeNodes =
  (a: NodeId, b: NodeId): Action =>
  (graph) => {
    if (a === b) return graph;
    const { x, y } = graph.node(b);
    const joined = connect(a, b)(graph);
    const [gone, kept] = joined.node(a).parent === b ? [a, b] : [b, a];
    if (joined.node(gone).parent !== kept) return graph;
    const merged = deleteNode(gone)(joined);
    const node = merged.node(kept);
    if (node.x === x && node.y === y) return merged;
    const moved: Node = { ...node, x, y, source: { ...node.source, node: "edited" } };
    return merged.with({ nodes: merged.nodes.set(kept, moved) }, true);
  };

/** Make a node the root of its tree. Edges between it and the old root change their direction. */
export const reRoot =
  (id: NodeId): Action =>
  (graph) => {
    const path = graph.ancestors(id);
    const isStated = !graph.assumedRoots.has(id);
    if (path.length === 1) {
      if (isStated) return graph;
      return graph.with({ assumedRoots: new Set([...graph.assumedRoots].filter((root) => root !== id)) });
    }
    const edit = new Edit(graph);
    const turned = new Map<AxisId, AxisId>();
    for (let k = 0; k + 1 < path.length; k++) {
      const child = graph.node(path[k] as NodeId);
      const parent = graph.node(path[k + 1] as NodeId);
      let { axis } = child;
      if (axis !== null) {
        if (!turned.has(axis)) {
          // The part below keeps the record, because its direction stays.
          const goesOn = graph.continuation(child.id) !== null;
          turned.set(axis, goesOn ? edit.addAxis(partOfAxis(edit.axes.get(axis) as Axis)) : axis);
        }
        axis = turned.get(axis) as AxisId;
      }
      const source = { node: parent.source.node, edge: child.source.edge };
      edit.set(parent.id, { parent: child.id, axis, edgeScore: child.edgeScore, source });
    }
    const root = graph.node(id);
    edit.set(id, { parent: null, axis: null, edgeScore: null, source: { ...root.source, edge: root.source.node } });
    return edit.finish();
  };

