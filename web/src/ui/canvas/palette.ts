/** Colors of the overlay. All scales are readable with the common forms of color blindness. */

/** Okabe and Ito's palette without black, in an order that keeps neighbors apart. */
export const CATEGORIES = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0072b2", "#d55e00"] as const;

/** Branching order 0, 1, 2, 3 and more. */
export const ORDERS = ["#f0e442", "#56b4e9", "#d55e00", "#f7d0e4"] as const;

/** Confidence from 0 to 1: vermilion, yellow, sky blue. Doubtful edges are also dashed. */
const CONFIDENCE_STOPS: [number, number, number][] = [
  [213, 94, 0],
  [240, 228, 66],
  [86, 180, 233],
];

export const CONFIDENCE_STEPS = 8;

export const UNKNOWN = "#dddddd";
export const SELECTED = "#ffffff";
export const HOVER = "#ffffff";
export const PREVIEW = "#ff5ccd";
export const HALO = "rgba(0, 0, 0, 0.55)";

/** Step 0 to CONFIDENCE_STEPS − 1 of a score in [0, 1]. */
export function confidenceStep(score: number): number {
  const bounded = Math.min(1, Math.max(0, score));
  return Math.min(CONFIDENCE_STEPS - 1, Math.floor(bounded * CONFIDENCE_STEPS));
}

/** The color of a step of the confidence. */
export function confidenceColor(step: number): string {
  const position = (step / (CONFIDENCE_STEPS - 1)) * (CONFIDENCE_STOPS.length - 1);
  const i = Math.min(CONFIDENCE_STOPS.length - 2, Math.floor(position));
  const t = position - i;
  const mixed = CONFIDENCE_STOPS[i]!.map((a, k) => Math.round(a + (CONFIDENCE_STOPS[i + 1]![k]! - a) * t));
  return `rgb(${mixed.join(", ")})`;
}

/** The color of a plant by its index. */
export function plantColor(plant: number): string {
  return CATEGORIES[((plant % CATEGORIES.length) + CATEGORIES.length) % CATEGORIES.length]!;
}

/** The color of an axis by its id, such as "1.2": the same at all dates of a series, different for neighbors. */
export function identityColor(id: string): string {
  const parts = id.match(/\d+/g)?.map(Number) ?? [...id].map((letter) => letter.charCodeAt(0));
  return plantColor(parts.reduce((sum, part, k) => sum + part * (k + 1), 0));
}

/** The color of an axis by its order. */
export function orderColor(order: number): string {
  return ORDERS[Math.min(ORDERS.length - 1, Math.max(0, order))]!;
}
