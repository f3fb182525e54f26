/** The photograph below the skeleton: visible tiles of the pyramid, coarse ones until the sharp ones arrive. */

import type { Pyramid } from "../../api";
import type { View } from "./view";

export interface TileKey {
  level: number;
  x: number;
  y: number;
}

export type TileLoader = (level: number, x: number, y: number, signal: AbortSignal) => Promise<ImageBitmap>;

/** The level whose pixels are at least as fine as the screen's. */
export function levelFor(scale: number, levels: number): number {
  const level = Math.floor(Math.log2(1 / scale) + 1e-6);
  return Math.min(levels - 1, Math.max(0, level));
}

/** Width and height of a level; each level is half of the one before, rounded up. */
export function levelSize(pyramid: Pyramid, level: number): { width: number; height: number } {
  const part = 2 ** level;
  return { width: Math.ceil(pyramid.width / part), height: Math.ceil(pyramid.height / part) };
}

/** Tiles of one level that a view shows, those nearest to its center first. */
export function visibleTiles(pyramid: Pyramid, level: number, view: View): TileKey[] {
  const span = pyramid.tile * 2 ** level;
  const size = levelSize(pyramid, level);
  const columns = Math.ceil(size.width / pyramid.tile);
  const rows = Math.ceil(size.height / pyramid.tile);
  const box = view.box();
  const keys: TileKey[] = [];
  for (let y = Math.max(0, Math.floor(box.y0 / span)); y <= Math.min(rows - 1, Math.floor(box.y1 / span)); y++) {
    for (let x = Math.max(0, Math.floor(box.x0 / span)); x <= Math.min(columns - 1, Math.floor(box.x1 / span)); x++) {
      keys.push({ level, x, y });
    }
  }
  const cx = (box.x0 + box.x1) / 2 / span - 0.5;
  const cy = (box.y0 + box.y1) / 2 / span - 0.5;
  const distance = (k: TileKey) => (k.x - cx) ** 2 + (k.y - cy) ** 2;
  return keys.sort((a, b) => distance(a) - distance(b));
}

interface Entry {
  bitmap: ImageBitmap | null;
  abort: AbortController | null;
  used: number;
  failed: number;
}

const MAX_LOADING = 6;
const RETRY_MS = 3000;

/** Loads, keeps and draws the tiles of one image. */
export class TileLayer {
  private readonly entries = new Map<string, Entry>();
  private clock = 0;
  private loading = 0;
  private closed = false;
  private arrived: TileKey[] = [];
  /** Counts changes that are not in `takeArrived`: tiles that were given up. */
  version = 0;
  /** True once the tiles of the last drawn view were all sharp. */
  complete = false;

  constructor(
    readonly pyramid: Pyramid,
    private readonly load: TileLoader,
    private readonly onLoad: () => void,
    private readonly capacity = 160,
  ) {}

  /** Draw what is there for a view and request what is missing. `ratio` is device px per CSS px. */
  draw(context: CanvasRenderingContext2D, view: View, ratio: number, quality: ImageSmoothingQuality = "medium"): void {
    this.clock++;
    this.arrived = [];
    const { pyramid } = this;
    const { wanted, keys, missing } = this.plan(view, ratio);
    context.imageSmoothingEnabled = view.scale * ratio < 4;
    context.imageSmoothingQuality = quality;
    if (missing.length > 0) {
      for (let level = pyramid.levels - 1; level > wanted; level--) {
        for (const key of visibleTiles(pyramid, level, view)) this.drawTile(context, view, ratio, key);
      }
    }
    for (const key of keys) this.drawTile(context, view, ratio, key);
    this.request(missing, wanted, view);
    this.forget();
  }

  /** Request what is missing for a view of which a copy is shown. */
  refresh(view: View, ratio: number): void {
    this.clock++;
    const { wanted, keys, missing } = this.plan(view, ratio);
    for (const key of keys) {
      const entry = this.entries.get(this.name(key));
      if (entry) entry.used = this.clock;
    }
    this.request(missing, wanted, view);
    this.forget();
  }

