import { describe, expect, test } from "vitest";
import { distance, distanceToPolyline } from "../../src/core/geometry.ts";
import type { XY } from "../../src/core/geometry.ts";
import { leastCostPath, Ridges, trace, traceBox, TraceSearch } from "../../src/core/trace.ts";
import type { Crop } from "../../src/core/trace.ts";

/** A drawn curve with noise: gray 120, the line `contrast` brighter (or darker), `width` px wide. */
function draw(curve: readonly XY[], size: number, contrast: number, width: number, others: readonly (readonly XY[])[] = []): Crop {
  const data = new Float32Array(size * size);
  let state = 12345;
  const noise = (): number => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648 - 0.5;
  };
  for (let j = 0; j < size; j++) {
    for (let i = 0; i < size; i++) {
      const at = { x: i + 0.5, y: j + 0.5 };
      const away = Math.min(...[curve, ...others].map((line) => distanceToPolyline(at, line)));
      data[j * size + i] = 120 + contrast * Math.max(0, Math.min(1, width / 2 + 0.5 - away)) + 12 * noise();
    }
  }
  return { data, width: size, height: size, x0: 0, y0: 0, scale: 1 };
}

const parametric = (f: (t: number) => XY, steps = 60): XY[] => Array.from({ length: steps + 1 }, (_, k) => f(k / steps));
const SIZE = 128;
const CURVES: Record<string, XY[]> = {
  sine: parametric((t) => ({ x: 14 + 100 * t, y: 64 + 30 * Math.sin(2 * Math.PI * t) })),
  arc: parametric((t) => ({ x: 64 + 48 * Math.cos(Math.PI * (1 + t)), y: 90 + 60 * Math.sin(Math.PI * (1 + t)) })),
  hook: parametric((t) => ({ x: 30 + 70 * t, y: 110 - 95 * Math.sqrt(t) })),
};

describe("trace", () => {
  for (const [name, curve] of Object.entries(CURVES)) {
    for (const contrast of [60, -60]) {
      for (const width of [2, 4]) {
        test(`follows a ${contrast > 0 ? "bright" : "dark"} ${name}, ${width} px wide, within 0.7 px`, () => {
          const [from, to] = [curve[0] as XY, curve[curve.length - 1] as XY];
          const path = trace(draw(curve, SIZE, contrast, width), from, to);
          expect(path[0]).toEqual(from);
          expect(path[path.length - 1]).toEqual(to);
          // Both ways: no point strays, and no part of the curve is cut short.
          for (const p of path) expect(distanceToPolyline(p, curve)).toBeLessThan(0.7);
          for (const p of curve) expect(distanceToPolyline(p, path)).toBeLessThan(0.7);
        });
      }
    }
  }

  test("stays on its line where another one crosses it", () => {
    const curve = CURVES.sine as XY[];
    const crop = draw(curve, SIZE, 60, 3, [[{ x: 64, y: 5 }, { x: 70, y: 125 }]]);
    const path = trace(crop, curve[0] as XY, curve[60] as XY);
    for (const p of path) expect(distanceToPolyline(p, curve)).toBeLessThan(2);
  });

  test("uses the heat map where the image shows nothing", () => {
    const curve = CURVES.arc as XY[];
    const heat = draw(curve, SIZE, 60, 3).data.map((value) => (value > 140 ? 1 : 0)) as Float32Array;
    const empty: Crop = { data: new Float32Array(SIZE * SIZE), heat, width: SIZE, height: SIZE, x0: 0, y0: 0, scale: 1 };
    const path = trace(empty, curve[0] as XY, curve[60] as XY);
    for (const p of path) expect(distanceToPolyline(p, curve)).toBeLessThan(2);
  });

  test("works in a reduced crop, in image coordinates", () => {
    const curve = CURVES.sine as XY[];
    const [offset, scale] = [500, 3];
    const crop = { ...draw(curve, SIZE, 60, 3), x0: offset, y0: offset, scale };
    const inImage = curve.map(({ x, y }) => ({ x: offset + scale * x, y: offset + scale * y }));
    const path = trace(crop, inImage[0] as XY, inImage[60] as XY);
    for (const p of path) expect(distanceToPolyline(p, inImage)).toBeLessThan(2 * scale);
  });

  test("goes round a sharp bend without cutting it", () => {
    const curve = [{ x: 15, y: 20 }, { x: 90, y: 40 }, { x: 40, y: 110 }];
    const path = trace(draw(curve, SIZE, 60, 2), curve[0] as XY, curve[2] as XY);
    expect(distanceToPolyline(curve[1] as XY, path)).toBeLessThan(2.5);
    const away = path.map((p) => distanceToPolyline(p, curve));
    expect(away.reduce((sum, one) => sum + one, 0) / away.length).toBeLessThan(0.2);
  });

  test("one search serves many ends, in any number of steps", () => {
    const curve = CURVES.sine as XY[];
    const ridges = new Ridges(draw(curve, SIZE, 60, 3));
    const search = new TraceSearch(ridges, curve[0] as XY, curve[60] as XY);
    for (const k of [60, 20, 41]) {
      let rounds = 1;
      while (!search.advance(curve[k] as XY, 50)) rounds++;
      expect(rounds > 1).toBe(k === 60);
      expect(search.path(curve[k] as XY)).toEqual(trace(ridges.crop, curve[0] as XY, curve[k] as XY));
    }
  });

  test("the cheapest path is that of an exhaustive relaxation", () => {
    const [width, height] = [9, 7];
    const cost = Float32Array.from({ length: width * height }, (_, k) => 1 + ((k * 7919) % 23));
    const path = leastCostPath(cost, width, height, 0, width * height - 1);
    const step = (a: number, b: number): number => {
      const [di, dj] = [Math.abs((a % width) - (b % width)), Math.abs(Math.floor(a / width) - Math.floor(b / width))];
      return Math.max(di, dj) === 1 ? (Math.hypot(di, dj) * ((cost[a] as number) + (cost[b] as number))) / 2 : Infinity;
    };
    const best = new Array<number>(cost.length).fill(Infinity);
    best[0] = 0;
    for (let round = 0; round < cost.length; round++) {
      for (let a = 0; a < cost.length; a++) {
        for (let b = 0; b < cost.length; b++) best[b] = Math.min(best[b] as number, (best[a] as number) + step(a, b));
      }
    }
    const total = path.slice(1).reduce((sum, k, at) => sum + step(path[at] as number, k), 0);
    expect(total).toBeCloseTo(best[cost.length - 1] as number, 9);
  });

  test("the box contains both ends and lies in the image", () => {
    const [x0, y0, x1, y1] = traceBox({ x: 10, y: 500 }, { x: 300, y: 20 }, [400, 520]);
    expect([x0, y0, x1, y1]).toEqual([0, 0, 400, 520]);
    expect(distance({ x: x0, y: y0 }, { x: x1, y: y1 })).toBeGreaterThan(0);
  });
});
