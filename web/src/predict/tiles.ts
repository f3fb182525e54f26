// Scaling, tiling and merging, as in `treeformer.inference.tiles`.

import { LARGEST, bounded } from "./decode.ts";
import { argsort, clip, closePairs, rint } from "./numeric.ts";
import type { Pair } from "./numeric.ts";
import type { RawOutput } from "./output.ts";
import { spanningTree } from "./spanning.ts";

export type Size = readonly [width: number, height: number];

/** Minimum overlap of neighboring tiles, px. */
export const OVERLAP_PX = 128;
/** Maximum distance between predictions of one node in two tiles, px. */
export const MERGE_RADIUS_PX = 6;
/** Number of cheapest edges kept per node of a tile, in addition to the tile's spanning tree. */
export const PAIRS_PER_NODE = 12;
/** Nodes up to this far outside the image are moved to its border, px. */
export const OUTSIDE_PX = 4;
/** Width of the zone along inner borders in which predictions are unreliable, px. */
export const BORDER_PX = 16;
export const MIN_WEIGHT = 1e-3;

/** The factor by which an image is scaled before it is cut into tiles; a working size of null reduces no image. */
export function workingScale(size: Size, workingSize: number | null, inputSize: number): number {
  const longest = Math.max(...size);
  const target = workingSize === null ? longest : Math.min(longest, workingSize);
  return Math.max(target, inputSize) / longest;
}

/** A rectangle of the scaled image with its core region, px. The core is infinite at the borders of the image. */
export interface Tile {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
  readonly core: readonly [left: number, top: number, right: number, bottom: number];
}

export const tileSize = (tile: Tile): Size => [tile.right - tile.left, tile.bottom - tile.top];

/** Cover an image with overlapping tiles, row by row. Tiles start at multiples of `step`. */
export function tileGrid(size: Size, side: number, step = 1): Tile[] {
  const columns = intervals(size[0], side, step);
  return intervals(size[1], side, step).flatMap(([top, bottom, coreTop, coreBottom]) =>
    columns.map(([left, right, coreLeft, coreRight]): Tile => {
      return { left, top, right, bottom, core: [coreLeft, coreTop, coreRight, coreBottom] };
    }),
  );
}

type Interval = readonly [start: number, end: number, coreStart: number, coreEnd: number];

function intervals(length: number, side: number, wantedStep: number): Interval[] {
  const step = Math.min(wantedStep, Math.floor(side / 4));
  const overlap = Math.min(OVERLAP_PX, Math.floor(side / 2)) + step - 1;
  const count = length <= side ? 1 : Math.ceil((length - overlap) / (side - overlap));
  const range = Math.max(0, length - side);
  const starts = Array.from({ length: count }, (_, k) => {
    const even = count === 1 ? 0 : k === count - 1 ? range : k * (range / (count - 1));
    return step > 1 ? step * Math.ceil(even / step) : rint(even);
  });
  const ends = starts.map((start) => Math.min(start + side, length));
  const seam = (k: number): number => ((starts[k] as number) + (ends[k - 1] as number)) / 2;
  return starts.map((start, k): Interval => {
    return [start, ends[k] as number, k === 0 ? -Infinity : seam(k), k === count - 1 ? Infinity : seam(k + 1)];
  });
}

/** Horizontal and vertical distance of a point to the nearest inner border, px. */
function borderDistance(tile: Tile, x: number, y: number): [number, number] {
  const [left, top, right, bottom] = tile.core.map(Number.isFinite) as [boolean, boolean, boolean, boolean];
  return [
    Math.min(left ? x - tile.left : Infinity, right ? tile.right - x : Infinity),
    Math.min(top ? y - tile.top : Infinity, bottom ? tile.bottom - y : Infinity),
  ];
}

function weightAt(tile: Tile, x: number, y: number): number {
  const [dx, dy] = borderDistance(tile, x, y);
  return clip(dx / OVERLAP_PX, MIN_WEIGHT, 1) * clip(dy / OVERLAP_PX, MIN_WEIGHT, 1);
}

function isReliable(tile: Tile, x: number, y: number): boolean {
  const [dx, dy] = borderDistance(tile, x, y);
  return dx >= BORDER_PX && dy >= BORDER_PX;
}

