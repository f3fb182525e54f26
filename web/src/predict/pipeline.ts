// One image through the network: scale, cut into tiles, run, decode; twice if a scale rule asks for it.

import { TileAccumulator } from "./accumulator.ts";
import { rint } from "./numeric.ts";
import type { RawOutput } from "./output.ts";
import type { PredictedForest } from "./postprocess.ts";
import { atSize, predictionOptions } from "./settings.ts";
import type { ModelSettings, PredictionOptions, WorkingSize } from "./settings.ts";
import { tileGrid, tileSize, workingScale } from "./tiles.ts";
import type { Size, Tile } from "./tiles.ts";

/** RGB pixels, three bytes each, row by row. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly rgb: Uint8Array;
}

/** An upright image that can be read at any size. */
export interface ImageReader {
  readonly size: Size;
  /** The image resampled to a size, px. */
  resized(size: Size): Promise<Pixels>;
}

export type Engine = (rgb: Uint8Array) => Promise<RawOutput>;
export type Progress = (done: number, total: number) => void;

export interface Prediction {
  readonly forest: PredictedForest;
  readonly options: PredictionOptions;
}

/** Size of an image after scaling, px. */
export function scaledSize(size: Size, factor: number): Size {
  return [Math.max(1, rint(size[0] * factor)), Math.max(1, rint(size[1] * factor))];
}

/** Predict the forest of one image, px of the image. */
export async function predictImage(
  image: ImageReader,
  settings: ModelSettings,
  workingSize: WorkingSize,
  engine: Engine,
  engineName: string,
  progress: Progress = () => undefined,
): Promise<Prediction> {
  const side = settings.input_size;
  let options = predictionOptions(settings, workingSize, engineName);
  if (options.scaleRule !== null) options = atSize(options, side, false);
  let firstPass: TileAccumulator | null = null;
  for (;;) {
    const size = scaledSize(image.size, workingScale(image.size, options.workingPx, side));
    const pixels = await image.resized(size);
    const tiles = tileGrid(size, side, options.tileStep);
    const accumulator: TileAccumulator = new TileAccumulator(options, image.size, size, tiles, firstPass);
    for (const [done, tile] of tiles.entries()) {
      progress(done, tiles.length);
      accumulator.add(await engine(cutTile(pixels, tile, side)));
    }
    progress(tiles.length, tiles.length);
    const next: PredictionOptions | null = accumulator.secondPass();
    if (next === null) return { forest: accumulator.forest(), options };
    [options, firstPass] = [next, accumulator];
  }
}

/** The pixels of a tile, padded to the side of the input with the median color of the tile's border. */
export function cutTile(image: Pixels, tile: Tile, side: number): Uint8Array {
  const [width, height] = tileSize(tile);
  const input = new Uint8Array(side * side * 3);
  const row = (y: number): Uint8Array => {
    const start = 3 * ((tile.top + y) * image.width + tile.left);
    return image.rgb.subarray(start, start + 3 * width);
  };
  if (width !== side || height !== side) {
    const color = borderColor(Array.from({ length: height }, (_, y) => row(y)), width);
    for (let k = 0; k < side * side; k++) input.set(color, 3 * k);
  }
  for (let y = 0; y < height; y++) input.set(row(y), 3 * y * side);
  return input;
}

/** Median color of the first and last row and column; corners count twice, fractions are cut off. */
function borderColor(rows: readonly Uint8Array[], width: number): [number, number, number] {
  const [first, last] = [rows[0] as Uint8Array, rows[rows.length - 1] as Uint8Array];
  return [0, 1, 2].map((channel) => {
    const counts = new Uint32Array(256);
    const count = (value: number): void => void (counts[value] = (counts[value] as number) + 1);
    for (const line of [first, last]) for (let x = 0; x < width; x++) count(line[3 * x + channel] as number);
    for (const line of rows) {
      count(line[channel] as number);
      count(line[3 * (width - 1) + channel] as number);
    }
    const total = 2 * (width + rows.length);
    const at = (rank: number): number => {
      let [value, seen] = [0, counts[0] as number];
      while (seen <= rank) seen += counts[++value] as number;
      return value;
    };
    return Math.floor((at(total / 2 - 1) + at(total / 2)) / 2);
  }) as [number, number, number];
}
