/** Going through the dates of a series: the same place stays in view, corrections are offered to the other dates. */

import type { SeriesDate } from "../api";
import { type Correction, inverse, mapped, moved, type Similarity } from "../core/corrections";
import { View } from "./canvas/view";

/** Part of the longer side of an image within which two places are the same. */
const TOLERANCE = 0.01;

/** What was corrected on one date. */
export interface Offer {
  from: string;
  corrections: readonly Correction[];
  /** Images for which it was applied or refused. */
  done: Set<string>;
}

/** A time of the series in words. */
export function timeLabel(time: number): string {
  return `Time ${Number(time.toFixed(2))}`;
}

/** The distance within which two places of an image are the same, px. */
export function toleranceFor(size: { width: number; height: number }): number {
  return Math.max(4, TOLERANCE * Math.max(size.width, size.height));
}

/** The view of another date that shows the same place of the plate at the same size. */
export function sameView(view: View, from: Similarity, to: Similarity): View {
  const center = view.toImage({ x: view.width / 2, y: view.height / 2 });
  const size = Math.hypot(to[0], to[1]) / Math.hypot(from[0], from[1]);
  return view.centeredOn(mapped(inverse(to), mapped(from, center)), view.scale * size);
}

/** Offers of other dates, in px of the date `image`, with the times that they come from. */
export function offersFor(
  offers: readonly Offer[],
  dates: readonly SeriesDate[],
  image: string,
): { corrections: Correction[]; from: string } {
  const here = dates.find((date) => date.image === image);
  const found: { time: number; list: Correction[] }[] = [];
  for (const offer of offers) {
    const there = dates.find((date) => date.image === offer.from);
    if (!here || !there || there === here || offer.done.has(image)) continue;
    found.push({ time: there.time, list: offer.corrections.map((one) => moved(one, there.transform, here.transform)) });
  }
  const times = [...new Set(found.map(({ time }) => timeLabel(time).toLowerCase()))];
  return { corrections: found.flatMap(({ list }) => list), from: times.join(", ") };
}
