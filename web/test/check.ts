// What holds for every graph that an action returns.

import { isChain } from "../src/core/axes.ts";
import { deriveTopology } from "../src/core/graph.ts";
import type { AxisId, Graph } from "../src/core/graph.ts";

/** Raise an error if a graph is not a valid forest with valid axes. */
export function checkGraph(graph: Graph): void {
  const topology = deriveTopology(graph.nodes);
  for (const [id, path] of topology.paths) {
    if (!graph.axes.has(id)) throw new Error(`axis ${id} has no record`);
    if (!isChain(graph, path)) throw new Error(`axis ${id} is not one path`);
  }
  for (const root of topology.roots) {
    if (graph.node(root).axis !== null) throw new Error(`root ${root} has an axis`);
  }
  for (const [id, axis] of graph.axes) {
    if (axis.parent !== null && !graph.axes.has(axis.parent)) throw new Error(`axis ${id} has no parent ${axis.parent}`);
    const seen = new Set<AxisId>();
    for (let at: AxisId | null = id; at !== null; at = graph.axes.get(at)?.parent ?? null) {
      if (seen.has(at)) throw new Error(`axis ${id} is its own ancestor`);
      seen.add(at);
    }
  }
}
