// Minimum spanning trees by the rules of `treeformer.decoding.spanning`: equal costs are ordered by their nodes.

import { DisjointSets } from "./numeric.ts";
import type { Pair } from "./numeric.ts";

/**
 * The minimum spanning forest of a graph given by its edges (Kruskal's algorithm).
 *
 * @param pairs Nodes i < j, in ascending order, which is the order of equal costs.
 * @param cost Cost of each pair; infinity and NaN forbid an edge.
 * @param count Number of nodes.
 * @returns Indices of the chosen pairs, ascending.
 */
export function spanningTree(pairs: readonly Pair[], cost: ArrayLike<number>, count: number): number[] {
  const order: number[] = [];
  for (let k = 0; k < pairs.length; k++) if ((cost[k] as number) < Infinity) order.push(k);
  order.sort((a, b) => (cost[a] as number) - (cost[b] as number) || a - b);
  const sets = new DisjointSets(count);
  const chosen: number[] = [];
  for (const k of order) {
    const [i, j] = pairs[k] as Pair;
    if (sets.join(i, j)) chosen.push(k);
    if (chosen.length === count - 1) break;
  }
  return chosen.sort((a, b) => a - b);
}
