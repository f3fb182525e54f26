/**
 * The photograph as a bitmap in the scale of the view.
 *
 * Reducing tiles costs several times as much as copying pixels, above all without a GPU. While the view moves, the
 * bitmap is shifted, and tiles that arrive are added to it. While it zooms, tiles are drawn with less care. Tiles that are
shown px by px need no copy.
 */

import { covers, MARGIN, widened } from "./cache";
import { levelFor, type TileLayer } from "./tiles";
import type { View } from "./view";

/** Draws the photograph from a bitmap of its own. */
export class PhotoCache {
  private readonly canvas = document.createElement("canvas");
  private cached: { view: View; ratio: number; layer: TileLayer; version: number } | null = null;
  private lastScale = 0;

  /** Draw the photograph for a view. `moving` allows an inexact copy. Return true if the result is exact. */
  draw(target: CanvasRenderingContext2D, layer: TileLayer, view: View, ratio: number, moving: boolean): boolean {
    const zooming = moving && view.scale !== this.lastScale;
    this.lastScale = view.scale;
    const level = levelFor(view.scale * ratio, layer.pyramid.levels);
    const isPlain = Math.abs(view.scale * ratio * 2 ** level - 1) < 1e-6;
    if (zooming || isPlain) {
      this.cached = null;
      layer.draw(target, view, ratio, zooming ? "low" : "medium");
      return !zooming;
    }
    const shift = (): [number, number] => {
      const { left, top } = this.cached!.view;
      return [(left - view.left) * view.scale * ratio, (top - view.top) * view.scale * ratio];
    };
    const isExact = (): boolean => shift().every((by) => Math.abs(by - Math.round(by)) < 0.02);
    if (this.isValid(layer, view, ratio) && (moving || isExact())) this.add(layer, level);
    else this.render(layer, view, ratio, moving ? MARGIN : 0);
    const [dx, dy] = shift();
    target.drawImage(this.canvas, Math.round(dx), Math.round(dy));
    return isExact();
  }

  private isValid(layer: TileLayer, view: View, ratio: number): boolean {
    const { cached } = this;
    if (!cached || cached.layer !== layer || cached.version !== layer.version || cached.ratio !== ratio) return false;
    const { width, height } = layer.pyramid;
    return cached.view.scale === view.scale && covers(cached.view, view, { x0: 0, y0: 0, x1: width, y1: height }, 0);
  }

  private render(layer: TileLayer, view: View, ratio: number, margin: number): void {
    const wide = widened(view, ratio, margin);
    this.canvas.width = Math.round(wide.width * ratio);
    this.canvas.height = Math.round(wide.height * ratio);
    layer.draw(this.context(), wide, ratio);
    this.cached = { view: wide, ratio, layer, version: layer.version };
  }

  /** Draw the tiles that arrived, and request the next ones. A coarse one may lie below sharp ones: draw all again. */
  private add(layer: TileLayer, level: number): void {
    const { view, ratio } = this.cached!;
    const context = this.context();
    const keys = layer.takeArrived();
    if (keys.some((key) => key.level !== level)) layer.draw(context, view, ratio);
    else {
      context.imageSmoothingEnabled = view.scale * ratio < 4;
      context.imageSmoothingQuality = "medium";
      for (const key of keys) layer.drawTile(context, view, ratio, key);
      layer.refresh(view, ratio);
    }
    this.cached!.version = layer.version;
  }

  private context(): CanvasRenderingContext2D {
    const context = this.canvas.getContext("2d");
    if (!context) throw new Error("the browser gave no 2-D canvas");
    return context;
  }
}
