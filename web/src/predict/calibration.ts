// Calibrated edge scores, as in `treeformer.decoding.calibration`.

import { clip, sigmoid } from "./numeric.ts";

/** Intercept, slope below a score of 0.5, slope above it, slope of the lower node score. */
export type EdgeCalibration = readonly [number, number, number, number];

const MIN_SCORE = 1e-6;

function logit(score: number): number {
  const limited = clip(score, MIN_SCORE, 1 - MIN_SCORE);
  return Math.log(limited / (1 - limited));
}

/** The probability that an edge is correct. A score of 0 stays 0: such an edge only joins two components. */
export function calibrate(edgeScore: number, nodeScore: number, coefficients: EdgeCalibration): number {
  if (edgeScore === 0) return 0;
  const [intercept, below, above, node] = coefficients;
  const edge = logit(edgeScore);
  return sigmoid(intercept + Math.min(edge, 0) * below + Math.max(edge, 0) * above + logit(nodeScore) * node);
}
