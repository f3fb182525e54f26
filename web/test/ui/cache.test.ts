import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { covers } from "../../src/ui/canvas/cache";
import { View } from "../../src/ui/canvas/view";

describe("covers", () => {
  it("is true exactly if no visible part of the content is missing", () => {
    const view = fc.tuple(fc.integer({ min: -300, max: 300 }), fc.integer({ min: -300, max: 300 }));
    const size = fc.integer({ min: 50, max: 400 });
    fc.assert(
      fc.property(view, view, size, size, size, (a, b, wide, side, content) => {
        const cached = new View(1, a[0], a[1], wide, wide);
        const shown = new View(1, b[0], b[1], side, side);
        const box = { x0: 0, y0: 0, x1: content, y1: content };
        let missing = false;
        for (let x = b[0]; x < b[0] + side; x += 1) {
          for (const y of [b[1] + 0.5, b[1] + side - 0.5, 0.5, content - 0.5]) {
            const inContent = x + 0.5 > 0 && x + 0.5 < content && y > 0 && y < content;
            const inShown = y > b[1] && y < b[1] + side;
            const inCached = x + 0.5 > a[0] && x + 0.5 < a[0] + wide && y > a[1] && y < a[1] + wide;
            if (inContent && inShown && !inCached) missing = true;
          }
        }
        expect(covers(cached, shown, box, 0)).toBe(!missing);
      }),
    );
    expect(covers(new View(1, 0, 0, 1, 1), new View(1, 500, 0, 9, 9), null, 0)).toBe(true);
  });
});
