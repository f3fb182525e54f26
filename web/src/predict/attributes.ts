// Radii and directions that a network predicts, as in `treeformer.decoding.attributes`.

import type { Pair } from "./numeric.ts";

/** Added to the radius before the logarithm, px of the network's input. */
export const RADIUS_OFFSET_PX = 0.5;
/** Largest radius, px of the network's input. */
export const MAX_RADIUS_PX = 1e4;

/** Radii in px of the original image; `scale` is px of the original image per px of the network's input. */
export function radiusPx(attributes: ArrayLike<number>, scale: number): number[] {
  return Array.from({ length: attributes.length / 3 }, (_, k) => {
    const value = attributes[3 * k] as number;
    if (Number.isNaN(value)) return NaN;
    return Math.max(Math.exp(Math.min(value, Math.log(MAX_RADIUS_PX))) - RADIUS_OFFSET_PX, 0) * scale;
  });
}

/**
 * The cost of edges that contradict the predicted directions: 0 if one end points along the edge, at most 2 · weight.
 *
 * @param x Coordinates, px.
 * @param y The same.
 * @param pairs Nodes.
 * @param attributes Three values per node. NaN counts as no direction.
 * @param weight Cost of an edge at a right angle to a sure direction.
 * @param round `Math.fround` if the coordinates are float32, which Python then computes with.
 */
export function directionCost(
  x: ArrayLike<number>,
  y: ArrayLike<number>,
  pairs: readonly Pair[],
  attributes: ArrayLike<number>,
  weight: number,
  round: (value: number) => number = (value) => value,
): number[] {
  const finite = (value: number): number => (Number.isFinite(value) ? value : 0);
  const directions = Array.from({ length: attributes.length / 3 }, (_, k) => {
    const [dx, dy] = [finite(attributes[3 * k + 1] as number), finite(attributes[3 * k + 2] as number)];
    const length = Math.hypot(dx, dy);
    const limit = Math.max(length, 1);
    return { dx: dx / limit, dy: dy / limit, length };
  });
  type Direction = (typeof directions)[number];
  return pairs.map(([i, j]) => {
    let ax = round((x[j] as number) - (x[i] as number));
    let ay = round((y[j] as number) - (y[i] as number));
    const length = Math.max(round(Math.hypot(ax, ay)), round(1e-9));
    [ax, ay] = [round(ax / length), round(ay / length)];
    const [a, b] = [directions[i] as Direction, directions[j] as Direction];
    const agreement = Math.max(ax * a.dx + ay * a.dy, -(ax * b.dx + ay * b.dy));
    return weight * Math.max(Math.min(Math.max(a.length, b.length), 1) - agreement, 0);
  });
}