function inCore(tile: Tile, x: number, y: number): boolean {
  const [left, top, right, bottom] = tile.core;
  return left <= x && x < right && top <= y && y < bottom;
}

/** True for a point, float32 px of the input, that is inside a tile or at most `OUTSIDE_PX` outside. */
export function isInside(x: number, y: number, [width, height]: Size): boolean {
  const [u, v] = [Math.fround(x + OUTSIDE_PX), Math.fround(y + OUTSIDE_PX)];
  return u >= 0 && u <= width + 2 * OUTSIDE_PX && v >= 0 && v <= height + 2 * OUTSIDE_PX;
}

/** Node candidates and the costs of some edges between them, px of the scaled image. */
export interface TileGraph {
  readonly score: number[];
  readonly x: number[];
  readonly y: number[];
  /** Nodes i < j, ascending. */
  readonly pairs: Pair[];
  readonly cost: number[];
  readonly logit: number[];
  /** Three values per node; null if the model has none. */
  readonly attributes: number[] | null;
}

/**
 * Reduce the output for one tile to the edges that may matter: the cheapest of each node, and the spanning tree.
 *
 * @param tile The tile.
 * @param raw The candidates that count.
 * @param nodeThreshold Candidates below are not part of the spanning tree.
 */
export function tileGraph(tile: Tile, raw: RawOutput, nodeThreshold: number): TileGraph {
  const count = raw.nodeScore.length;
  const at = (i: number, j: number): number => i * count + j;
  const bounds = Array.from(raw.edgeCost, (value) => bounded(value, LARGEST));
  const cost = new Float64Array(count * count);
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < count; j++) cost[at(i, j)] = ((bounds[at(i, j)] as number) + (bounds[at(j, i)] as number)) / 2;
  }
  const [width, height] = tileSize(tile);
  const score = Array.from(raw.nodeScore);
  const chosen = new Uint8Array(count * count);
  const likely = argsort(count, (a, b) => a - b).filter((k) => (score[k] as number) >= nodeThreshold);
  const pairs: Pair[] = [];
  likely.forEach((_, a) => likely.slice(a + 1).forEach((_, b) => pairs.push([a, a + 1 + b])));
  const costs = pairs.map(([a, b]) => cost[at(likely[a] as number, likely[b] as number)] as number);
  for (const k of spanningTree(pairs, costs, likely.length)) {
    const [a, b] = pairs[k] as Pair;
    chosen[at(likely[a] as number, likely[b] as number)] = 1;
  }
  for (let i = 0; i < count; i++) {
    const value = (j: number): number => (j === i ? Infinity : (cost[at(i, j)] as number));
    const cheapest = argsort(count, (a, b) => {
      const [p, q] = [value(a), value(b)];
      return p === q ? a - b : p - q;
    });
    for (const j of cheapest.slice(0, PAIRS_PER_NODE)) chosen[at(Math.min(i, j), Math.max(i, j))] = 1;
  }
  const kept: Pair[] = [];
  for (let i = 0; i < count; i++) for (let j = i + 1; j < count; j++) if (chosen[at(i, j)]) kept.push([i, j]);
  return {
    score,
    x: score.map((_, k) => clip(raw.points[2 * k] as number, 0, width) + tile.left),
    y: score.map((_, k) => clip(raw.points[2 * k + 1] as number, 0, height) + tile.top),
    pairs: kept,
    cost: kept.map(([i, j]) => cost[at(i, j)] as number),
    logit: Array.from(raw.rootLogit, (value) => bounded(value, -LARGEST)),
    attributes: raw.attributes === null ? null : Array.from(raw.attributes),
  };
}

