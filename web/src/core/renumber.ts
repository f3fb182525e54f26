// A graph with other node ids, so that nothing that names nodes of one graph acts on those of another.

import type { Axis, AxisFunction, AxisId, Graph, Node, NodeId } from "./graph.ts";
import { Vector } from "./vector.ts";

/** The same graph with all node ids raised by a number. */
export function renumbered(graph: Graph, by: number): Graph {
  if (by === 0) return graph;
  const to = (id: NodeId): NodeId => id + by;
  const nodes = graph.nodes.values().map((node): [NodeId, Node] => {
    const parent = node.parent === null ? null : to(node.parent);
    return [to(node.id), { ...node, id: to(node.id), parent }];
  });
  const axes = [...graph.axes].map(([id, axis]): [AxisId, Axis] => [
    id,
    {
      ...axis,
      skipped: new Set([...axis.skipped].map(to)),
      verbatim: axis.verbatim && { points: axis.verbatim.points.map(to), path: axis.verbatim.path.map(to) },
      functions: axis.functions?.map((one) => withValues(one, to)) ?? null,
    },
  ]);
  return graph.with({
    nodes: Vector.empty<Node>().update(nodes),
    nextNode: to(graph.nextNode),
    axes: new Map(axes),
    assumedRoots: new Set([...graph.assumedRoots].map(to)),
    file: { ...graph.file, edges: graph.file.edges.map(([u, v]) => [to(u), to(v)] as const) },
  });
}

function withValues(one: AxisFunction, to: (id: NodeId) => NodeId): AxisFunction {
  return one.values === null ? one : { ...one, values: new Map([...one.values].map(([id, value]) => [to(id), value])) };
}
