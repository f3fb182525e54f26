/** The mapping between px of the image and CSS px of the canvas. */

export interface Point {
  x: number;
  y: number;
}

export interface Box {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

export const MAX_SCALE = 64;

/** A pan and zoom: screen = (image − (left, top)) · scale, all in CSS px. */
export class View {
  constructor(
    readonly scale: number,
    readonly left: number,
    readonly top: number,
    readonly width: number,
    readonly height: number,
  ) {}

  toScreen(p: Point): Point {
    return { x: (p.x - this.left) * this.scale, y: (p.y - this.top) * this.scale };
  }

  toImage(p: Point): Point {
    return { x: p.x / this.scale + this.left, y: p.y / this.scale + this.top };
  }

  /** The visible part of the image plane, px of the image. */
  box(margin = 0): Box {
    const { x: x0, y: y0 } = this.toImage({ x: -margin, y: -margin });
    const { x: x1, y: y1 } = this.toImage({ x: this.width + margin, y: this.height + margin });
    return { x0, y0, x1, y1 };
  }

  panned(dx: number, dy: number): View {
    return new View(this.scale, this.left - dx / this.scale, this.top - dy / this.scale, this.width, this.height);
  }

  /** Zoom by a factor; the image point below `anchor` (CSS px) stays where it is. */
  zoomed(factor: number, anchor: Point, minScale = 1e-4): View {
    const scale = Math.min(MAX_SCALE, Math.max(minScale, this.scale * factor));
    const p = this.toImage(anchor);
    return new View(scale, p.x - anchor.x / scale, p.y - anchor.y / scale, this.width, this.height);
  }

  /** The same center in a canvas of another size. */
  resized(width: number, height: number): View {
    const dx = (this.width - width) / 2 / this.scale;
    const dy = (this.height - height) / 2 / this.scale;
    return new View(this.scale, this.left + dx, this.top + dy, width, height);
  }

  centeredOn(p: Point, scale = this.scale): View {
    return new View(scale, p.x - this.width / 2 / scale, p.y - this.height / 2 / scale, this.width, this.height);
  }

  contains(p: Point, margin = 0): boolean {
    const s = this.toScreen(p);
    return s.x >= margin && s.y >= margin && s.x <= this.width - margin && s.y <= this.height - margin;
  }

  /** Keep at least `keep` CSS px of the image visible, or half of the image or canvas if these are smaller. */
  clamped(imageWidth: number, imageHeight: number, keep = 60): View {
    const bounded = (at: number, image: number, canvas: number): number => {
      const margin = Math.min(keep, (image * this.scale) / 2, canvas / 2) / this.scale;
      return Math.min(image - margin, Math.max(margin - canvas / this.scale, at));
    };
    const left = bounded(this.left, imageWidth, this.width);
    const top = bounded(this.top, imageHeight, this.height);
    return new View(this.scale, left, top, this.width, this.height);
  }

  static fit(box: Box, width: number, height: number, margin = 16, maxScale = 8): View {
    const w = Math.max(1e-6, box.x1 - box.x0);
    const h = Math.max(1e-6, box.y1 - box.y0);
    const room = { w: Math.max(1, width - 2 * margin), h: Math.max(1, height - 2 * margin) };
    const scale = Math.min(maxScale, room.w / w, room.h / h);
    const view = new View(scale, 0, 0, width, height);
    return view.centeredOn({ x: (box.x0 + box.x1) / 2, y: (box.y0 + box.y1) / 2 });
  }
}
