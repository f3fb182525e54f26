// The tools that draw or trace a branch: points are placed one after another, a trace is shown before the click.

import { distance, point, simplify } from "../core/geometry.ts";
import type { Graph } from "../core/graph.ts";
import { addBranch, anchorOf, mayEndAt, placeOf } from "./branch.ts";
import type { Anchor } from "./branch.ts";
import type { Host } from "./host.ts";
import { NO_PREVIEW } from "./types.ts";
import type { Point, PointerInput, Tracer } from "./types.ts";

/** Traced lines are simplified to within this distance, px. */
const TRACE_TOLERANCE_PX = 0.5;

/** A branch that is being drawn or traced. */
interface Drawing {
  start: Anchor | null;
  /** One list per click; a trace adds several points at once. */
  parts: Point[][];
  readonly single: boolean;
  readonly source: "drawn" | "traced";
}

/** Draw or trace a branch, click by click. */
export class Pen {
  private drawing: Drawing | null = null;
  private tracing: AbortController | null = null;
  /** The trace to the pointer that is shown before a click. */
  private live: { to: Point; path: readonly Point[] } | null = null;
  private following: { control: AbortController; next: Point | null } | null = null;

  constructor(private readonly host: Host) {}

  /** True while a trace is being computed. */
  get isBusy(): boolean {
    return this.tracing !== null;
  }

  /** Begin a branch, at a node or wherever the first click is. */
  begin(start: Anchor | null, source: Drawing["source"], single: boolean): void {
    this.drawing = { start, parts: [], single, source };
  }

  /** Forget the branch. */
  drop(): void {
    this.stop();
    this.drawing = null;
  }

  /** Keep what is drawn up to the last point; a trace that is being computed is left out. False if there are no points. */
  finish(): boolean {
    if (!this.hasPoints) return false;
    this.stop();
    this.end(null);
    return true;
  }

  /** True if a point after the first one was placed. */
  get hasPoints(): boolean {
    return (this.drawing?.parts.length ?? 0) > 0;
  }

  /** Take the last point back; `start` too if it is the only one. */
  back(start: boolean): void {
    this.stopFollowing();
    if (this.drawing?.parts.pop() === undefined && this.drawing !== null && start) this.drawing.start = null;
    this.show(this.host.cursor);
  }

  /** A branch whose start was removed meanwhile begins anew. */
  check(graph: Graph): void {
    const start = this.drawing?.start;
    if (!this.drawing || !start || start.kind === "free") return;
    const isThere = start.kind === "node" ? graph.has(start.id) : graph.get(start.id)?.parent != null;
    if (isThere) return;
    this.stopFollowing();
    [this.drawing.start, this.drawing.parts] = [null, []];
  }

  private points(): Point[] {
    const { drawing } = this;
    if (drawing === null || drawing.start === null) return [];
    return [placeOf(this.host.history.committed, drawing.start), ...drawing.parts.flat()].map(point);
  }

  /** Show the branch as a click at the pointer would leave it. */
  show(input: PointerInput): void {
    const { drawing } = this;
    if (drawing === null) return;
    const hit = this.host.hit(input);
    const anchor = anchorOf(hit, input);
    const snaps = hit !== null && (drawing.start === null || mayEndAt(this.host.history.committed, drawing.start, anchor));
    const line = this.points();
    if (line.length > 0) {
      const to = point(placeOf(this.host.history.committed, snaps ? anchor : anchorOf(null, input)));
      line.push(...this.liveTrace(drawing, line[line.length - 1] as Point, to));
    }
    this.host.update({ hover: hit, preview: { ...NO_PREVIEW, line, target: snaps ? hit : null, busy: this.tracing !== null } });
  }

  /** The points that a click would add: the trace to the pointer as soon as it is known, until then a straight line. */
  private liveTrace(drawing: Drawing, from: Point, to: Point): readonly Point[] {
    if (drawing.source !== "traced" || this.host.tracer === null || this.tracing !== null) return [to];
    const { live } = this;
    if (live !== null && live.to.x === to.x && live.to.y === to.y) return live.path.slice(1);
    if (this.following !== null) this.following.next = to;
    else void this.follow(drawing, from, to);
    // Meanwhile the last path, if the pointer is still near its end.
    const isNear = live !== null && distance(live.to, to) < 0.25 * distance(from, to);
    return isNear ? [...live.path.slice(1), to] : [to];
  }

