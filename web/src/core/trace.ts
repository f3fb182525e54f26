// Trace a line through an image: the path of least cost between two points, over image ridges and a heat map.
//
// The ridge strength of a pixel is the curvature of the smoothed brightness across the line, the largest over several
// scales. Lines may be brighter or darker than their surroundings; the polarity that is stronger at both ends counts.
// A path is then moved onto the crest of the ridge, so that it does not cut corners inside of wide lines.

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

export const TRACE_DEFAULTS: TraceOptions = { sigmas: [1.2, 2.4, 4.8], contrast: 30 };

/** Strength of the strongest ridges relative to the 98th percentile, beyond which they count as equal. */
const STRONGEST = 4;
/** How far a point of a path is moved to reach the crest, px of the crop. */
const CREST_REACH = 2.5;

/** The part of the image that is needed to trace between two points: their box with a margin, [x0, y0, x1, y1] in px. */
export function traceBox(a: XY, b: XY, size: readonly [number, number], least = 32): [number, number, number, number] {
  const margin = Math.max(least, 0.35 * Math.hypot(a.x - b.x, a.y - b.y));
  return [
    Math.max(0, Math.floor(Math.min(a.x, b.x) - margin)),
    Math.max(0, Math.floor(Math.min(a.y, b.y) - margin)),
    Math.min(size[0], Math.ceil(Math.max(a.x, b.x) + margin)),
    Math.min(size[1], Math.ceil(Math.max(a.y, b.y) + margin)),
  ];
}

/** The path of least cost between two points in image coordinates, both included. */
export function trace(crop: Crop, from: XY, to: XY, options: TraceOptions = TRACE_DEFAULTS): XY[] {
  if (crop.width < 1 || crop.height < 1) return [from, to];
  const search = new TraceSearch(new Ridges(crop, options), from, to);
  while (!search.advance(to, Infinity)) continue;
  return search.path(to);
}

/** The ridges of a crop, computed once for all traces in it. */
export class Ridges {
  private readonly bright: Float32Array;
  private readonly dark: Float32Array;
  private readonly known = new Map<Polarity, { strength: Float32Array; cost: Float32Array }>();

  constructor(
    readonly crop: Crop,
    private readonly options: TraceOptions = TRACE_DEFAULTS,
  ) {
    this.bright = new Float32Array(crop.width * crop.height);
    this.dark = new Float32Array(crop.width * crop.height);
    for (const sigma of options.sigmas) addRidges(crop, sigma, this.bright, this.dark);
  }

  /** The pixel of a point in image coordinates; the nearest one if it lies outside. */
  pixel({ x, y }: XY): number {
    const { width, height, x0, y0, scale } = this.crop;
    const column = Math.min(width - 1, Math.max(0, Math.floor((x - x0) / scale)));
    const row = Math.min(height - 1, Math.max(0, Math.floor((y - y0) / scale)));
    return row * width + column;
  }

  /** The polarity that is stronger near some points. */
  polarity(points: readonly XY[]): Polarity {
    const { width, height } = this.crop;
    const near = (values: Float32Array): number =>
      points.reduce((sum, point) => sum + largestNear(values, width, height, this.pixel(point), 3), 0);
    return near(this.dark) > near(this.bright) ? "dark" : "bright";
  }

  /** How much each pixel looks like a line, about 1 on clear lines, and the cost of a step there. */
  field(polarity: Polarity): { strength: Float32Array; cost: Float32Array } {
    let field = this.known.get(polarity);
    if (field === undefined) {
      const { heat } = this.crop;
      const ridge = polarity === "dark" ? this.dark : this.bright;
      const top = quantile(ridge, 0.98);
      const strength = ridge.map((value, k) => {
        const seen = top > 0 ? Math.min(STRONGEST, value / top) : 0;
        return heat == null ? seen : 0.4 * seen + (heat[k] as number);
      });
      field = { strength, cost: strength.map((value) => 1 / (1 / this.options.contrast + value)) };
      this.known.set(polarity, field);
    }
    return field;
  }
}

/** Paths of least cost from one point to any others. The search goes only as far as it is asked to. */
export class TraceSearch {
  readonly polarity: Polarity;
  private readonly search: PathSearch;

  constructor(
    private readonly ridges: Ridges,
    readonly from: XY,
    to: XY,
  ) {
    this.polarity = ridges.polarity([from, to]);
    const { width, height } = ridges.crop;
    this.search = new PathSearch(ridges.field(this.polarity).cost, width, height, ridges.pixel(from));
  }

  /** Go on by at most `steps` pixels. Return true once the path to a point is known. */
  advance(to: XY, steps: number): boolean {
    return this.search.advance(this.ridges.pixel(to), steps);
  }

