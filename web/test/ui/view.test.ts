import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MAX_SCALE, View } from "../../src/ui/canvas/view";

const number = (min: number, max: number) => fc.double({ min, max, noNaN: true });
const views = fc
  .tuple(number(0.01, 50), number(-5000, 5000), number(-5000, 5000), number(50, 2000), number(50, 2000))
  .map(([s, l, t, w, h]) => new View(s, l, t, w, h));
const points = fc.record({ x: number(-3000, 3000), y: number(-3000, 3000) });

describe("View", () => {
  it("maps to the screen and back", () => {
    fc.assert(
      fc.property(views, points, (view, p) => {
        const back = view.toImage(view.toScreen(p));
        expect(back.x).toBeCloseTo(p.x, 6);
        expect(back.y).toBeCloseTo(p.y, 6);
      }),
    );
  });

  it("keeps the point below the pointer when zooming, also at the limits", () => {
    fc.assert(
      fc.property(views, points, number(0.001, 1000), (view, anchor, factor) => {
        const before = view.toImage(anchor);
        const zoomed = view.zoomed(factor, anchor, 0.005);
        const after = zoomed.toImage(anchor);
        expect(after.x).toBeCloseTo(before.x, 5);
        expect(after.y).toBeCloseTo(before.y, 5);
        expect(zoomed.scale).toBeLessThanOrEqual(MAX_SCALE);
        expect(zoomed.scale).toBeGreaterThanOrEqual(0.005);
      }),
    );
  });

  it("fits a box with a margin", () => {
    const view = View.fit({ x0: 100, y0: 50, x1: 300, y1: 150 }, 420, 420, 10);
    expect(view.scale).toBeCloseTo(2);
    expect(view.toScreen({ x: 200, y: 100 })).toEqual({ x: 210, y: 210 });
  });

  it("keeps a part of the image visible", () => {
    fc.assert(
      fc.property(views, (view) => {
        const clamped = view.clamped(800, 600, 40);
        const a = clamped.toScreen({ x: 0, y: 0 });
        const b = clamped.toScreen({ x: 800, y: 600 });
        const keepX = Math.min(40, 400 * view.scale, view.width / 2) - 0.01;
        const keepY = Math.min(40, 300 * view.scale, view.height / 2) - 0.01;
        expect(b.x).toBeGreaterThan(keepX);
        expect(a.x).toBeLessThan(view.width - keepX);
        expect(b.y).toBeGreaterThan(keepY);
        expect(a.y).toBeLessThan(view.height - keepY);
      }),
    );
  });

  it("keeps the center when the canvas changes size", () => {
    const view = new View(2, 10, 20, 400, 300);
    const center = view.toImage({ x: 200, y: 150 });
    expect(view.resized(600, 500).toImage({ x: 300, y: 250 })).toEqual(center);
  });
});
