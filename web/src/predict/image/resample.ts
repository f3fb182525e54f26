// Reduce images as Pillow does: averages of blocks, then a Lanczos filter with 8-bit fixed-point arithmetic.

import { rint } from "../numeric.ts";

const LANCZOS_SUPPORT = 3;
const PRECISION_BITS = 22;

/** Weights of the input pixels that one output pixel is made of. */
interface Weights {
  readonly first: number;
  readonly values: Int32Array;
}

function sinc(x: number): number {
  if (x === 0) return 1;
  const angle = x * Math.PI;
  return Math.sin(angle) / angle;
}

function lanczos(x: number): number {
  return Math.abs(x) < LANCZOS_SUPPORT ? sinc(x) * sinc(x / LANCZOS_SUPPORT) : 0;
}

/** Weights for all output pixels. The first `span` of `count` input pixels, which may be a fraction, are used. */
export function lanczosWeights(count: number, span: number, target: number): Weights[] {
  const scale = span / target;
  const filterScale = Math.max(scale, 1);
  const support = LANCZOS_SUPPORT * filterScale;
  return Array.from({ length: target }, (_, k) => {
    const center = (k + 0.5) * scale;
    const first = Math.max(0, Math.trunc(center - support + 0.5));
    const end = Math.min(count, Math.trunc(center + support + 0.5));
    const raw = Array.from({ length: end - first }, (_, at) => lanczos((at + first - center + 0.5) / filterScale));
    const sum = raw.reduce((total, value) => total + value, 0) || 1;
    const values = raw.map((value) => {
      const scaled = (value / sum) * (1 << PRECISION_BITS);
      return Math.trunc(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    });
    return { first, values: Int32Array.from(values) };
  });
}

function clip8(sum: number): number {
  const value = sum >> PRECISION_BITS;
  return value < 0 ? 0 : value > 255 ? 255 : value;
}

/** Resample rows horizontally. `source` holds `rows` rows of `width` px with `stride` bytes per px. */
export function resampleRows(
  source: Uint8Array | Uint8ClampedArray,
  width: number,
  rows: number,
  stride: number,
  weights: readonly Weights[],
  target: Uint8Array,
  targetStart: number,
): void {
  const half = 1 << (PRECISION_BITS - 1);
  let to = targetStart;
  for (let y = 0; y < rows; y++) {
    for (const { first, values } of weights) {
      let [r, g, b] = [half, half, half];
      let from = (y * width + first) * stride;
      for (let k = 0; k < values.length; k++, from += stride) {
        const weight = values[k] as number;
        r += (source[from] as number) * weight;
        g += (source[from + 1] as number) * weight;
        b += (source[from + 2] as number) * weight;
      }
      target[to++] = clip8(r);
      target[to++] = clip8(g);
      target[to++] = clip8(b);
    }
  }
}

/** Resample columns of RGB pixels. */
export function resampleColumns(source: Uint8Array, width: number, weights: readonly Weights[]): Uint8Array {
  const half = 1 << (PRECISION_BITS - 1);
  const line = 3 * width;
  const target = new Uint8Array(weights.length * line);
  const sums = new Int32Array(line);
  weights.forEach(({ first, values }, y) => {
    sums.fill(half);
    values.forEach((weight, k) => {
      const from = (first + k) * line;
      for (let x = 0; x < line; x++) sums[x] = (sums[x] as number) + (source[from + x] as number) * weight;
    });
    for (let x = 0; x < line; x++) target[y * line + x] = clip8(sums[x] as number);
  });
  return target;
}

/** Average blocks of `block`² px of `rows` rows; the last block of a row or column may be incomplete. */
export function reduceRows(
  source: Uint8Array | Uint8ClampedArray,
  width: number,
  rows: number,
  stride: number,
  block: number,
  target: Uint8Array,
  targetStart: number,
): void {
  let to = targetStart;
  for (let top = 0; top < rows; top += block) {
    const bottom = Math.min(top + block, rows);
    for (let left = 0; left < width; left += block) {
      const right = Math.min(left + block, width);
      let [r, g, b] = [0, 0, 0];
      for (let y = top; y < bottom; y++) {
        for (let from = (y * width + left) * stride; from < (y * width + right) * stride; from += stride) {
          r += source[from] as number;
          g += source[from + 1] as number;
          b += source[from + 2] as number;
        }
      }
      const count = (bottom - top) * (right - left);
      // Division by a multiplication with 24 fractional bits, which may round one value down.
      const inverse = Math.trunc(Math.fround(2 ** 24 / count));
      const half = count >> 1;
      for (const sum of [r, g, b]) target[to++] = Math.floor(((sum + half) * inverse) / 2 ** 24);
    }
  }
}

/** The factor by which a JPEG decoder would reduce an image to a target size: 1, 2, 4 or 8. */
export function draftFactor(width: number, height: number, target: readonly [number, number]): number {
  const scale = Math.min(width / target[0], height / target[1]);
  return [8, 4, 2].find((factor) => scale >= factor) ?? 1;
}

/** The block that an image is averaged by before the Lanczos filter, which gets about twice the target size. */
export function blockFactor(longest: number, targetLongest: number): number {
  return Math.max(1, Math.trunc(longest / (2 * targetLongest)));
}

/** Gray values of 16 bits as 8 bits, by the range of the least bit depth that holds the brightest value. */
export function grayTo8Bit(values: Uint16Array): Uint8Array {
  let brightest = 0;
  for (const value of values) if (value > brightest) brightest = value;
  const bits = [8, 10, 12, 14, 16].find((depth) => brightest < 2 ** depth) as number;
  const factor = Math.fround(255 / (2 ** bits - 1));
  const table = new Uint8Array(brightest + 1);
  for (let value = 0; value <= brightest; value++) table[value] = rint(Math.fround(value * factor));
  return Uint8Array.from(values, (value) => table[value] as number);
}
