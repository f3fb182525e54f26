// Suppress duplicate nodes, as in `treeformer.decoding.duplicates`.

import { argsort, closePairs } from "./numeric.ts";
import type { Pair } from "./numeric.ts";

/** Radius, px of the image at the network's working size. */
export const RADIUS_PX = 6;
/** Nodes with at least this score are kept. */
export const MIN_CONFIDENT_SCORE = 0.5;
/** Two nodes within the radius are duplicates if the cost of their edge is higher. */
export const MIN_DUPLICATE_EDGE_COST = 1;

/**
 * Scores with those of duplicate nodes set to 0.
 *
 * @param score Probabilities.
 * @param x Finite coordinates, px of the scaled image.
 * @param y The same.
 * @param pairs Pairs of nodes with a known edge cost, i < j.
 * @param cost f⁻ − f⁺ of these pairs.
 * @param nodeThreshold Nodes with a lower score do not count as neighbors.
 */
export function suppressDuplicates(
  score: ArrayLike<number>,
  x: ArrayLike<number>,
  y: ArrayLike<number>,
  pairs: readonly Pair[],
  cost: ArrayLike<number>,
  nodeThreshold: number,
): number[] {
  const count = score.length;
  const result = Array.from(score);
  const rank = new Array<number>(count);
  argsort(count, (a, b) => (score[b] as number) - (score[a] as number) || a - b).forEach((k, at) => (rank[k] = at));
  const known = new Map(pairs.map(([i, j], k) => [i * count + j, cost[k] as number]));
  const neighbors: Set<number>[] = Array.from({ length: count }, () => new Set());
  pairs.forEach(([i, j], k) => {
    const likely = (score[i] as number) >= nodeThreshold && (score[j] as number) >= nodeThreshold;
    if (!((cost[k] as number) < 0 && likely)) return;
    (neighbors[i] as Set<number>).add(j);
    (neighbors[j] as Set<number>).add(i);
  });
  const shareNeighbor = (better: number, worse: number): boolean => {
    const ours = neighbors[worse] as Set<number>;
    if (ours.size === 0) return true;
    for (const other of ours) if ((neighbors[better] as Set<number>).has(other)) return true;
    return false;
  };
  closePairs(x, y, RADIUS_PX)
    .filter(([i, j]) => (known.get(i * count + j) ?? Infinity) > MIN_DUPLICATE_EDGE_COST)
    .map(([i, j]): Pair => ((rank[i] as number) > (rank[j] as number) ? [j, i] : [i, j]))
    .filter(([better, worse]) => shareNeighbor(better, worse))
    // By descending score, so that it is known whether the better node of each pair is kept.
    .sort((a, b) => (rank[a[1]] as number) - (rank[b[1]] as number))
    .forEach(([better, worse]) => {
      if ((score[worse] as number) < MIN_CONFIDENT_SCORE && (result[better] as number) > 0) result[worse] = 0;
    });
  return result;
}
