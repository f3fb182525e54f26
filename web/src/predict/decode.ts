// Network outputs to a forest, as in `treeformer.decoding.decode`.

import { clip, components, sigmoid } from "./numeric.ts";
import type { Pair } from "./numeric.ts";
import { subgraph } from "./forest.ts";
import type { Forest } from "./forest.ts";
import { spanningTree } from "./spanning.ts";
import type { Size } from "./tiles.ts";

/** Bound of costs and logits. */
export const LARGEST = 1e6;

/** Limit a cost or a logit to ±`LARGEST`; `nan` replaces NaN. */
export function bounded(value: number, nan: number): number {
  return clip(Number.isNaN(value) ? nan : value, -LARGEST, LARGEST);
}

export interface Candidates {
  /** Probabilities. */
  readonly score: readonly number[];
  /** px of the original image. */
  readonly x: readonly number[];
  readonly y: readonly number[];
  /** Log-odds of being a root. */
  readonly logit: readonly number[];
  /** px of the original image, NaN if unknown; null without radii. */
  readonly radius: readonly number[] | null;
}

export interface DecodeOptions {
  readonly nodeThreshold: number;
  readonly rootThreshold: number;
  readonly imageSize: Size;
}

/**
 * Decode candidates into a forest with one root per plant: a minimum spanning tree with a virtual root.
 *
 * @param candidates All candidates.
 * @param pairs Nodes i < j with a known edge cost, each pair once, ascending.
 * @param cost Edge cost f⁻ − f⁺ of each pair.
 * @param extra Added to the costs when the tree is chosen, but not part of edge scores; null for 0.
 * @param isComplete True if `pairs` are all pairs. Otherwise trees without a likely root are dropped.
 * @param options Thresholds, and the size of the image, to which points are limited.
 */
export function decode(
  candidates: Candidates,
  pairs: readonly Pair[],
  cost: ArrayLike<number>,
  extra: ArrayLike<number> | null,
  isComplete: boolean,
  options: DecodeOptions,
): Forest {
  const { nodeThreshold, rootThreshold, imageSize } = options;
  const kept = candidates.score.flatMap((score, k) => {
    const isFinite = Number.isFinite(candidates.x[k]) && Number.isFinite(candidates.y[k]);
    return score >= nodeThreshold && isFinite ? [k] : [];
  });
  const index = new Array<number>(candidates.score.length).fill(-1);
  kept.forEach((k, at) => (index[k] = at));
  const logit = kept.map((k) => bounded(candidates.logit[k] as number, -LARGEST));
  const isLikelyRoot = logit.map((value) => sigmoid(value) > rootThreshold);

  const joined: Pair[] = [];
  const margin: number[] = [];
  const costs: number[] = [];
  const virtual = kept.length;
  // Below the threshold a root costs more than any edge: it is taken only if a tree needs it.
  const addRoot = (node: number): void => {
    joined.push([node, virtual]);
    margin.push(NaN);
    costs.push(isLikelyRoot[node] ? -(logit[node] as number) : 3 * LARGEST - (logit[node] as number));
  };
  let next = 0;
  pairs.forEach(([i, j], k) => {
    const [a, b] = [index[i] as number, index[j] as number];
    if (a < 0 || b < 0) return;
    while (next < a) addRoot(next++);
    const value = bounded(cost[k] as number, LARGEST);
    joined.push([a, b]);
    margin.push(value);
    costs.push(extra === null ? value : Math.min(value + bounded(extra[k] as number, LARGEST), LARGEST));
  });
  while (next < virtual) addRoot(next++);

  const chosen = spanningTree(joined, costs, virtual + 1);
  const inTree = chosen.filter((k) => (joined[k] as Pair)[1] !== virtual);
  const roots = chosen.filter((k) => (joined[k] as Pair)[1] === virtual).map((k) => (joined[k] as Pair)[0]);
  const pick = (values: readonly number[]): number[] => kept.map((k) => values[k] as number);
  const forest: Forest = {
    x: pick(candidates.x).map((value) => clip(value, 0, imageSize[0])),
    y: pick(candidates.y).map((value) => clip(value, 0, imageSize[1])),
    edges: inTree.map((k) => joined[k] as Pair),
    roots,
    nodeScore: pick(candidates.score).map((value) => clip(value, 0, 1)),
    edgeScore: inTree.map((k) => sigmoid(-(margin[k] as number))),
    radius: candidates.radius === null ? null : pick(candidates.radius),
    imageSize,
  };
  const likely = joined.filter((_, k) => (margin[k] as number) < 0);
  const isNoSecondRoot = withoutSecondRoots(forest, likely);
  const isInPlant = isComplete ? null : inPlants(forest, isLikelyRoot);
  return subgraph(forest, isNoSecondRoot.map((keep, k) => keep && (isInPlant === null || (isInPlant[k] as boolean))));
}

/** True in trees with a likely root; in the one of highest score if there is none. */
function inPlants(forest: Forest, isLikelyRoot: readonly boolean[]): boolean[] {
  const component = components(forest.edges, forest.x.length);
  const plants = new Set(forest.roots.filter((root) => isLikelyRoot[root]).map((root) => component[root] as number));
  if (plants.size === 0 && component.length > 0) {
    const total: number[] = [];
    component.forEach((label, k) => (total[label] = (total[label] ?? 0) + (forest.nodeScore[k] as number)));
    plants.add(total.indexOf(Math.max(...total)));
  }
  return component.map((label) => plants.has(label));
}

/** False for isolated roots that likely edges join to a plant or to a lower isolated root. */
function withoutSecondRoots(forest: Forest, likely: readonly Pair[]): boolean[] {
  const count = forest.x.length;
  const keep = new Array<boolean>(count).fill(true);
  const onEdge = new Set(forest.edges.flat());
  const isolated = forest.roots.filter((root) => !onEdge.has(root));
  if (isolated.length === 0) return keep;
  for (const node of isolated) keep[node] = false;
  const component = components(likely, count);
  for (const node of isolated) keep[node] = !keep.some((kept, k) => kept && component[k] === component[node]);
  return keep;
}
