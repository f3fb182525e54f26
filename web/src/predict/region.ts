// A prediction of a part of an image, moved to its place in the whole image.

import type { PredictedForest } from "./postprocess.ts";
import { clip, rint } from "./numeric.ts";
import type { Size } from "./tiles.ts";

type Box = [left: number, top: number, right: number, bottom: number];

const SHORTEST_REGION_PX = 8;

/** A region as whole pixels inside an image; null if it is too small. */
export function pixelRegion(region: readonly [number, number, number, number], [width, height]: Size): Box | null {
  const [left, right] = [clip(rint(region[0]), 0, width), clip(rint(region[2]), 0, width)];
  const [top, bottom] = [clip(rint(region[1]), 0, height), clip(rint(region[3]), 0, height)];
  return Math.min(right - left, bottom - top) < SHORTEST_REGION_PX ? null : [left, top, right, bottom];
}

export function moved(forest: PredictedForest, [left, top]: Box, imageSize: Size): PredictedForest {
  return { ...forest, x: forest.x.map((x) => x + left), y: forest.y.map((y) => y + top), imageSize };
}
