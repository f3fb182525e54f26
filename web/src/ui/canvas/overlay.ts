/** Draws a scene, the selection and what the current mode previews. Only what is visible is drawn. */

import { HALO, PREVIEW, SELECTED } from "./palette";
import { Kind, type Scene } from "./scene";
import type { Point, View } from "./view";

export interface OverlayOptions {
  nodes: boolean;
  axes: boolean;
}

export interface Marks {
  selected: ReadonlySet<number>;
  /** Node below the pointer. */
  hoverNode: number | null;
  /** Edge below the pointer, by its child node. */
  hoverEdge: number | null;
  /** Edges (by child node) that the next action would take off. */
  doomed: ReadonlySet<number> | null;
  /** Open path of the drawing or tracing mode. */
  path: readonly Point[] | null;
  /** Closed outline of the lasso. */
  lasso: readonly Point[] | null;
  /** Rectangle of the region tool, px of the image. */
  region: readonly [Point, Point] | null;
  /** The known distance while the scale is drawn. */
  ruler: readonly [Point, Point] | null;
  /** Circle around the current item of the review queue. */
  review: { point: Point; radius: number } | null;
  /** Point to which the pointer snaps. */
  snap: Point | null;
  /** Branches that another date offers: to add, or to remove. */
  offered: readonly { kind: "add" | "remove"; points: readonly Point[] }[];
  /** Where a key would click while no pointer is over the canvas. */
  cursor: Point | null;
  /** Labels of axes at their tips. */
  labels: readonly { point: Point; text: string }[];
}

export const NO_MARKS: Marks = {
  selected: new Set(),
  hoverNode: null,
  hoverEdge: null,
  doomed: null,
  path: null,
  lasso: null,
  region: null,
  ruler: null,
  review: null,
  snap: null,
  offered: [],
  cursor: null,
  labels: [],
};

const LINE = 2.2;
const HALO_EXTRA = 2.2;

/** Draw the skeleton: what changes only with the graph, the settings and the view. The context's unit is the CSS px. */
export function drawStatic(
  c: CanvasRenderingContext2D,
  scene: Scene,
  view: View,
  options: OverlayOptions,
  labels: Marks["labels"],
): void {
  c.lineCap = "round";
  c.lineJoin = "round";
  const visible = visibleEdges(scene, view);
  drawEdges(c, scene, view, visible);
  if (options.axes) drawDirections(c, scene, view, visible);
  if (options.nodes) drawNodes(c, scene, view);
  if (options.axes) drawLabels(c, view, labels);
}

/** Draw the selection and what the pointer and the mode add. The context's unit is the CSS px. */
export function drawDynamic(c: CanvasRenderingContext2D, scene: Scene, view: View, marks: Marks): void {
  c.lineCap = "round";
  c.lineJoin = "round";
  drawSelection(c, scene, view, marks);
  drawMarks(c, scene, view, marks);
}

/** 1 for each edge (child index) whose bounding box meets the view. */
export function visibleEdges(scene: Scene, view: View): Uint8Array {
  const box = view.box(24);
  const seen = new Uint8Array(scene.ids.length);
  const { x, y, parent } = scene;
  for (let i = 0; i < seen.length; i++) {
    const p = parent[i]!;
    if (p < 0) continue;
    if (x[i]! < box.x0 && x[p]! < box.x0) continue;
    if (x[i]! > box.x1 && x[p]! > box.x1) continue;
    if (y[i]! < box.y0 && y[p]! < box.y0) continue;
    if (y[i]! > box.y1 && y[p]! > box.y1) continue;
    seen[i] = 1;
  }
  return seen;
}

function trace(c: CanvasRenderingContext2D, scene: Scene, view: View, edges: readonly number[], visible: Uint8Array): boolean {
  const { x, y, parent } = scene;
  const { scale, left, top } = view;
  let any = false;
  c.beginPath();
  for (const i of edges) {
    if (!visible[i]) continue;
    any = true;
    const p = parent[i]!;
    c.moveTo((x[p]! - left) * scale, (y[p]! - top) * scale);
    c.lineTo((x[i]! - left) * scale, (y[i]! - top) * scale);
  }
  return any;
}

function drawEdges(c: CanvasRenderingContext2D, scene: Scene, view: View, visible: Uint8Array): void {
  for (const bucket of scene.buckets) {
    const wide = bucket.diameter * view.scale;
    if (!trace(c, scene, view, bucket.edges, visible)) continue;
    if (wide > LINE) {
      c.globalAlpha = 0.35;
      c.strokeStyle = bucket.color;
      c.lineWidth = wide;
      c.stroke();
      c.globalAlpha = 1;
    }
    c.setLineDash([]);
    c.strokeStyle = HALO;
    c.lineWidth = LINE + HALO_EXTRA;
    c.stroke();
    if (bucket.dashed) c.setLineDash([5, 5]);
    c.strokeStyle = bucket.color;
    c.lineWidth = LINE;
    c.stroke();
    c.setLineDash([]);
  }
}

