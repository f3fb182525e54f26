import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { levelFor, levelSize, TileLayer, visibleTiles } from "../../src/ui/canvas/tiles";
import { View } from "../../src/ui/canvas/view";

const pyramid = { width: 10000, height: 7001, tile: 512, levels: 6 };

describe("levels", () => {
  it("are never coarser than the screen if there is a finer one", () => {
    fc.assert(
      fc.property(fc.double({ min: 0.001, max: 60, noNaN: true }), (scale) => {
        const level = levelFor(scale, 6);
        if (level > 0) expect(2 ** level * scale).toBeLessThanOrEqual(1.0001);
        if (level < 5) expect(2 ** (level + 1) * scale).toBeGreaterThan(0.9999);
      }),
    );
    expect(levelFor(1, 6)).toBe(0);
    expect(levelFor(0.5, 6)).toBe(1);
  });

  it("halve and round up", () => {
    expect(levelSize(pyramid, 1)).toEqual({ width: 5000, height: 3501 });
  });
});

describe("visible tiles", () => {
  it("cover every visible point of the image, nearest to the center first", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 5 }),
        fc.integer({ min: -2000, max: 11000 }),
        fc.integer({ min: -2000, max: 8000 }),
        (level, left, top) => {
          const view = new View(0.7, left, top, 900, 700);
          const keys = visibleTiles(pyramid, level, view);
          const names = new Set(keys.map((k) => `${k.x}/${k.y}`));
          expect(names.size).toBe(keys.length);
          const span = 512 * 2 ** level;
          for (let i = 0; i <= 20; i++) {
            for (let j = 0; j <= 20; j++) {
              const p = view.toImage({ x: (i / 20) * 900, y: (j / 20) * 700 });
              if (p.x < 0 || p.y < 0 || p.x >= 10000 || p.y >= 7001) continue;
              expect(names.has(`${Math.floor(p.x / span)}/${Math.floor(p.y / span)}`)).toBe(true);
            }
          }
        },
      ),
    );
  });
});

function fakeContext() {
  const drawn: number[][] = [];
  const context = { drawImage: (_: unknown, ...box: number[]) => void drawn.push(box) };
  return { drawn, context: context as unknown as CanvasRenderingContext2D };
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 0));

describe("TileLayer", () => {
  const bitmap = (): ImageBitmap => ({ width: 512, height: 512, close() {} }) as ImageBitmap;

  it("loads the coarse level first, a few at a time, and draws without gaps", async () => {
    const asked: string[] = [];
    let most = 0;
    let open = 0;
    const layer = new TileLayer(
      { width: 4096, height: 4096, tile: 512, levels: 4 },
      async (level, x, y) => {
        asked.push(`${level}/${x}/${y}`);
        most = Math.max(most, ++open);
        await settled();
        open--;
        return bitmap();
      },
      () => undefined,
    );
    const view = new View(1, 0, 0, 2000, 1500);
    for (let i = 0; i < 30; i++) {
      layer.draw(fakeContext().context, view, 1);
      await settled();
      await settled();
    }
    expect(asked[0]).toBe("3/0/0");
    expect(most).toBeLessThanOrEqual(6);
    expect(layer.complete).toBe(true);
    expect(new Set(asked).size).toBe(asked.length);
    const last = fakeContext();
    layer.draw(last.context, new View(0.913, 3.3, 7.7, 2000, 1500), 1.5);
    const rights = new Set(last.drawn.map(([x, , w]) => x! + w!));
    for (const [x] of last.drawn) if (x! > 0) expect(rights.has(x!)).toBe(true);
  });

  it("stops loads that are out of sight and forgets old tiles", async () => {
    const aborted: string[] = [];
    const layer = new TileLayer(
      { width: 51200, height: 512, tile: 512, levels: 1 },
      (level, x, y, signal) =>
        new Promise((resolve, reject) => {
          signal.addEventListener("abort", () => {
            aborted.push(`${level}/${x}/${y}`);
            reject(new DOMException("stopped", "AbortError"));
          });
          setTimeout(() => resolve(bitmap()), 20);
        }),
      () => undefined,
      4,
    );
    layer.draw(fakeContext().context, new View(1, 0, 0, 600, 500), 1);
    layer.draw(fakeContext().context, new View(1, 40000, 0, 600, 500), 1);
    await settled();
    expect(aborted.sort()).toEqual(["0/0/0", "0/1/0"]);
  });
});