/** Merge the graphs of all tiles into one graph of the image. */
export function merge(tiles: readonly Tile[], graphs: readonly TileGraph[]): TileGraph {
  const tileOf = graphs.flatMap((graph, tile) => graph.score.map(() => tile));
  const [score, x, y, logit] = (["score", "x", "y", "logit"] as const).map((name) =>
    graphs.flatMap((graph) => graph[name]),
  ) as [number[], number[], number[], number[]];
  let first = 0;
  const pairs: Pair[] = [];
  const cost: number[] = [];
  for (const graph of graphs) {
    for (const [i, j] of graph.pairs) pairs.push([i + first, j + first]);
    cost.push(...graph.cost);
    first += graph.score.length;
  }
  const place = <T>(of: (tile: Tile, x: number, y: number) => T): T[] =>
    tileOf.map((tile, k) => of(tiles[tile] as Tile, x[k] as number, y[k] as number));
  const weight = place(weightAt);
  const core = place(inCore);
  const reliable = place(isReliable);

  const group = groupNodes(x, y, tileOf);
  const groups = Math.max(-1, ...group) + 1;
  const inCoreCount = new Array<number>(groups).fill(0);
  const reliableCount = new Array<number>(groups).fill(0);
  group.forEach((g, k) => {
    if (core[k]) inCoreCount[g] = (inCoreCount[g] as number) + 1;
    if (reliable[k]) reliableCount[g] = (reliableCount[g] as number) + 1;
  });
  let count = 0;
  const number = inCoreCount.map((cores, g) => ((reliableCount[g] as number) > 1 || cores > 0 ? count++ : -1));
  const node = group.map((g) => number[g] as number);
  const member = node.flatMap((n, k) => (n >= 0 ? [k] : []));
  const mean = (values: readonly number[]): number[] =>
    weightedMean(
      member.map((k) => node[k] as number),
      member.map((k) => values[k] as number),
      member.map((k) => weight[k] as number),
      count,
    );

  const long = longEdges(tiles, x, y, tileOf, pairs, cost, node);
  const allPairs = [...pairs, ...long.pairs];
  const allCost = [...cost, ...long.cost];
  const keys: number[] = [];
  const valid: number[] = [];
  allPairs.forEach(([i, j], k) => {
    const [a, b] = [node[i] as number, node[j] as number];
    const [low, high] = [Math.min(a, b), Math.max(a, b)];
    if (low < 0 || low === high) return;
    keys.push(low * count + high);
    valid.push(k);
  });
  const unique = [...new Set(keys)].sort((a, b) => a - b);
  const indexOf = new Map(unique.map((key, k) => [key, k]));
  const pairCost = weightedMean(
    keys.map((key) => indexOf.get(key) as number),
    valid.map((k) => allCost[k] as number),
    valid.map((k) => {
      const [i, j] = allPairs[k] as Pair;
      return (weight[i] as number) * (weight[j] as number);
    }),
    unique.length,
  );
  return {
    score: mean(score),
    x: mean(x),
    y: mean(y),
    pairs: unique.map((key): Pair => [Math.floor(key / count), key % count]),
    cost: pairCost,
    logit: mean(logit),
    attributes: graphs.every((graph) => graph.attributes !== null)
      ? interleaved([0, 1, 2].map((c) => mean(graphs.flatMap((g) => column(g.attributes as number[], c, 3)))))
      : null,
  };
}

const column = (values: readonly number[], at: number, width: number): number[] =>
  values.filter((_, k) => k % width === at);

function interleaved(columns: readonly number[][]): number[] {
  return (columns[0] as number[]).flatMap((_, k) => columns.map((values) => values[k] as number));
}

function weightedMean(
  index: readonly number[],
  values: readonly number[],
  weight: readonly number[],
  count: number,
): number[] {
  const [sum, total] = [new Float64Array(count), new Float64Array(count)];
  index.forEach((at, k) => {
    sum[at] = (sum[at] as number) + (values[k] as number) * (weight[k] as number);
    total[at] = (total[at] as number) + (weight[k] as number);
  });
  return Array.from(sum, (value, k) => value / (total[k] as number));
}

