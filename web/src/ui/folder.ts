/** Order of the folder list and the walk from image to image. */

import type { ImageEntry, ImageState } from "../api";

export type SortBy = "errors" | "next" | "name" | "state";

const STATE_ORDER: Record<ImageState, number> = { failed: 0, missing: 1, predicted: 2, edited: 3, accepted: 4 };

const LABELS: Record<ImageState, string> = {
  missing: "no result",
  predicted: "predicted",
  edited: "edited",
  accepted: "accepted",
  failed: "failed",
};

/** The state of an image in words. */
export function stateLabel(state: ImageState): string {
  return LABELS[state];
}

/**
 * Entries in the order shown. "errors": most expected errors first, then images without a result, accepted last.
 * "next": as in `ranked`; then images that are not in it, by errors.
 */
export function sortedEntries(
  entries: readonly ImageEntry[],
  by: SortBy,
  ranked: readonly string[] = [],
): ImageEntry[] {
  const place = new Map(by === "next" ? ranked.map((image, index) => [image, index]) : []);
  const placeOf = (e: ImageEntry): number => place.get(e.image) ?? ranked.length;
  const byName = (a: ImageEntry, b: ImageEntry): number =>
    a.image.localeCompare(b.image, "en", { numeric: true }) || (a.image < b.image ? -1 : 1);
  const rank = (e: ImageEntry): number => (e.expected_errors === null ? 1 : e.state === "accepted" ? 2 : 0);
  return [...entries].sort((a, b) => {
    if (by === "state") return STATE_ORDER[a.state] - STATE_ORDER[b.state] || byName(a, b);
    if (by === "errors" || by === "next") {
      if (placeOf(a) !== placeOf(b)) return placeOf(a) - placeOf(b);
      return rank(a) - rank(b) || (b.expected_errors ?? 0) - (a.expected_errors ?? 0) || byName(a, b);
    }
    return byName(a, b);
  });
}

/** The image `step` places after `current`; the first one if there is no current image; null at the ends. */
export function neighbor(entries: readonly ImageEntry[], current: string | null, step: number): string | null {
  const at = entries.findIndex((e) => e.image === current);
  if (at < 0) return entries[0]?.image ?? null;
  return entries[at + step]?.image ?? null;
}

/** The image that an address names after its `#`; empty if it names none. */
export function askedImage(hash: string): string {
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    return ""; // a stray percent sign
  }
}

/** The next image after `current` that is not accepted, from the beginning again after the last; null if there is none. */
export function nextOpen(entries: readonly ImageEntry[], current: string | null): string | null {
  const at = entries.findIndex((e) => e.image === current);
  const others = [...entries.slice(at + 1), ...entries.slice(0, Math.max(0, at))];
  return others.find((e) => e.state !== "accepted" && e.state !== "failed")?.image ?? null;
}