  /** Trace to the pointer, one trace at a time; the pointer may have moved on when it is done. */
  private async follow(drawing: Drawing, from: Point, first: Point): Promise<void> {
    const state = { control: new AbortController(), next: first as Point | null };
    this.following = state;
    for (let to = state.next; to !== null; to = state.next) {
      state.next = null;
      let path: readonly Point[] | null = null;
      try {
        path = await (this.host.tracer as Tracer)(from, to, state.control.signal);
      } catch {
        // The click says why.
      }
      if (state.control.signal.aborted || this.drawing !== drawing) return;
      if (path === null) break;
      this.live = { to, path: [from, ...simplify(path.map(point), TRACE_TOLERANCE_PX).slice(1)] };
      if (state.next === null) {
        this.following = null;
        this.show(this.host.cursor);
        return;
      }
    }
    this.following = null;
  }

  private stopFollowing(): void {
    this.following?.control.abort();
    [this.following, this.live] = [null, null];
  }

  private stop(): void {
    this.stopFollowing();
    this.tracing?.abort();
    this.tracing = null;
  }

  /** Place a point; on a node or an edge of another tree, end the branch there. */
  place(input: PointerInput): void {
    const { drawing } = this;
    if (drawing === null || this.tracing !== null) return;
    const graph = this.host.history.committed;
    const anchor = anchorOf(this.host.hit(input), input);
    if (drawing.start === null) {
      drawing.start = anchor;
      if (drawing.single && anchor.kind !== "node") this.end(null);
      else this.show(input);
      return;
    }
    const end = mayEndAt(graph, drawing.start, anchor) ? anchor : null;
    const to = point(placeOf(graph, end ?? anchorOf(null, input)));
    const line = this.points();
    const from = line[line.length - 1] as Point;
    // The second press of a double click is not another point.
    if (end === null && distance(from, to) < input.tolerance / 2) return;
    if (drawing.source === "traced" && this.host.tracer !== null) void this.trace(drawing, from, to, end);
    else {
      if (end === null) drawing.parts.push([to]);
      if (end !== null || drawing.single) this.end(end);
      else this.show(input);
    }
  }

  private async trace(drawing: Drawing, from: Point, to: Point, end: Anchor | null): Promise<void> {
    this.stopFollowing();
    const control = new AbortController();
    this.tracing = control;
    this.host.update({ preview: { ...this.host.state.preview, busy: true }, message: "" });
    let path: readonly Point[] | null = null;
    let message = "";
    try {
      path = await (this.host.tracer as Tracer)(from, to, control.signal);
    } catch (error) {
      message = `The trace failed: ${error instanceof Error ? error.message : String(error)}`;
    }
    if (control.signal.aborted || this.drawing !== drawing) return;
    this.tracing = null;
    if (path === null) {
      this.host.update({ message, preview: { ...this.host.state.preview, busy: false } });
      return;
    }
    const inner = simplify([from, ...path.slice(1, -1).map(point), to], TRACE_TOLERANCE_PX).slice(1, -1);
    drawing.parts.push(end === null ? [...inner, to] : inner);
    if (end !== null) this.end(end);
    else this.show(this.host.cursor);
  }

  /** Add the branch to the graph as one step, connected to `end` if it is given. */
  end(end: Anchor | null): void {
    const { drawing } = this;
    if (drawing === null || this.tracing !== null) return;
    const { start, parts, source, single } = drawing;
    const points = parts.flat();
    const isEmpty = start === null || (points.length === 0 && end === null && !(single && start.kind !== "node"));
    if (isEmpty) {
      this.host.leave({ message: "" });
      return;
    }
    const before = this.host.history.committed;
    const annotation = source === "traced" ? "Trace branch" : single ? "Add node" : "Draw branch";
    this.host.perform(annotation, addBranch(start, points, end, source));
    const after = this.host.history.committed;
    const last = after.nextNode > before.nextNode ? after.nextNode - 1 : null;
    this.host.leave({ selection: new Set(last === null ? this.host.state.selection : [last]), edge: null });
  }
}