/** Pairs of nodes of two tiles that one straight edge joins: two views of an edge longer than the overlap. */
function longEdges(
  tiles: readonly Tile[],
  x: readonly number[],
  y: readonly number[],
  tileOf: readonly number[],
  pairs: readonly Pair[],
  cost: readonly number[],
  node: readonly number[],
): { pairs: Pair[]; cost: number[] } {
  interface Half {
    readonly inner: number;
    readonly outer: number;
    readonly cost: number;
  }
  const ofTile: Half[][] = tiles.map(() => []);
  pairs.forEach(([i, j], k) => {
    const [looseI, looseJ] = [(node[i] as number) < 0, (node[j] as number) < 0];
    if (looseI === looseJ || !((cost[k] as number) < 0)) return;
    const [inner, outer] = looseI ? [j, i] : [i, j];
    (ofTile[tileOf[inner] as number] as Half[]).push({ inner, outer, cost: cost[k] as number });
  });
  const distance = (point: number, half: Half): number => {
    const [sx, sy] = [x[half.inner] as number, y[half.inner] as number];
    const [ax, ay] = [(x[half.outer] as number) - sx, (y[half.outer] as number) - sy];
    const [px, py] = [(x[point] as number) - sx, (y[point] as number) - sy];
    const fraction = clip((px * ax + py * ay) / Math.max(ax * ax + ay * ay, 1e-12), 0, 1);
    return Math.hypot(px - fraction * ax, py - fraction * ay);
  };
  const found: { pairs: Pair[]; cost: number[] } = { pairs: [], cost: [] };
  tiles.forEach((tile, t) => {
    const ours = ofTile[t] as Half[];
    if (ours.length === 0) return;
    for (let n = t + 1; n < tiles.length; n++) {
      const other = tiles[n] as Tile;
      const wide = Math.min(other.right, tile.right) - Math.max(other.left, tile.left);
      const high = Math.min(other.bottom, tile.bottom) - Math.max(other.top, tile.top);
      if (Math.min(wide, high) <= 0) continue;
      for (const a of ours) {
        for (const b of ofTile[n] as Half[]) {
          if (!(Math.max(distance(a.outer, b), distance(b.outer, a)) <= MERGE_RADIUS_PX)) continue;
          found.pairs.push([a.inner, b.inner]);
          found.cost.push((a.cost + b.cost) / 2);
        }
      }
    }
  });
  return found;
}

/** The group of each node. Nodes of different tiles that are the same node share a group. */
function groupNodes(x: readonly number[], y: readonly number[], tileOf: readonly number[]): number[] {
  const group = x.map((_, k) => k);
  const members = new Map<number, number[]>();
  for (const [i, j] of mutualNearest(x, y, tileOf)) {
    const [ours, theirs] = [group[i] as number, group[j] as number];
    if (ours === theirs) continue;
    const joined = [...(members.get(ours) ?? [ours]), ...(members.get(theirs) ?? [theirs])];
    if (new Set(joined.map((k) => tileOf[k])).size !== joined.length) continue;
    const lowest = Math.min(...joined);
    members.set(lowest, joined);
    for (const k of joined) group[k] = lowest;
  }
  const numbers = new Map([...new Set(group)].sort((a, b) => a - b).map((label, k) => [label, k]));
  return group.map((label) => numbers.get(label) as number);
}

/** Pairs of nodes of two tiles, each the other's nearest there and in reach, nearest pairs first. */
function mutualNearest(x: readonly number[], y: readonly number[], tileOf: readonly number[]): Pair[] {
  interface Way {
    readonly source: number;
    readonly target: number;
    readonly tile: number;
    readonly distance: number;
  }
  const ways = closePairs(x, y, MERGE_RADIUS_PX)
    .filter(([i, j]) => tileOf[i] !== tileOf[j])
    .flatMap(([i, j]): Way[] => {
      const distance = Math.hypot((x[i] as number) - (x[j] as number), (y[i] as number) - (y[j] as number));
      return [
        { source: i, target: j, tile: tileOf[j] as number, distance },
        { source: j, target: i, tile: tileOf[i] as number, distance },
      ];
    })
    .sort((a, b) => a.source - b.source || a.tile - b.tile || a.distance - b.distance || a.target - b.target);
  const nearest = ways.filter((way, k) => {
    const before = ways[k - 1];
    return before === undefined || before.source !== way.source || before.tile !== way.tile;
  });
  const known = new Set(nearest.map(({ source, target }) => `${source},${target}`));
  return nearest
    .filter(({ source, target }) => source < target && known.has(`${target},${source}`))
    .sort((a, b) => a.distance - b.distance || a.source - b.source || a.target - b.target)
    .map(({ source, target }): Pair => [source, target]);
}
