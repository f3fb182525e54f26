/**
 * The skeleton as a bitmap, drawn again only if it changed or left the view.
 *
 * Stroking thousands of edges costs far more than copying a bitmap, above all without a GPU. While the view moves, the
 * bitmap is shifted; while it zooms over many edges, it is scaled. Once the view rests, everything is drawn exactly.
 */

import { drawStatic, type Marks, type OverlayOptions } from "./overlay";
import type { Scene } from "./scene";
import { type Box, View } from "./view";

/** From this number of edges on, zooming scales the bitmap until the view rests. */
const MANY_EDGES = 600;
/** Part of the canvas that is drawn beyond each border while the view moves. */
export const MARGIN = 0.35;

export interface StaticContent {
  scene: Scene;
  options: OverlayOptions;
  labels: Marks["labels"];
}

/** True if the part of `content` that a view shows lies inside another view. `reach` is the size of marks, CSS px. */
export function covers(cached: View, view: View, content: Box | null, reach: number): boolean {
  if (!content) return true;
  const margin = reach / view.scale;
  const shown = view.box();
  const x0 = Math.max(shown.x0, content.x0 - margin);
  const y0 = Math.max(shown.y0, content.y0 - margin);
  const x1 = Math.min(shown.x1, content.x1 + margin);
  const y1 = Math.min(shown.y1, content.y1 + margin);
  if (x0 >= x1 || y0 >= y1) return true;
  const have = cached.box(1e-6);
  return have.x0 <= x0 && have.y0 <= y0 && have.x1 >= x1 && have.y1 >= y1;
}

/** A view with a margin on each side, as a part of its size. Whole device px keep copies exact. */
export function widened(view: View, ratio: number, margin: number): View {
  const mx = Math.round(view.width * margin * ratio) / ratio;
  const my = Math.round(view.height * margin * ratio) / ratio;
  return new View(
    view.scale,
    view.left - mx / view.scale,
    view.top - my / view.scale,
    view.width + 2 * mx,
    view.height + 2 * my,
  );
}

/** Draws the skeleton from a bitmap of its own. */
export class OverlayCache {
  private readonly canvas = document.createElement("canvas");
  private cached: View | null = null;
  private ratio = 0;
  private content: StaticContent | null = null;

  /** Draw the content for a view. `moving` allows an inexact copy. Return true if the result is exact. */
  draw(target: CanvasRenderingContext2D, content: StaticContent, view: View, ratio: number, moving: boolean): boolean {
    const { cached } = this;
    const valid = cached !== null && content === this.content && ratio === this.ratio;
    if (valid) {
      const dx = (cached.left - view.left) * view.scale * ratio;
      const dy = (cached.top - view.top) * view.scale * ratio;
      if (cached.scale === view.scale && covers(cached, view, content.scene.box, 60)) {
        const exact = Math.abs(dx - Math.round(dx)) < 0.02 && Math.abs(dy - Math.round(dy)) < 0.02;
        if (exact || moving) {
          target.drawImage(this.canvas, Math.round(dx), Math.round(dy));
          return exact;
        }
      } else if (moving && cached.scale !== view.scale && content.scene.ids.length > MANY_EDGES) {
        const factor = view.scale / cached.scale;
        target.drawImage(this.canvas, dx, dy, this.canvas.width * factor, this.canvas.height * factor);
        return false;
      }
    }
    this.render(content, view, ratio, moving ? MARGIN : 0);
    const { left, top } = this.cached!;
    const x = Math.round((left - view.left) * view.scale * ratio);
    const y = Math.round((top - view.top) * view.scale * ratio);
    target.drawImage(this.canvas, x, y);
    return true;
  }

  private render(content: StaticContent, view: View, ratio: number, margin: number): void {
    const wide = widened(view, ratio, margin);
    this.canvas.width = Math.round(wide.width * ratio);
    this.canvas.height = Math.round(wide.height * ratio);
    const context = this.canvas.getContext("2d");
    if (!context) throw new Error("the browser gave no 2-D canvas");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawStatic(context, content.scene, wide, content.options, content.labels);
    this.cached = wide;
    this.ratio = ratio;
    this.content = content;
  }
}
