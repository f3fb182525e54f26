/** Two canvases on top of each other: the photograph and the skeleton. Owns the view. */

import type { Pyramid } from "../../api";
import { OverlayCache, type StaticContent } from "./cache";
import { FrameLoop } from "./frames";
import { drawDynamic, type Marks, NO_MARKS, type OverlayOptions } from "./overlay";
import { PhotoCache } from "./photo";
import { buildScene, type Scene } from "./scene";
import { TileLayer, type TileLoader } from "./tiles";
import { type Box, type Point, View } from "./view";

/** The view rests if it did not change for this long. */
const REST_MS = 120;
/** Free space around an image that fits into the canvas, CSS px. */
const FIT_MARGIN_PX = 10;

/** Draws the image and the skeleton, and moves the view. */
export class Stage {
  readonly frames: FrameLoop;
  view = new View(1, 0, 0, 1, 1);
  private layer: TileLayer | null = null;
  private scene: Scene = buildScene([], { colorBy: "confidence", widthByRadius: false, lowThreshold: 0.5 });
  private options: OverlayOptions & { overlay: boolean } = { nodes: true, axes: false, overlay: true };
  private marks: Marks = NO_MARKS;
  private content: StaticContent | null = null;
  private readonly cache = new OverlayCache();
  private readonly photo = new PhotoCache();
  private moved = -Infinity;
  private resting: ReturnType<typeof setTimeout> | null = null;
  private ratio = 1;
  private fitted = true;
  private readonly observer: ResizeObserver;
  private readonly imageContext: CanvasRenderingContext2D;
  private readonly overlayContext: CanvasRenderingContext2D;

  constructor(
    private readonly host: HTMLElement,
    private readonly imageCanvas: HTMLCanvasElement,
    private readonly overlayCanvas: HTMLCanvasElement,
    private readonly onView: (view: View) => void,
  ) {
    this.imageContext = context(imageCanvas);
    this.overlayContext = context(overlayCanvas);
    this.frames = new FrameLoop(() => this.draw());
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(host);
    this.resize();
  }

  setImage(pyramid: Pyramid, load: TileLoader): void {
    this.layer?.close();
    this.layer = new TileLayer(pyramid, load, () => this.frames.request());
    this.fit();
  }

  setScene(scene: Scene): void {
    this.scene = scene;
    this.content = null;
    this.frames.request();
  }

  setMarks(marks: Marks): void {
    if (marks.labels !== this.marks.labels) this.content = null;
    this.marks = marks;
    this.frames.request();
  }

  setOptions(options: OverlayOptions & { overlay: boolean }): void {
    this.options = options;
    this.content = null;
    this.frames.request();
  }

  setFilter(filter: string): void {
    this.imageCanvas.style.filter = filter;
  }

  /** Width and height of the part of the canvas into which an image is fitted, device px. */
  get shownSize(): { width: number; height: number } {
    const inner = (side: number): number => Math.max(1, Math.floor(side - 2 * FIT_MARGIN_PX * this.ratio));
    return { width: inner(this.imageCanvas.width), height: inner(this.imageCanvas.height) };
  }

  get imageSize(): { width: number; height: number } | null {
    return this.layer ? { width: this.layer.pyramid.width, height: this.layer.pyramid.height } : null;
  }

  /** True once every visible tile is sharp. */
  get complete(): boolean {
    return this.layer?.complete ?? false;
  }

  fit(): void {
    const size = this.imageSize;
    if (!size) return;
    this.setView(View.fit({ x0: 0, y0: 0, x1: size.width, y1: size.height }, this.view.width, this.view.height, FIT_MARGIN_PX));
    this.fitted = true;
  }

  fitBox(box: Box): void {
    this.setView(View.fit(box, this.view.width, this.view.height, 60, 6));
  }

  pan(dx: number, dy: number): void {
    this.setView(this.view.panned(dx, dy));
  }

  zoom(factor: number, anchor: Point = { x: this.view.width / 2, y: this.view.height / 2 }): void {
    this.setView(this.view.zoomed(factor, anchor, this.minScale()));
  }

  /** Bring a point into view; with `scale` into the middle part, at least at that scale. */
  reveal(point: Point, scale?: number): void {
    const wanted = Math.max(this.view.scale, scale ?? 0);
    const margin = Math.min(this.view.width, this.view.height) * (scale === undefined ? 0.06 : 0.2);
    if (wanted === this.view.scale && this.view.contains(point, margin)) return;
    this.setView(this.view.centeredOn(point, wanted));
  }

  setView(view: View): void {
    const size = this.imageSize;
    this.view = size ? view.clamped(size.width, size.height) : view;
    this.fitted = false;
    this.moved = performance.now();
    this.onView(this.view);
    this.frames.request();
  }

  destroy(): void {
    this.frames.stop();
    if (this.resting) clearTimeout(this.resting);
    this.observer.disconnect();
    this.layer?.close();
  }

  private minScale(): number {
    const size = this.imageSize;
    return size ? Math.min(0.5, 100 / Math.max(size.width, size.height)) : 0.01;
  }

  private resize(): void {
    const width = Math.max(1, this.host.clientWidth);
    const height = Math.max(1, this.host.clientHeight);
    this.ratio = Math.min(3, window.devicePixelRatio || 1);
    for (const canvas of [this.imageCanvas, this.overlayCanvas]) {
      canvas.width = Math.round(width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
    }
    const fitted = this.fitted;
    this.view = this.view.resized(width, height);
    if (fitted) this.fit();
    else this.onView(this.view);
    // A canvas is empty after a change of size; draw before the browser shows it.
    this.draw();
  }

  private draw(): void {
    const { imageContext: image, overlayContext: overlay, ratio } = this;
    image.setTransform(1, 0, 0, 1, 0, 0);
    image.clearRect(0, 0, this.imageCanvas.width, this.imageCanvas.height);
    const moving = performance.now() - this.moved < REST_MS;
    if (this.layer && !this.photo.draw(image, this.layer, this.view, ratio, moving)) this.drawAtRest();
    overlay.setTransform(1, 0, 0, 1, 0, 0);
    overlay.clearRect(0, 0, this.overlayCanvas.width, this.overlayCanvas.height);
    if (!this.options.overlay) return;
    this.content ??= { scene: this.scene, options: this.options, labels: this.marks.labels };
    const exact = this.cache.draw(overlay, this.content, this.view, ratio, moving);
    if (!exact) this.drawAtRest();
    overlay.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawDynamic(overlay, this.scene, this.view, this.marks);
  }

  /** Draw once more when the view has come to rest. */
  private drawAtRest(): void {
    if (this.resting) clearTimeout(this.resting);
    this.resting = setTimeout(() => this.frames.request(), REST_MS + 20);
  }
}

function context(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
  const found = canvas.getContext("2d");
  if (!found) throw new Error("the browser gave no 2-D canvas");
  return found;
}