/** Small arrow heads from parent to child in the middle of long edges. */
function drawDirections(c: CanvasRenderingContext2D, scene: Scene, view: View, visible: Uint8Array): void {
  const { x, y, parent } = scene;
  c.beginPath();
  for (let i = 0; i < visible.length; i++) {
    if (!visible[i]) continue;
    const p = parent[i]!;
    const dx = (x[i]! - x[p]!) * view.scale;
    const dy = (y[i]! - y[p]!) * view.scale;
    const length = Math.hypot(dx, dy);
    if (length < 18) continue;
    const mx = ((x[i]! + x[p]!) / 2 - view.left) * view.scale;
    const my = ((y[i]! + y[p]!) / 2 - view.top) * view.scale;
    const ux = dx / length;
    const uy = dy / length;
    c.moveTo(mx - 4 * ux - 4 * uy, my - 4 * uy + 4 * ux);
    c.lineTo(mx + 4 * ux, my + 4 * uy);
    c.lineTo(mx - 4 * ux + 4 * uy, my - 4 * uy - 4 * ux);
  }
  c.strokeStyle = HALO;
  c.lineWidth = 3.4;
  c.stroke();
  c.strokeStyle = "#fff";
  c.lineWidth = 1.6;
  c.stroke();
}

function drawSelection(c: CanvasRenderingContext2D, scene: Scene, view: View, marks: Marks): void {
  const { x, y, parent, index } = scene;
  const at = (i: number): [number, number] => [(x[i]! - view.left) * view.scale, (y[i]! - view.top) * view.scale];
  if (marks.doomed && marks.doomed.size > 0) {
    c.beginPath();
    for (const id of marks.doomed) {
      const i = index.get(id);
      if (i === undefined || parent[i]! < 0) continue;
      c.moveTo(...at(parent[i]!));
      c.lineTo(...at(i));
    }
    c.strokeStyle = "#000";
    c.lineWidth = LINE + 5;
    c.stroke();
    c.strokeStyle = PREVIEW;
    c.lineWidth = LINE + 1.5;
    c.setLineDash([2, 6]);
    c.stroke();
    c.setLineDash([]);
  }
  if (marks.selected.size > 0) {
    c.beginPath();
    for (const id of marks.selected) {
      const i = index.get(id);
      if (i === undefined) continue;
      const p = parent[i]!;
      if (p >= 0 && marks.selected.has(scene.ids[p]!)) {
        c.moveTo(...at(p));
        c.lineTo(...at(i));
      }
    }
    c.strokeStyle = SELECTED;
    c.lineWidth = LINE + 1.6;
    c.stroke();
  }
  if (marks.hoverEdge !== null) {
    const i = index.get(marks.hoverEdge);
    if (i !== undefined && parent[i]! >= 0) {
      c.beginPath();
      c.moveTo(...at(parent[i]!));
      c.lineTo(...at(i));
      c.strokeStyle = "rgba(255, 255, 255, 0.75)";
      c.lineWidth = LINE + 3;
      c.stroke();
    }
  }
}

/** Roots are diamonds, tips rings, branch points disks; nodes between them are small and hidden far out. */
function drawNodes(c: CanvasRenderingContext2D, scene: Scene, view: View): void {
  const box = view.box(12);
  const { x, y, kind, color } = scene;
  const shown: [number[], number[], number[], number[]] = [[], [], [], []];
  for (let i = 0; i < kind.length; i++) {
    if (x[i]! < box.x0 || x[i]! > box.x1 || y[i]! < box.y0 || y[i]! > box.y1) continue;
    shown[kind[i] as Kind].push(i);
  }
  const density = (shown[Kind.Through].length * 2500) / (view.width * view.height);
  c.strokeStyle = "#000";
  c.lineWidth = 1;
  const disk = (i: number, radius: number): void => {
    const sx = (x[i]! - view.left) * view.scale;
    const sy = (y[i]! - view.top) * view.scale;
    c.moveTo(sx + radius, sy);
    c.arc(sx, sy, radius, 0, 2 * Math.PI);
  };
  if (density < 1.2) {
    const small = density < 0.4 ? 2.6 : 1.8;
    c.beginPath();
    for (const i of shown[Kind.Through]) disk(i, small);
    c.fillStyle = "#fff";
    c.fill();
    c.stroke();
  }
  c.beginPath();
  for (const i of shown[Kind.Branch]) disk(i, 3.6);
  c.fillStyle = "#fff";
  c.fill();
  c.stroke();
  for (const [tint, members] of grouped(shown[Kind.Tip], color)) {
    c.beginPath();
    for (const i of members) disk(i, 4);
    c.fillStyle = "#000";
    c.fill();
    c.strokeStyle = tint;
    c.lineWidth = 2;
    c.stroke();
  }
  for (const i of shown[Kind.Root]) {
    const sx = (x[i]! - view.left) * view.scale;
    const sy = (y[i]! - view.top) * view.scale;
    c.beginPath();
    c.moveTo(sx, sy - 7);
    c.lineTo(sx + 7, sy);
    c.lineTo(sx, sy + 7);
    c.lineTo(sx - 7, sy);
    c.closePath();
    c.fillStyle = color[i]!;
    c.fill();
    c.strokeStyle = "#000";
    c.lineWidth = 1.5;
    c.stroke();
  }
}

