import { describe, expect, it } from "vitest";
import { CATEGORIES, CONFIDENCE_STEPS, confidenceColor, confidenceStep, ORDERS, orderColor, plantColor } from "../../src/ui/canvas/palette";

type Rgb = [number, number, number];

function rgb(color: string): Rgb {
  const hex = /^#(..)(..)(..)$/.exec(color);
  if (hex) return hex.slice(1).map((h) => parseInt(h, 16) / 255) as Rgb;
  return /rgb\((\d+), (\d+), (\d+)\)/.exec(color)!.slice(1).map((n) => Number(n) / 255) as Rgb;
}

const linear = (c: number): number => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);

// Machado, Oliveira and Fernandes 2009, severity 1.
const BLIND: Record<string, number[][]> = {
  none: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
};

/** CIE L*a*b* of a color as a person with this vision sees it. */
function lab(color: string, vision: string): Rgb {
  const c = rgb(color).map(linear);
  const [r, g, b] = BLIND[vision]!.map((row) => Math.min(1, Math.max(0, row.reduce((s, m, i) => s + m * c[i]!, 0)))) as Rgb;
  const f = (t: number): number => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
  const x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
  const y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
  const z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

function apart(a: string, b: string, vision: string): number {
  const [p, q] = [lab(a, vision), lab(b, vision)];
  return Math.hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]);
}

describe.each(Object.keys(BLIND))("with vision %s", (vision) => {
  it("plants are told apart", () => {
    for (let i = 0; i < CATEGORIES.length; i++) {
      for (let j = 0; j < i; j++) expect(apart(CATEGORIES[i]!, CATEGORIES[j]!, vision)).toBeGreaterThan(10);
    }
  });

  it("orders are told apart", () => {
    for (let i = 0; i < ORDERS.length; i++) {
      for (let j = 0; j < i; j++) expect(apart(ORDERS[i]!, ORDERS[j]!, vision)).toBeGreaterThan(20);
    }
  });

  it("low, middle and high confidence are told apart", () => {
    const [low, middle, high] = [0, 4, CONFIDENCE_STEPS - 1].map(confidenceColor);
    expect(apart(low!, middle!, vision)).toBeGreaterThan(25);
    expect(apart(middle!, high!, vision)).toBeGreaterThan(25);
    expect(apart(low!, high!, vision)).toBeGreaterThan(40);
  });
});

describe("scales", () => {
  it("bound what they are given", () => {
    expect(confidenceStep(-1)).toBe(0);
    expect(confidenceStep(1)).toBe(CONFIDENCE_STEPS - 1);
    expect(confidenceStep(2)).toBe(CONFIDENCE_STEPS - 1);
    expect(plantColor(CATEGORIES.length)).toBe(CATEGORIES[0]);
    expect(orderColor(99)).toBe(ORDERS[3]);
  });
});
