// The backend of the notebook widget: one image in memory, the skeleton in a variable of the notebook.

import type {
  Backend, DraftRequest, GrayCrop, ImageEntry, JobInfo, LoadedSkeleton, Pyramid, Region, SavedSkeleton, SaveRequest,
  SessionInfo, SkeletonDocument, TraitTable,
} from "../api";
import { BackendError } from "../api";
import { LOW_CONFIDENCE_THRESHOLD } from "../core/measures.ts";
import { traitTable } from "../predict/files.ts";

const TILE = 512;

export interface Photo {
  /** The image, maybe reduced. */
  readonly bitmap: Promise<ImageBitmap>;
  /** Size of the image that the skeleton belongs to, px. */
  readonly size: readonly [width: number, height: number];
}

/** Number of levels: the last one is the first that fits into one tile. */
export function levelCount(width: number, height: number): number {
  return 1 + Math.ceil(Math.log2(Math.max(1, Math.ceil(Math.max(width, height) / TILE))));
}

export class WidgetBackend implements Backend {
  constructor(
    private readonly photo: Photo,
    private readonly read: () => SkeletonDocument,
    private readonly write: (document: SkeletonDocument) => void,
  ) {}

  async session(): Promise<SessionInfo> {
    const roots = { images_root: "this notebook", results_root: "this notebook" };
    return { version: "", ...roots, model: null, low_confidence_threshold: LOW_CONFIDENCE_THRESHOLD };
  }

  async images(): Promise<ImageEntry[]> {
    return [];
  }

  thumbnail(): null {
    return null;
  }

  async pyramid(): Promise<Pyramid> {
    await this.photo.bitmap;
    const [width, height] = this.photo.size;
    return { width, height, tile: TILE, levels: levelCount(width, height) };
  }

  /** A tile of a level, drawn from the one bitmap. */
  async tile(_image: string, level: number, x: number, y: number): Promise<ImageBitmap> {
    const [width, height] = this.photo.size.map((side) => Math.ceil(side / 2 ** level)) as [number, number];
    const [left, top] = [x * TILE, y * TILE];
    const [w, h] = [Math.min(TILE, width - left), Math.min(TILE, height - top)];
    const scale = 2 ** level;
    const context = await this.drawn([left * scale, top * scale, (left + w) * scale, (top + h) * scale], w, h);
    return context.canvas.transferToImageBitmap();
  }

  async crop(_image: string, region: Region, max: number): Promise<GrayCrop> {
    const [x0, y0, x1, y1] = region;
    const scale = Math.min(1, max / Math.max(x1 - x0, y1 - y0));
    const [width, height] = [Math.max(1, Math.round((x1 - x0) * scale)), Math.max(1, Math.round((y1 - y0) * scale))];
    const rgba = (await this.drawn(region, width, height)).getImageData(0, 0, width, height).data;
    const data = new Float32Array(width * height);
    for (let k = 0; k < data.length; k++) {
      const [r, g, b] = rgba.subarray(4 * k, 4 * k + 3) as unknown as [number, number, number];
      data[k] = (0.299 * r + 0.587 * g + 0.114 * b) / 255;
    }
    return { width, height, data, x0, y0, scaleX: width / (x1 - x0), scaleY: height / (y1 - y0) };
  }

  async skeleton(): Promise<LoadedSkeleton> {
    return { document: this.read(), revision: "", origin: "result", result_revision: "", file: null };
  }

  async draft(): Promise<never> {
    throw new BackendError("A notebook has no drafts.", 404);
  }

  async save({ document }: SaveRequest): Promise<SavedSkeleton> {
    this.write(document);
    return { revision: "", files: ["to the widget's skeleton"] };
  }

  async saveDraft({ document }: DraftRequest): Promise<void> {
    this.write(document);
  }

  async deleteDraft(): Promise<void> {}

  async predict(): Promise<never> {
    throw new BackendError("Call treeformer.predict in the notebook.", 0);
  }

  predictMissing(): Promise<never> {
    return this.predict();
  }

  async jobs(): Promise<JobInfo[]> {
    return [];
  }

  async cancelJob(): Promise<void> {}

  async traits(document: SkeletonDocument, pxPerMm: number | null): Promise<TraitTable> {
    const name = typeof document.image_name === "string" ? document.image_name : "";
    return traitTable(document as Parameters<typeof traitTable>[0], name, pxPerMm);
  }

  traitsTable(): null {
    return null;
  }

  /** A part of the image, px of the full size, drawn into a canvas. */
  private async drawn([x0, y0, x1, y1]: Region, width: number, height: number): Promise<OffscreenCanvasRenderingContext2D> {
    const bitmap = await this.photo.bitmap;
    const context = new OffscreenCanvas(width, height).getContext("2d");
    if (context === null) throw new BackendError("The browser gave no canvas to draw the image.", 0);
    const scale = bitmap.width / this.photo.size[0];
    context.fillStyle = "#fff";
    context.fillRect(0, 0, width, height);
    context.imageSmoothingQuality = "medium";
    context.drawImage(bitmap, x0 * scale, y0 * scale, (x1 - x0) * scale, (y1 - y0) * scale, 0, 0, width, height);
    return context;
  }
}
