// Open image files with the browser's decoder: upright, without color conversion, on white.

import type { ImageReader, Pixels } from "../pipeline.ts";
import type { Size } from "../tiles.ts";
import { HEADER_BYTES, readHeader } from "./header.ts";
import { decodeGray16 } from "./png16.ts";
import { blockFactor, draftFactor, grayTo8Bit, lanczosWeights, reduceRows, resampleColumns, resampleRows } from "./resample.ts";

/** Larger images are refused: a browser needs 4 bytes per pixel, several times. */
export const MAX_MEGAPIXELS = 100;
/** Pixels that are read from a canvas at a time. */
const STRIP_PIXELS = 4_000_000;

/** A file that cannot be used; the message is one sentence for the user. */
export class ImageError extends Error {
  override readonly name = "ImageError";
}

export interface OpenedImage {
  readonly bitmap: ImageBitmap;
  readonly isJpeg: boolean;
}

/** Decode an image file. EXIF orientation is applied by the browser. */
export async function openImage(file: Blob, name: string): Promise<OpenedImage> {
  const head = new Uint8Array(await file.slice(0, HEADER_BYTES).arrayBuffer());
  const { format, png } = readHeader(head);
  if (format === "tiff") throw new ImageError(`${name}: browsers cannot read TIFF: save the image as PNG or JPEG.`);
  if (format === null) throw new ImageError(`${name}: this is not an image in a format that the page can read.`);
  checkSize(name, png?.width ?? 1, png?.height ?? 1);
  const isGray16 = png !== null && png.bits === 16 && png.color === 0;
  if (isGray16 && png.interlaced) {
    throw new ImageError(`${name}: interlaced PNG with 16 bits cannot be read: save it without interlacing.`);
  }
  let bitmap: ImageBitmap;
  try {
    bitmap = isGray16 ? await openGray16(file) : await createImageBitmap(file, { colorSpaceConversion: "none" });
  } catch {
    throw new ImageError(`${name}: the image is damaged or too large for this browser.`);
  }
  try {
    checkSize(name, bitmap.width, bitmap.height);
  } catch (error) {
    bitmap.close();
    throw error;
  }
  return { bitmap, isJpeg: format === "jpeg" };
}

function checkSize(name: string, width: number, height: number): void {
  if (width * height <= MAX_MEGAPIXELS * 1e6) return;
  throw new ImageError(`${name}: the image has more than ${MAX_MEGAPIXELS} megapixels: reduce it first.`);
}

async function openGray16(file: Blob): Promise<ImageBitmap> {
  const { width, height, values } = await decodeGray16(new Uint8Array(await file.arrayBuffer()));
  const gray = grayTo8Bit(values);
  const data = new ImageData(width, height);
  gray.forEach((value, k) => data.data.set([value, value, value, 255], 4 * k));
  return createImageBitmap(data);
}

/** RGBA bytes of a part of a bitmap on white, strip by strip. `align` is a divisor of the rows of each strip. */
function* strips(
  bitmap: ImageBitmap,
  [left, top, right, bottom]: Rectangle,
  align: number,
): Generator<{ rows: number; rgba: Uint8ClampedArray }> {
  const [width, height] = [right - left, bottom - top];
  const most = align * Math.max(1, Math.floor(STRIP_PIXELS / (width * align)));
  const canvas = new OffscreenCanvas(width, Math.min(most, height));
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (context === null) throw new ImageError("The browser gave no canvas to read the image.");
  for (let y = 0; y < height; y += most) {
    const rows = Math.min(most, height - y);
    context.fillStyle = "#fff";
    context.fillRect(0, 0, width, rows);
    context.drawImage(bitmap, left, top + y, width, rows, 0, 0, width, rows);
    yield { rows, rgba: context.getImageData(0, 0, width, rows).data };
  }
}

/** left, top, right, bottom, px. */
export type Rectangle = readonly [number, number, number, number];

/** Reads a decoded image, or a part of it, at any size, as `treeformer._util.images` does. */
export class BitmapReader implements ImageReader {
  readonly size: Size;
  private readonly part: Rectangle;

  constructor(
    private readonly image: OpenedImage,
    part: Rectangle | null = null,
  ) {
    this.part = part ?? [0, 0, image.bitmap.width, image.bitmap.height];
    this.size = [this.part[2] - this.part[0], this.part[3] - this.part[1]];
  }

  async resized(target: Size): Promise<Pixels> {
    const [width, height] = this.size;
    const isReduced = Math.max(...target) < Math.max(width, height);
    // A part is cut out of the decoded image, so no decoder can reduce it.
    const isWhole = width === this.image.bitmap.width && height === this.image.bitmap.height;
    const draft = this.image.isJpeg && isWhole && isReduced ? draftFactor(width, height, target) : 1;
    const drafted = Math.ceil(Math.max(width, height) / draft);
    const factor = draft * blockFactor(drafted, Math.max(...target));
    const reduced: Size = [Math.ceil(width / factor), Math.ceil(height / factor)];
    const isExact = reduced[0] === target[0] && reduced[1] === target[1];
    const span: Size = [width / factor, height / factor];
    const columns = isExact ? null : lanczosWeights(reduced[0], span[0], target[0]);
    const across = columns === null ? reduced[0] : target[0];
    const lines = new Uint8Array(3 * across * reduced[1]);
    let at = 0;
    for (const { rows, rgba } of strips(this.image.bitmap, this.part, factor)) {
      const count = Math.ceil(rows / factor);
      if (columns === null) reduceRows(rgba, width, rows, 4, factor, lines, 3 * across * at);
      else if (factor === 1) resampleRows(rgba, width, rows, 4, columns, lines, 3 * across * at);
      else {
        const blocks = new Uint8Array(3 * reduced[0] * count);
        reduceRows(rgba, width, rows, 4, factor, blocks, 0);
        resampleRows(blocks, reduced[0], count, 3, columns, lines, 3 * across * at);
      }
      at += count;
    }
    const rgb = isExact ? lines : resampleColumns(lines, across, lanczosWeights(reduced[1], span[1], target[1]));
    return { width: target[0], height: target[1], rgb };
  }
}
