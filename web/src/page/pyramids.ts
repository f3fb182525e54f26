// Tiles of an image at half sizes, made in the browser.

import type { Pyramid } from "../api";
import { openImage } from "../predict/image/open.ts";

const TILE = 512;
/** Decoded images that are kept: the open one, and the one before it. */
const KEPT = 2;
const THUMBNAIL = 160;

/** Number of levels: the last one is the first that fits into one tile. */
export function levelCount(width: number, height: number): number {
  return 1 + Math.ceil(Math.log2(Math.max(1, Math.ceil(Math.max(width, height) / TILE))));
}

interface Levels {
  readonly bitmaps: Promise<ImageBitmap>[];
}

export class Pyramids {
  private readonly kept = new Map<string, Levels>();

  constructor(private readonly file: (image: string) => Promise<Blob>) {}

  async describe(image: string): Promise<Pyramid> {
    const { width, height } = await this.level(image, 0);
    return { width, height, tile: TILE, levels: levelCount(width, height) };
  }

  async tile(image: string, level: number, x: number, y: number): Promise<ImageBitmap> {
    const bitmap = await this.level(image, level);
    const [left, top] = [x * TILE, y * TILE];
    return createImageBitmap(bitmap, left, top, Math.min(TILE, bitmap.width - left), Math.min(TILE, bitmap.height - top));
  }

  /** RGBA pixels of a part of the image, reduced to at most `max` px. */
  async pixels(image: string, [x0, y0, x1, y1]: readonly [number, number, number, number], max: number): Promise<ImageData> {
    const bitmap = await this.level(image, 0);
    const scale = Math.min(1, max / Math.max(x1 - x0, y1 - y0));
    const [width, height] = [Math.max(1, Math.round((x1 - x0) * scale)), Math.max(1, Math.round((y1 - y0) * scale))];
    const context = canvasOf(width, height);
    context.imageSmoothingQuality = "medium";
    context.drawImage(bitmap, x0, y0, x1 - x0, y1 - y0, 0, 0, width, height);
    return context.getImageData(0, 0, width, height);
  }

  /** Forget an image. */
  drop(image: string): void {
    this.kept.delete(image);
  }

  private level(image: string, level: number): Promise<ImageBitmap> {
    let levels = this.kept.get(image);
    if (levels === undefined) {
      const first = this.file(image).then(async (file) => (await openImage(file, image)).bitmap);
      levels = { bitmaps: [first] };
      first.catch(() => this.kept.delete(image));
    }
    this.kept.delete(image);
    this.kept.set(image, levels);
    for (const old of [...this.kept.keys()].slice(0, -KEPT)) this.kept.delete(old);
    const { bitmaps } = levels;
    while (bitmaps.length <= level) bitmaps.push((bitmaps[bitmaps.length - 1] as Promise<ImageBitmap>).then(halved));
    return bitmaps[level] as Promise<ImageBitmap>;
  }
}

function canvasOf(width: number, height: number): OffscreenCanvasRenderingContext2D {
  const context = new OffscreenCanvas(width, height).getContext("2d");
  if (context === null) throw new Error("The browser gave no canvas to draw the image.");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  return context;
}

/** Half of an image. If a side is odd, the last pixel of the half is half as wide. */
function halved(bitmap: ImageBitmap): ImageBitmap {
  const [width, height] = [Math.ceil(bitmap.width / 2), Math.ceil(bitmap.height / 2)];
  const context = canvasOf(width, height);
  context.imageSmoothingQuality = "medium";
  context.drawImage(bitmap, 0, 0, bitmap.width / 2, bitmap.height / 2);
  return context.canvas.transferToImageBitmap();
}

/** A small JPEG of an image. */
export async function thumbnail(bitmap: ImageBitmap): Promise<Blob> {
  const scale = Math.min(1, THUMBNAIL / Math.max(bitmap.width, bitmap.height));
  const [width, height] = [bitmap.width, bitmap.height].map((side) => Math.max(1, Math.round(side * scale))) as [number, number];
  const context = canvasOf(width, height);
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, width, height);
  return context.canvas.convertToBlob({ type: "image/jpeg", quality: 0.8 });
}
