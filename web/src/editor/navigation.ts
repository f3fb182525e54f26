// Steps from node to node: parent, child, next branch point or tip, previous tip.

import { mainChild } from "../core/actions/common.ts";
import { withAxes } from "../core/axes.ts";
import type { Graph, NodeId } from "../core/graph.ts";

/** All nodes, each tree depth first; the axis is followed before laterals. */
export function depthFirst(graph: Graph): NodeId[] {
  const list: NodeId[] = [];
  const stack = [...graph.roots].reverse();
  for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
    list.push(id);
    const next = graph.continuation(id);
    for (const child of [...graph.children(id)].reverse()) if (child !== next) stack.push(child);
    if (next !== null) stack.push(next);
  }
  return list;
}

/** The child that continues the axis, otherwise the one with the longest path; null at tips. */
export function childOf(graph: Graph, id: NodeId): NodeId | null {
  return withAxes(graph).continuation(id) ?? mainChild(graph, id);
}

/** The next branch point or tip in depth-first order, around the end; the first one if nothing is selected. */
export function nextBranch(graph: Graph, from: NodeId | null): NodeId | null {
  return around(depthFirst(withAxes(graph)), from, 1, (id) => graph.children(id).length !== 1);
}

/** The previous tip in depth-first order, around the start. */
export function previousTip(graph: Graph, from: NodeId | null): NodeId | null {
  return around(depthFirst(withAxes(graph)), from, -1, (id) => graph.children(id).length === 0);
}

function around(list: readonly NodeId[], from: NodeId | null, step: 1 | -1, accept: (id: NodeId) => boolean): NodeId | null {
  const count = list.length;
  const start = from === null ? (step === 1 ? -1 : count) : list.indexOf(from);
  for (let k = 1; k <= count; k++) {
    const id = list[(start + step * k + count * 2) % count];
    if (id !== undefined && accept(id)) return id;
  }
  return null;
}
