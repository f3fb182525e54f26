// Trace a line through an image: the path of least cost between two points, over image ridges and a heat map.
//
// The ridge strength of a pixel is the curvature of the smoothed brightness across the line, the largest over several
// scales. Lines may be brighter or darker than their surroundings; the polarity that is stronger at both ends counts.

import type { XY } from "./geometry.ts";

/** A part of an image in gray levels, row by row. Pixel (i, j) has its center at (x0 + (i + ½) · scale, y0 + (j + ½) · scale). */
export interface Crop {
  readonly data: Float32Array | Uint8Array | Uint8ClampedArray;
  readonly width: number;
  readonly height: number;
  /** The position of the upper left corner in the image, px. */
  readonly x0: number;
  readonly y0: number;
  /** Image px per pixel of the crop. */
  readonly scale: number;
  /** How likely each pixel is on a plant, 0 to 1; same size as `data`. */
  readonly heat?: Float32Array | null;
}

export type Polarity = "bright" | "dark";

export interface TraceOptions {
  /** Standard deviations of the smoothing, px of the crop: about half the width of the lines. */
  readonly sigmas: readonly number[];
  /** Cost of a step where nothing is seen, relative to a step on the strongest ridge. */
  readonly contrast: number;
}

export const TRACE_DEFAULTS: TraceOptions = { sigmas: [1.2, 2.4], contrast: 30 };

/** The part of the image that is needed to trace between two points: their box with a margin, [x0, y0, x1, y1] in px. */
export function traceBox(a: XY, b: XY, size: readonly [number, number]): [number, number, number, number] {
  const margin = Math.max(32, 0.35 * Math.hypot(a.x - b.x, a.y - b.y));
  return [
    Math.max(0, Math.floor(Math.min(a.x, b.x) - margin)),
    Math.max(0, Math.floor(Math.min(a.y, b.y) - margin)),
    Math.min(size[0], Math.ceil(Math.max(a.x, b.x) + margin)),
    Math.min(size[1], Math.ceil(Math.max(a.y, b.y) + margin)),
  ];
}

/** The path of least cost between two points in image coordinates, both included. */
export function trace(crop: Crop, from: XY, to: XY, options: TraceOptions = TRACE_DEFAULTS): XY[] {
  const { width, height, x0, y0, scale } = crop;
  if (width < 1 || height < 1) return [from, to];
  const pixel = ({ x, y }: XY): number => {
    const column = Math.min(width - 1, Math.max(0, Math.floor((x - x0) / scale)));
    const row = Math.min(height - 1, Math.max(0, Math.floor((y - y0) / scale)));
    return row * width + column;
  };
  const [start, end] = [pixel(from), pixel(to)];
  const strength = lineStrength(crop, [start, end], options.sigmas);
  const cost = strength.map((value) => 1 / (1 / options.contrast + value));
  const path = leastCostPath(cost, width, height, start, end);
  const points = path.map((k) => ({ x: x0 + ((k % width) + 0.5) * scale, y: y0 + (Math.floor(k / width) + 0.5) * scale }));
  const smooth = smoothed(points, 2);
  return [from, ...smooth.slice(1, -1), to];
}

/** How much each pixel looks like a line, 0 to 1: ridges of the polarity that is stronger at `ends`, and the heat map. */
export function lineStrength(crop: Crop, ends: readonly number[], sigmas: readonly number[]): Float32Array {
  const { width, height, heat } = crop;
  const bright = new Float32Array(width * height);
  const dark = new Float32Array(width * height);
  for (const sigma of sigmas) addRidges(crop, sigma, bright, dark);
  const near = (values: Float32Array): number => ends.reduce((sum, end) => sum + largestNear(values, width, height, end, 3), 0);
  const ridge = near(dark) > near(bright) ? dark : bright;
  const top = quantile(ridge, 0.98);
  return ridge.map((value, k) => {
    const seen = top > 0 ? Math.min(1, value / top) : 0;
    return heat == null ? seen : Math.min(1, 0.4 * seen + (heat[k] as number));
  });
}

function addRidges({ data, width, height }: Crop, sigma: number, bright: Float32Array, dark: Float32Array): void {
  const smooth = blur(data, width, height, sigma);
  const at = (i: number, j: number): number =>
    smooth[Math.min(height - 1, Math.max(0, j)) * width + Math.min(width - 1, Math.max(0, i))] as number;
  for (let j = 0; j < height; j++) {
    for (let i = 0; i < width; i++) {
      const here = at(i, j);
      const xx = at(i + 1, j) - 2 * here + at(i - 1, j);
      const yy = at(i, j + 1) - 2 * here + at(i, j - 1);
      const xy = (at(i + 1, j + 1) - at(i - 1, j + 1) - at(i + 1, j - 1) + at(i - 1, j - 1)) / 4;
      const root = Math.sqrt((xx - yy) * (xx - yy) + 4 * xy * xy);
      const k = j * width + i;
      bright[k] = Math.max(bright[k] as number, (-sigma * sigma * (xx + yy - root)) / 2);
      dark[k] = Math.max(dark[k] as number, (sigma * sigma * (xx + yy + root)) / 2);
    }
  }
}

