// Collect the output tile by tile and decode it, as in `treeformer.inference.accumulator`.

import { directionCost, radiusPx } from "./attributes.ts";
import { MIN_BASE_SCORE, chooseWorkingSize, moveBases } from "./autoScale.ts";
import { LARGEST, bounded, decode } from "./decode.ts";
import { suppressDuplicates } from "./duplicates.ts";
import type { Forest } from "./forest.ts";
import { clip, roundTo } from "./numeric.ts";
import type { Pair } from "./numeric.ts";
import { select } from "./output.ts";
import type { RawOutput } from "./output.ts";
import { PLACE_DIGITS, postprocess } from "./postprocess.ts";
import type { PredictedForest } from "./postprocess.ts";
import { atSize } from "./settings.ts";
import type { PredictionOptions } from "./settings.ts";
import { isInside, merge, tileGraph, tileSize } from "./tiles.ts";
import type { Size, Tile, TileGraph } from "./tiles.ts";

const MIN_BASE_LOGIT = Math.log(MIN_BASE_SCORE / (1 - MIN_BASE_SCORE));

export class TileAccumulator {
  private readonly graphs: TileGraph[] = [];
  private single: RawOutput | null = null;
  private result: PredictedForest | null = null;

  /**
   * @param options Options of the prediction.
   * @param originalSize Size of the original image, px.
   * @param scaledSize Size of the image at its working size, px.
   * @param tiles All tiles, in the order in which they are predicted.
   * @param firstPass The output of a pass over the whole image, which decides about roots; null if there was none.
   */
  constructor(
    readonly options: PredictionOptions,
    readonly originalSize: Size,
    readonly scaledSize: Size,
    readonly tiles: readonly Tile[],
    readonly firstPass: TileAccumulator | null = null,
  ) {}

  /** Add the output for the next tile. */
  add(raw: RawOutput): void {
    const isSingle = this.tiles.length === 1;
    const tile = this.tiles[this.graphs.length] as Tile;
    const size = tileSize(tile);
    // NumPy compares float32 scores to a threshold that is rounded to float32.
    const minScore = Math.fround(isSingle ? this.options.nodeThreshold : this.options.minScore);
    const kept: number[] = [];
    raw.nodeScore.forEach((score, k) => {
      if (score >= minScore && isInside(raw.points[2 * k] as number, raw.points[2 * k + 1] as number, size)) kept.push(k);
    });
    const output = select(raw, kept);
    if (isSingle) this.single = output;
    else this.graphs.push(tileGraph(tile, output, this.options.nodeThreshold));
  }

  /** The predicted forest, px of the original image. All tiles must have been added. */
  forest(): PredictedForest {
    if (this.result === null) {
      const decoded = this.single === null ? this.decodeTiles() : this.decodeTile(this.single);
      const forest = this.firstPass === null ? decoded : moveBases(decoded, this.firstPass.bases());
      this.result = postprocess(forest, this.options);
    }
    return this.result;
  }

  /** The options of a second pass if a scale rule chooses a larger size, otherwise null. */
  secondPass(): PredictionOptions | null {
    const { scaleRule: rule, fixedPx } = this.options;
    const longest = Math.max(...this.scaledSize);
    if (rule === null || longest >= Math.max(...this.originalSize)) return null;
    const size = chooseWorkingSize(this.forest(), rule, longest, fixedPx);
    return size > longest ? atSize(this.options, size, true) : null;
  }

  /** The likely roots of an image of one tile, px of the original image, the surest first. */
  private bases(): [number, number][] {
    const raw = this.single;
    if (raw === null) return [];
    const threshold = Math.fround(this.options.nodeThreshold);
    const logit = (k: number): number => raw.rootLogit[k] as number;
    return Array.from(raw.nodeScore.keys())
      .filter((k) => (raw.nodeScore[k] as number) >= threshold && logit(k) >= MIN_BASE_LOGIT)
      .sort((a, b) => logit(b) - logit(a) || a - b)
      .map((k) => [this.original(raw.points[2 * k] as number, 0), this.original(raw.points[2 * k + 1] as number, 1)]);
  }

  /** A coordinate of the scaled image in px of the original image; `side` is 0 for x and 1 for y. */
  private original(value: number, side: 0 | 1): number {
    const scale = this.originalSize[side] / this.scaledSize[side];
    return roundTo(clip(value, 0, this.scaledSize[side]) * scale, PLACE_DIGITS);
  }

  private decodeTile(raw: RawOutput): Forest {
    const count = raw.nodeScore.length;
    const x = Array.from(raw.nodeScore, (_, k) => raw.points[2 * k] as number);
    const y = Array.from(raw.nodeScore, (_, k) => raw.points[2 * k + 1] as number);
    const pairs: Pair[] = [];
    const upper: number[] = [];
    const mean: number[] = [];
    for (let i = 0; i < count; i++) {
      for (let j = i + 1; j < count; j++) {
        const [a, b] = [raw.edgeCost[i * count + j] as number, raw.edgeCost[j * count + i] as number];
        pairs.push([i, j]);
        upper.push(a);
        mean.push((bounded(a, LARGEST) + bounded(b, LARGEST)) / 2);
      }
    }
    const { directionWeight: weight, nodeThreshold } = this.options;
    const extra =
      raw.attributes !== null && weight > 0 ? directionCost(x, y, pairs, raw.attributes, weight, Math.fround) : null;
    const score = suppressDuplicates(raw.nodeScore, x, y, pairs, upper, Math.fround(nodeThreshold));
    return this.decode(score, x, y, Array.from(raw.rootLogit), raw.attributes, pairs, mean, extra, true);
  }

  private decodeTiles(): Forest {
    const { score, x, y, pairs, cost, logit, attributes } = merge(this.tiles, this.graphs);
    const { directionWeight: weight, nodeThreshold } = this.options;
    const extra = attributes !== null && weight > 0 ? directionCost(x, y, pairs, attributes, weight) : null;
    const kept = suppressDuplicates(score, x, y, pairs, cost, nodeThreshold);
    return this.decode(kept, x, y, logit, attributes, pairs, cost, extra, false);
  }

  private decode(
    score: readonly number[],
    x: readonly number[],
    y: readonly number[],
    logit: readonly number[],
    attributes: ArrayLike<number> | null,
    pairs: readonly Pair[],
    cost: readonly number[],
    extra: readonly number[] | null,
    isComplete: boolean,
  ): Forest {
    const scale = Math.max(...this.originalSize) / Math.max(...this.scaledSize);
    const candidates = {
      score,
      x: x.map((value) => this.original(value, 0)),
      y: y.map((value) => this.original(value, 1)),
      logit,
      radius: attributes === null ? null : radiusPx(attributes, scale),
    };
    const { nodeThreshold, rootThreshold } = this.options;
    const options = { nodeThreshold, rootThreshold, imageSize: this.originalSize };
    return decode(candidates, pairs, cost, extra, isComplete, options);
  }
}
