// Arithmetic as NumPy does it, so that results agree with Python to the last digit.

/** Round to the nearest integer, ties to even. */
export function rint(value: number): number {
  const low = Math.floor(value);
  const rest = value - low;
  if (rest !== 0.5) return rest < 0.5 ? low : low + 1;
  return low % 2 === 0 ? low : low + 1;
}

/** Round to a number of decimal digits, as `numpy.round`. */
export function roundTo(value: number, digits: number): number {
  const factor = 10 ** digits;
  return rint(value * factor) / factor;
}

/** Limit a number to an interval. NaN stays NaN. */
export function clip(value: number, low: number, high: number): number {
  return value < low ? low : value > high ? high : value;
}

/** The logistic function, without overflow at any value. */
export function sigmoid(value: number): number {
  return Math.exp(-softplus(-value));
}

/** log(1 + exp(value)), without overflow. */
function softplus(value: number): number {
  return value > 0 ? value + Math.log1p(Math.exp(-value)) : Math.log1p(Math.exp(value));
}

/** Indices that sort by a comparison; equal items keep their order. */
export function argsort(count: number, compare: (a: number, b: number) => number): number[] {
  return Array.from({ length: count }, (_, k) => k).sort(compare);
}

/** The median; NaN if there is none. */
export function median(values: readonly number[]): number {
  if (values.length === 0) return NaN;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const high = sorted[middle] as number;
  return sorted.length % 2 === 1 ? high : ((sorted[middle - 1] as number) + high) / 2;
}

/** Pairs i < j of points within a radius of each other, by a grid of cells. */
export function closePairs(x: ArrayLike<number>, y: ArrayLike<number>, radius: number): [number, number][] {
  const cells = new Map<string, number[]>();
  const pairs: [number, number][] = [];
  for (let j = 0; j < x.length; j++) {
    const [xj, yj] = [x[j] as number, y[j] as number];
    const [column, row] = [Math.floor(xj / radius), Math.floor(yj / radius)];
    for (let c = column - 1; c <= column + 1; c++) {
      for (let r = row - 1; r <= row + 1; r++) {
        for (const i of cells.get(`${c},${r}`) ?? []) {
          const [dx, dy] = [(x[i] as number) - xj, (y[i] as number) - yj];
          if (dx * dx + dy * dy <= radius * radius) pairs.push([i, j]);
        }
      }
    }
    const key = `${column},${row}`;
    const cell = cells.get(key);
    if (cell === undefined) cells.set(key, [j]);
    else cell.push(j);
  }
  return pairs;
}

/** Disjoint sets of the numbers 0 to count − 1. */
export class DisjointSets {
  private readonly above: Int32Array;

  constructor(count: number) {
    this.above = Int32Array.from({ length: count }, (_, k) => k);
  }

  find(node: number): number {
    let at = node;
    while (this.above[at] !== at) {
      const next = this.above[this.above[at] as number] as number;
      this.above[at] = next;
      at = next;
    }
    return at;
  }

  /** Join two sets; false if they are one already. The lower number represents the set. */
  join(a: number, b: number): boolean {
    const [p, q] = [this.find(a), this.find(b)];
    if (p === q) return false;
    this.above[Math.max(p, q)] = Math.min(p, q);
    return true;
  }
}

/** Connected component of each node, numbered by lowest node. */
export function components(edges: readonly Pair[], count: number): number[] {
  const sets = new DisjointSets(count);
  for (const [u, v] of edges) sets.join(u, v);
  const number = new Map<number, number>();
  return Array.from({ length: count }, (_, node) => {
    const set = sets.find(node);
    let label = number.get(set);
    if (label === undefined) number.set(set, (label = number.size));
    return label;
  });
}

/** Two nodes, the lower one first. */
export type Pair = readonly [number, number];
