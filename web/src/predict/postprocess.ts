// A decoded forest to the skeleton that users get, as in `treeformer.decoding.postprocess`.

import { inferAxes } from "./axes.ts";
import type { InferredAxis } from "./axes.ts";
import { calibrate } from "./calibration.ts";
import type { EdgeCalibration } from "./calibration.ts";
import { reviseDoubtfulBranches } from "./doubtful.ts";
import { edgeLength, subgraph, traverse } from "./forest.ts";
import type { Forest, Traversal } from "./forest.ts";
import { argsort, components, roundTo } from "./numeric.ts";
import type { Pair } from "./numeric.ts";

/** Coordinates are rounded to a hundredth of a pixel and scores to four digits. */
export const PLACE_DIGITS = 2;
export const SCORE_DIGITS = 4;
const MIN_REACH_FRACTION_OF_ROOTS = 1 / 3;

export interface PostprocessOptions {
  /** Edges with a lower score, after calibration, are cut; 0 keeps the whole spanning tree. */
  readonly edgeThreshold: number;
  /** Keep plants and doubtful branches without any node of score 0.5 or higher. */
  readonly unsurePlants: boolean;
  readonly calibration: EdgeCalibration | null;
  /** Edges with a lower score, after calibration, are doubtful; null if that is not known. */
  readonly lowConfidence: number | null;
}

export interface PredictedForest extends Forest {
  readonly plant: readonly number[];
  readonly axes: readonly InferredAxis[];
  readonly edgeAxis: readonly number[];
}

export function postprocess(found: Forest, options: PostprocessOptions): PredictedForest {
  let forest = options.calibration === null ? found : calibrateEdges(found, options.calibration);
  if (options.edgeThreshold > 0) forest = cutUnlikelyEdges(forest, options.edgeThreshold);
  if (!options.unsurePlants) {
    if (options.calibration !== null && options.lowConfidence !== null) {
      forest = reviseDoubtfulBranches(forest, options.lowConfidence);
    }
    forest = dropUnsurePlants(forest);
  }
  const rounded: Forest = {
    ...forest,
    nodeScore: forest.nodeScore.map((value) => roundTo(value, SCORE_DIGITS)),
    edgeScore: forest.edgeScore.map((value) => roundTo(value, SCORE_DIGITS)),
    radius: forest.radius?.map((value) => roundTo(value, PLACE_DIGITS)) ?? null,
  };
  const traversal = traverse(rounded);
  const plant = numberPlants(rounded, traversal);
  const isBelow = isBelowBase(rounded, traversal);
  const fraction = traversal.component.map((c) => (isBelow[c] ? MIN_REACH_FRACTION_OF_ROOTS : 0));
  const { axes, ofEdge } = inferAxes(rounded, traversal, plant, fraction);
  return { ...rounded, plant, axes, edgeAxis: ofEdge };
}

function calibrateEdges(forest: Forest, coefficients: EdgeCalibration): Forest {
  const { nodeScore } = forest;
  const edgeScore = forest.edgeScore.map((score, k) => {
    const [u, v] = forest.edges[k] as Pair;
    return calibrate(score, Math.min(nodeScore[u] as number, nodeScore[v] as number), coefficients);
  });
  return { ...forest, edgeScore };
}

/** Plants from left to right by their roots. */
function numberPlants(forest: Forest, { component, componentRoot }: Traversal): number[] {
  const rootX = componentRoot.map((root) => forest.x[root] as number);
  const rank: number[] = [];
  argsort(rootX.length, (a, b) => (rootX[a] as number) - (rootX[b] as number) || a - b).forEach((c, at) => (rank[c] = at));
  return component.map((c) => rank[c] as number);
}

/** For each tree, whether it lies mostly, by length, below its root: roots, not shoots. */
function isBelowBase(forest: Forest, { component, componentRoot }: Traversal): boolean[] {
  const sum = componentRoot.map(() => 0);
  for (const edge of forest.edges) {
    const [u, v] = edge;
    const tree = component[u] as number;
    const base = forest.y[componentRoot[tree] as number] as number;
    const mean = ((forest.y[u] as number) - base + ((forest.y[v] as number) - base)) / 2;
    sum[tree] = (sum[tree] as number) + mean * edgeLength(forest, edge);
  }
  return sum.map((value) => value > 0);
}

/** Remove edges with a low score, and the nodes that this leaves without an edge. */
export function cutUnlikelyEdges(forest: Forest, minScore: number): Forest {
  const { depth } = traverse(forest);
  const count = forest.x.length;
  const likely = forest.edges.map((_, k) => (forest.edgeScore[k] as number) >= minScore);
  const edges = forest.edges.filter((_, k) => likely[k]);
  const [had, has] = [new Set(forest.edges.flat()), new Set(edges.flat())];
  const keep = forest.x.map((_, node) => has.has(node) || !had.has(node));
  const component = components(edges, count);
  // The root of a part that is cut off is the node where it was cut: the one nearest to the former root.
  const root: number[] = [];
  component.forEach((c, node) => {
    const best = root[c];
    if (best === undefined || (depth[node] as number) < (depth[best] as number)) root[c] = node;
  });
  const cut: Forest = { ...forest, edges, edgeScore: forest.edgeScore.filter((_, k) => likely[k]), roots: root.sort((a, b) => a - b) };
  return subgraph(cut, keep);
}

/** Remove trees without any node of score 0.5 or higher. */
function dropUnsurePlants(forest: Forest): Forest {
  const component = components(forest.edges, forest.x.length);
  const sure = new Set(component.filter((_, k) => (forest.nodeScore[k] as number) >= 0.5));
  return subgraph(forest, component.map((c) => sure.has(c)));
}