function grouped(members: readonly number[], color: readonly string[]): Map<string, number[]> {
  const groups = new Map<string, number[]>();
  for (const i of members) {
    const group = groups.get(color[i]!);
    if (group) group.push(i);
    else groups.set(color[i]!, [i]);
  }
  return groups;
}

function outlined(c: CanvasRenderingContext2D, color: string, width: number, dash: number[] = []): void {
  c.strokeStyle = "rgba(0, 0, 0, 0.7)";
  c.lineWidth = width + 2.5;
  c.stroke();
  c.setLineDash(dash);
  c.strokeStyle = color;
  c.lineWidth = width;
  c.stroke();
  c.setLineDash([]);
}

function polyline(c: CanvasRenderingContext2D, view: View, points: readonly Point[]): void {
  c.beginPath();
  points.forEach((point, k) => {
    const s = view.toScreen(point);
    if (k === 0) c.moveTo(s.x, s.y);
    else c.lineTo(s.x, s.y);
  });
}

function drawMarks(c: CanvasRenderingContext2D, scene: Scene, view: View, marks: Marks): void {
  const ring = (p: Point, radius: number, color: string, width = 2): void => {
    const s = view.toScreen(p);
    c.beginPath();
    c.arc(s.x, s.y, radius, 0, 2 * Math.PI);
    outlined(c, color, width);
  };
  const place = (id: number): Point | null => {
    const i = scene.index.get(id);
    return i === undefined ? null : { x: scene.x[i]!, y: scene.y[i]! };
  };
  const single = marks.selected.size <= 2;
  if (marks.selected.size <= 400) {
    for (const id of marks.selected) {
      const p = place(id);
      if (p && view.contains(p, -20)) ring(p, single ? 7 : 5, SELECTED, single ? 2 : 1.5);
    }
  }
  if (marks.hoverNode !== null) {
    const p = place(marks.hoverNode);
    if (p) ring(p, 9, "rgba(255, 255, 255, 0.85)", 1.5);
  }
  if (marks.path && marks.path.length > 0) {
    polyline(c, view, marks.path);
    outlined(c, PREVIEW, 2.4, [7, 5]);
    for (const p of marks.path.length < 60 ? marks.path : [marks.path[0]!]) ring(p, 2.5, PREVIEW, 1.5);
  }
  if (marks.lasso && marks.lasso.length > 1) {
    polyline(c, view, marks.lasso);
    c.closePath();
    c.fillStyle = "rgba(255, 255, 255, 0.12)";
    c.fill();
    outlined(c, "#fff", 1.5, [4, 4]);
  }
  if (marks.region) {
    const a = view.toScreen(marks.region[0]);
    const b = view.toScreen(marks.region[1]);
    c.beginPath();
    c.rect(Math.min(a.x, b.x), Math.min(a.y, b.y), Math.abs(a.x - b.x), Math.abs(a.y - b.y));
    c.fillStyle = "rgba(255, 92, 205, 0.12)";
    c.fill();
    outlined(c, PREVIEW, 1.5, [6, 4]);
  }
  if (marks.ruler) {
    polyline(c, view, marks.ruler);
    outlined(c, "#f0e442", 2.5);
    for (const p of marks.ruler) ring(p, 5, "#f0e442");
  }
  if (marks.review) {
    const s = view.toScreen(marks.review.point);
    c.beginPath();
    c.arc(s.x, s.y, Math.max(16, marks.review.radius * view.scale + 12), 0, 2 * Math.PI);
    outlined(c, PREVIEW, 2.5);
  }
  for (const { kind, points } of marks.offered) {
    polyline(c, view, points);
    outlined(c, kind === "add" ? PREVIEW : "#d55e00", kind === "add" ? 2.4 : 4, kind === "add" ? [7, 5] : [2, 5]);
  }
  if (marks.snap) ring(marks.snap, 6, PREVIEW, 2.5);
  if (marks.cursor) {
    const { x, y } = view.toScreen(marks.cursor);
    c.beginPath();
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]] as const) {
      c.moveTo(x + 4 * dx, y + 4 * dy);
      c.lineTo(x + 14 * dx, y + 14 * dy);
    }
    outlined(c, "#fff", 2);
  }
}

function drawLabels(c: CanvasRenderingContext2D, view: View, labels: Marks["labels"]): void {
  c.font = "11px system-ui, sans-serif";
  c.textBaseline = "middle";
  const taken: [number, number][] = [];
  for (const { point, text } of labels) {
    if (!view.contains(point)) continue;
    const s = view.toScreen(point);
    if (taken.some(([x, y]) => Math.abs(x - s.x) < 34 && Math.abs(y - s.y) < 13)) continue;
    taken.push([s.x, s.y]);
    c.lineWidth = 3;
    c.strokeStyle = "rgba(0, 0, 0, 0.8)";
    c.strokeText(text, s.x + 8, s.y);
    c.fillStyle = "#fff";
    c.fillText(text, s.x + 8, s.y);
  }
}
