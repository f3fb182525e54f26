// Choose the working size from a first pass over the whole image, as in `treeformer.inference.auto_scale`.

import { traverse } from "./forest.ts";
import type { Forest } from "./forest.ts";
import { median, rint } from "./numeric.ts";

export interface ScaleRule {
  readonly signal: "spacing" | "radius";
  /** Value of the signal at which the network is best, px of its input. */
  readonly target_px: number;
  /** The working size is the input size times a power of two up to this one. */
  readonly max_doublings: number;
  /** If keypoints are nearer to each other than this, a doubled size is doubled once more. */
  readonly crowded_px?: number;
}

/** Least probability of a root that is a base for sure. */
export const MIN_BASE_SCORE = 0.5;
const MIN_NODE_SCORE = 0.5;
/** A base is moved to a node within this fraction of the image's longer side. */
const MAX_BASE_DISTANCE = 0.05;

/** The length to which the longer side of an image is reduced, px; `fixedSize` if nothing can be measured. */
export function chooseWorkingSize(firstPass: Forest, rule: ScaleRule, inputSize: number, fixedSize: number): number {
  const longest = Math.max(...firstPass.imageSize);
  const measured = (measureScale(firstPass, rule.signal) * inputSize) / longest;
  let size = fixedSize;
  if (measured > 0) {
    let doublings = rint(Math.log2(rule.target_px / measured));
    const spacing = (measureScale(firstPass, "spacing") * inputSize) / longest;
    if (doublings > 0 && spacing < (rule.crowded_px ?? 0)) doublings += 1;
    size = inputSize * 2 ** Math.min(Math.max(doublings, 0), rule.max_doublings);
  }
  return Math.max(inputSize, Math.min(size, longest));
}

/** Median distance from a keypoint to the nearest other one, or median radius, px; NaN if it cannot be measured. */
export function measureScale(forest: Forest, signal: ScaleRule["signal"]): number {
  if (signal === "radius") {
    const sure = (forest.radius ?? []).filter((_, k) => (forest.nodeScore[k] as number) >= MIN_NODE_SCORE);
    return median(sure.filter(Number.isFinite));
  }
  const degree = new Array<number>(forest.x.length).fill(0);
  for (const end of forest.edges.flat()) degree[end] = (degree[end] as number) + 1;
  const keypoints = degree.flatMap((value, k) => (value === 2 ? [] : [k]));
  if (keypoints.length < 2) return NaN;
  return median(
    keypoints.map((a) => Math.min(...keypoints.filter((b) => b !== a).map((b) => distance(forest, a, b)))),
  );
}

function distance({ x, y }: Forest, a: number, b: number): number {
  const [dx, dy] = [(x[a] as number) - (x[b] as number), (y[a] as number) - (y[b] as number)];
  return Math.sqrt(dx * dx + dy * dy);
}

/** Move the root of each tree to its node nearest to a base. The surest base comes first and wins. */
export function moveBases(forest: Forest, bases: readonly (readonly [number, number])[]): Forest {
  if (bases.length === 0 || forest.x.length === 0) return forest;
  const reach = MAX_BASE_DISTANCE * Math.max(...forest.imageSize);
  const { component, componentRoot } = traverse(forest);
  const roots = [...componentRoot];
  for (const [bx, by] of [...bases].reverse()) {
    let [nearest, least] = [-1, Infinity];
    forest.x.forEach((x, node) => {
      const [dx, dy] = [x - bx, (forest.y[node] as number) - by];
      const apart = Math.sqrt(dx * dx + dy * dy);
      if (apart < least) [nearest, least] = [node, apart];
    });
    if (nearest >= 0 && least <= reach) roots[component[nearest] as number] = nearest;
  }
  return { ...forest, roots: roots.sort((a, b) => a - b) };
}