/** Gaussian smoothing; the border is continued. */
export function blur(data: ArrayLike<number>, width: number, height: number, sigma: number): Float32Array {
  const reach = Math.max(1, Math.ceil(3 * sigma));
  const kernel = Array.from({ length: 2 * reach + 1 }, (_, k) => Math.exp(-((k - reach) ** 2) / (2 * sigma * sigma)));
  const total = kernel.reduce((sum, value) => sum + value, 0);
  const across = new Float32Array(width * height);
  const result = new Float32Array(width * height);
  for (let j = 0; j < height; j++) {
    for (let i = 0; i < width; i++) {
      let sum = 0;
      for (let k = -reach; k <= reach; k++) {
        const column = Math.min(width - 1, Math.max(0, i + k));
        sum += (kernel[k + reach] as number) * (data[j * width + column] as number);
      }
      across[j * width + i] = sum / total;
    }
  }
  for (let j = 0; j < height; j++) {
    for (let i = 0; i < width; i++) {
      let sum = 0;
      for (let k = -reach; k <= reach; k++) {
        const row = Math.min(height - 1, Math.max(0, j + k));
        sum += (kernel[k + reach] as number) * (across[row * width + i] as number);
      }
      result[j * width + i] = sum / total;
    }
  }
  return result;
}

function largestNear(values: Float32Array, width: number, height: number, center: number, reach: number): number {
  const [ci, cj] = [center % width, Math.floor(center / width)];
  let largest = 0;
  for (let j = Math.max(0, cj - reach); j <= Math.min(height - 1, cj + reach); j++) {
    for (let i = Math.max(0, ci - reach); i <= Math.min(width - 1, ci + reach); i++) {
      largest = Math.max(largest, values[j * width + i] as number);
    }
  }
  return largest;
}

function quantile(values: Float32Array, fraction: number): number {
  const sorted = values.slice().sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(fraction * sorted.length))] ?? 0;
}

/** Pixels of the cheapest path between two pixels of a grid with eight neighbors (Dijkstra with a binary heap). */
export function leastCostPath(cost: Float32Array, width: number, height: number, start: number, end: number): number[] {
  const count = width * height;
  const total = new Float64Array(count).fill(Infinity);
  const before = new Int32Array(count).fill(-1);
  const done = new Uint8Array(count);
  const heap = new Heap();
  total[start] = 0;
  heap.push(start, 0);
  for (let at = heap.pop(); at >= 0 && at !== end; at = heap.pop()) {
    if (done[at] === 1) continue;
    done[at] = 1;
    const [i, j] = [at % width, Math.floor(at / width)];
    for (let dj = -1; dj <= 1; dj++) {
      for (let di = -1; di <= 1; di++) {
        const [ni, nj] = [i + di, j + dj];
        if ((di === 0 && dj === 0) || ni < 0 || nj < 0 || ni >= width || nj >= height) continue;
        const next = nj * width + ni;
        if (done[next] === 1) continue;
        const step = di !== 0 && dj !== 0 ? Math.SQRT2 : 1;
        const through = (total[at] as number) + (step * ((cost[at] as number) + (cost[next] as number))) / 2;
        if (through < (total[next] as number)) {
          total[next] = through;
          before[next] = at;
          heap.push(next, through);
        }
      }
    }
  }
  const path: number[] = [];
  for (let at = end; at >= 0; at = before[at] as number) path.push(at);
  return path.reverse();
}

/** A binary heap of pixels by cost. */
class Heap {
  private readonly items: number[] = [];
  private readonly keys: number[] = [];

  push(item: number, key: number): void {
    const { items, keys } = this;
    let at = items.length;
    items.push(item);
    keys.push(key);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if ((keys[parent] as number) <= key) break;
      [items[at], keys[at]] = [items[parent] as number, keys[parent] as number];
      at = parent;
    }
    [items[at], keys[at]] = [item, key];
  }

  /** The item with the lowest key, -1 if the heap is empty. */
  pop(): number {
    const { items, keys } = this;
    const first = items[0];
    if (first === undefined) return -1;
    const [item, key] = [items.pop() as number, keys.pop() as number];
    if (items.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && (keys[child + 1] as number) < (keys[child] as number)) child++;
      if ((keys[child] as number) >= key) break;
      [items[at], keys[at]] = [items[child] as number, keys[child] as number];
      at = child;
    }
    [items[at], keys[at]] = [item, key];
    return first;
  }
}

/** Moving average over 2 · reach + 1 points; fewer near the ends, which stay. */
function smoothed(points: readonly XY[], reach: number): XY[] {
  return points.map((_, k) => {
    const span = Math.min(reach, k, points.length - 1 - k);
    const part = points.slice(k - span, k + span + 1);
    const sum = part.reduce((s, { x, y }) => ({ x: s.x + x, y: s.y + y }), { x: 0, y: 0 });
    return { x: sum.x / part.length, y: sum.y / part.length };
  });
}