  private plan(view: View, ratio: number): { wanted: number; keys: TileKey[]; missing: TileKey[] } {
    const wanted = levelFor(view.scale * ratio, this.pyramid.levels);
    const keys = visibleTiles(this.pyramid, wanted, view);
    const missing = keys.filter((key) => !this.bitmap(key));
    this.complete = missing.length === 0;
    return { wanted, keys, missing };
  }

  /** Tiles that arrived since they were last drawn or taken. */
  takeArrived(): TileKey[] {
    const { arrived } = this;
    this.arrived = [];
    return arrived;
  }

  close(): void {
    this.closed = true;
    for (const entry of this.entries.values()) {
      entry.abort?.abort();
      entry.bitmap?.close();
    }
    this.entries.clear();
  }

  private name(key: TileKey): string {
    return `${key.level}/${key.x}/${key.y}`;
  }

  private bitmap(key: TileKey): ImageBitmap | null {
    return this.entries.get(this.name(key))?.bitmap ?? null;
  }

  drawTile(context: CanvasRenderingContext2D, view: View, ratio: number, key: TileKey): void {
    const entry = this.entries.get(this.name(key));
    if (!entry?.bitmap) return;
    entry.used = this.clock;
    const part = 2 ** key.level;
    const span = this.pyramid.tile * part;
    // The last column and row of a level may be wider than the image by less than one of its px.
    const x1 = Math.min(this.pyramid.width, key.x * span + entry.bitmap.width * part);
    const y1 = Math.min(this.pyramid.height, key.y * span + entry.bitmap.height * part);
    const a = view.toScreen({ x: key.x * span, y: key.y * span });
    const b = view.toScreen({ x: x1, y: y1 });
    // Whole device px: no seams between neighbors.
    const left = Math.round(a.x * ratio);
    const top = Math.round(a.y * ratio);
    context.drawImage(entry.bitmap, left, top, Math.round(b.x * ratio) - left, Math.round(b.y * ratio) - top);
  }

  private request(missing: TileKey[], wanted: number, view: View): void {
    const { levels } = this.pyramid;
    const coarse = visibleTiles(this.pyramid, levels - 1, view).filter((key) => !this.bitmap(key));
    const queue = wanted === levels - 1 ? missing : [...coarse, ...missing];
    const names = new Set(queue.map((key) => this.name(key)));
    for (const [name, entry] of this.entries) {
      if (entry.abort && !names.has(name)) entry.abort.abort();
    }
    const now = Date.now();
    for (const key of queue) {
      if (this.loading >= MAX_LOADING) break;
      const entry = this.entries.get(this.name(key));
      if (!entry || (!entry.abort && !entry.bitmap && now - entry.failed > RETRY_MS)) this.fetch(key);
    }
  }

  private fetch(key: TileKey): void {
    const name = this.name(key);
    const entry: Entry = { bitmap: null, abort: new AbortController(), used: this.clock, failed: 0 };
    this.entries.set(name, entry);
    this.loading++;
    this.load(key.level, key.x, key.y, entry.abort!.signal)
      .then((bitmap) => {
        if (this.closed) bitmap.close();
        else {
          entry.bitmap = bitmap;
          this.arrived.push(key);
        }
      })
      .catch((error: unknown) => {
        if (error instanceof DOMException && error.name === "AbortError") this.entries.delete(name);
        else {
          entry.failed = Date.now();
          setTimeout(() => !this.closed && this.onLoad(), RETRY_MS + 100);
        }
      })
      .finally(() => {
        entry.abort = null;
        this.loading--;
        if (!this.closed) this.onLoad();
      });
  }

  private forget(): void {
    if (this.entries.size <= this.capacity) return;
    const loaded = [...this.entries].filter(([, e]) => e.bitmap && e.used < this.clock);
    loaded.sort(([, a], [, b]) => a.used - b.used);
    this.version++;
    for (const [name, entry] of loaded.slice(0, this.entries.size - this.capacity)) {
      entry.bitmap?.close();
      this.entries.delete(name);
    }
  }
}