  /** The path to a point that `advance` has reached, in image coordinates, both ends included. */
  path(to: XY): XY[] {
    const { width, x0, y0, scale } = this.ridges.crop;
    const pixels = this.search.path(this.ridges.pixel(to));
    const points = smoothed(pixels.map((k) => ({ x: (k % width) + 0.5, y: Math.floor(k / width) + 0.5 })), 2);
    const crest = smoothed(onCrest(points, this.ridges.field(this.polarity).strength, this.ridges.crop), 1);
    const inner = crest.slice(1, -1).map(({ x, y }) => ({ x: x0 + x * scale, y: y0 + y * scale }));
    return [this.from, ...inner, to];
  }
}

/** Move the points of a line, in px of the crop, across it to where the strength is largest. Both ends stay. */
function onCrest(points: readonly XY[], strength: Float32Array, { width, height }: Crop): XY[] {
  const at = (x: number, y: number): number => {
    const [u, v] = [Math.min(width - 1, Math.max(0, x - 0.5)), Math.min(height - 1, Math.max(0, y - 0.5))];
    const [i, j] = [Math.min(width - 2, Math.floor(u)), Math.min(height - 2, Math.floor(v))];
    const [s, t] = [u - i, v - j];
    const value = (k: number): number => strength[k] as number;
    const k = j * width + i;
    return (1 - t) * ((1 - s) * value(k) + s * value(k + 1)) + t * ((1 - s) * value(k + width) + s * value(k + width + 1));
  };
  if (width < 2 || height < 2) return points.slice();
  const offsets = points.map((p, k) => {
    const [a, b] = [points[Math.max(0, k - 3)] as XY, points[Math.min(points.length - 1, k + 3)] as XY];
    const length = Math.hypot(b.x - a.x, b.y - a.y);
    const [nx, ny] = length > 0 ? [-(b.y - a.y) / length, (b.x - a.x) / length] : [0, 0];
    const sample = (by: number): number => at(p.x + by * nx, p.y + by * ny);
    // Climb from the path, so that a stronger line beside it does not attract it.
    let by = 0;
    let here = sample(0);
    for (const way of [1, -1]) {
      for (let next = by + 0.25 * way; Math.abs(next) <= CREST_REACH; next += 0.25 * way) {
        const value = sample(next);
        if (value <= here) break;
        [by, here] = [next, value];
      }
      if (by !== 0) break;
    }
    return { nx, ny, by };
  });
  return points.map((p, k) => {
    if (k === 0 || k === points.length - 1) return p;
    const { nx, ny, by } = offsets[k] as { nx: number; ny: number; by: number };
    return { x: p.x + by * nx, y: p.y + by * ny };
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

/** Pixels of the cheapest path between two pixels of a grid with eight neighbors. */
export function leastCostPath(cost: Float32Array, width: number, height: number, start: number, end: number): number[] {
  const search = new PathSearch(cost, width, height, start);
  while (!search.advance(end, Infinity)) continue;
  return search.path(end);
}

/** Cheapest paths from one pixel of a grid with eight neighbors (Dijkstra with a binary heap), found step by step. */
export class PathSearch {
  private readonly total: Float64Array;
  private readonly before: Int32Array;
  private readonly done: Uint8Array;
  private readonly heap = new Heap();

  constructor(
    private readonly cost: Float32Array,
    private readonly width: number,
    private readonly height: number,
    start: number,
  ) {
    this.total = new Float64Array(width * height).fill(Infinity);
    this.before = new Int32Array(width * height).fill(-1);
    this.done = new Uint8Array(width * height);
    this.total[start] = 0;
    this.heap.push(start, 0);
  }

  /** Go on by at most `steps` pixels. Return true once the path to `end` is known. */
  advance(end: number, steps: number): boolean {
    const { cost, width, height, total, before, done, heap } = this;
    for (let step = 0; step < steps && done[end] === 0; step++) {
      const at = heap.pop();
      if (at < 0) return true;
      if (done[at] === 1) continue;
      done[at] = 1;
      const [i, j] = [at % width, Math.floor(at / width)];
      for (let dj = -1; dj <= 1; dj++) {
        for (let di = -1; di <= 1; di++) {
          const [ni, nj] = [i + di, j + dj];
          if ((di === 0 && dj === 0) || ni < 0 || nj < 0 || ni >= width || nj >= height) continue;
          const next = nj * width + ni;
          if (done[next] === 1) continue;
          const length = di !== 0 && dj !== 0 ? Math.SQRT2 : 1;
          const through = (total[at] as number) + (length * ((cost[at] as number) + (cost[next] as number))) / 2;
          if (through < (total[next] as number)) {
            total[next] = through;
            before[next] = at;
            heap.push(next, through);
          }
        }
      }
    }
    return done[end] === 1;
  }

  /** Pixels from the start to a pixel that `advance` has reached. */
  path(end: number): number[] {
    const path: number[] = [];
    for (let at = end; at >= 0; at = this.before[at] as number) path.push(at);
    return path.reverse();
  }
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
