// The editor without DOM: modes, selection, operations and keys on top of the history of graphs.

import { connect, cutEdge, insertOnEdge, mergeGraph, mergeNodes, moveNodes, setPlant, setScale } from "../core/actions.ts";
import { NO_WORK, fromDocument, toDocument } from "../core/document.ts";
import type { EditorInfo, SkeletonDocument } from "../core/document.ts";
import { distance } from "../core/geometry.ts";
import { Graph, plantOf } from "../core/graph.ts";
import type { NodeId } from "../core/graph.ts";
import { History } from "../core/history.ts";
import type { Action } from "../core/history.ts";
import { nodesInPolygon, spatialIndex } from "../core/spatial.ts";
import { REVIEW_DEFAULTS, medianEdge, nextItem, reviewQueue } from "../core/validation.ts";
import type { ReviewItem } from "../core/validation.ts";
import { anchorOf, placeOf } from "./branch.ts";
import type { Anchor } from "./branch.ts";
import { hintsFor } from "./hints.ts";
import { bindingOf, shortcutOf } from "./keys.ts";
import { DEFINITIONS } from "./operations.ts";
import type { Context, Definition } from "./operations.ts";
import { Pen } from "./pen.ts";
import type { PenHost } from "./pen.ts";
import { NO_PREVIEW } from "./types.ts";
import type {
  EditorApi, EditorState, Hint, Hit, KeyInput, KeyResult, ModeName, Modifiers, Operation, OperationId, Point, PointerInput,
  Tracer,
} from "./types.ts";

const UNUSED: KeyResult = { handled: false, command: null };
const USED: KeyResult = { handled: true, command: null };

/** Pauses longer than this do not count as work, s. */
const LONGEST_PAUSE_S = 30;
/** Ends at the border of a predicted region are joined within this many median edge lengths, at least 12 px. */
const JOIN_EDGES = 1.5;

/** A press of the pointer that may become a drag. */
interface Press {
  readonly at: Point;
  readonly ids: readonly NodeId[];
  readonly slack: number;
  moved: boolean;
}

export class Editor implements EditorApi {
  private history: History;
  private info: EditorInfo;
  private saved: Graph;
  private current: EditorState;
  private readonly listeners = new Set<(state: EditorState) => void>();
  private tracer: Tracer | null = null;
  private readonly pen: Pen;
  private lowScore = REVIEW_DEFAULTS.lowScore;
  private press: Press | null = null;
  /** Last known position of the pointer, which arrow keys move in the modes of tools. */
  private cursor: PointerInput = { x: 0, y: 0, tolerance: 8 };
  /** The last item of the review queue that was shown; the queue continues there even if it is gone. */
  private reviewPlace: ReviewItem | null = null;
  private seconds = 0;
  private lastTouch: number | null = null;

  constructor(graph: Graph = Graph.empty(), info: EditorInfo = NO_WORK) {
    this.history = new History(graph);
    this.info = info;
    this.saved = graph;
    this.current = this.initial();
    this.pen = new Pen(this.penHost());
  }

  private penHost(): PenHost {
    const editor = this;
    return {
      get state() {
        return editor.current;
      },
      get committed() {
        return editor.history.committed;
      },
      get tracer() {
        return editor.tracer;
      },
      get cursor() {
        return editor.cursor;
      },
      hit: (input) => this.hit(input),
      update: (changes) => this.update(changes),
      perform: (annotation, ...actions) => this.perform(annotation, ...actions),
      leave: (changes) => this.leave(changes),
    };
  }

  // ---- state --------------------------------------------------------------------------------

  private initial(): EditorState {
    return {
      mode: "browse", selection: new Set(), edge: null, hover: null, preview: NO_PREVIEW, reviewItem: null, message: "",
      region: null, scaleLine: null, ...this.derived(),
    };
  }

  private derived() {
    const { history } = this;
    const { graph } = history;
    // While a node is dragged, the queue stays as it was.
    const review = reviewQueue(history.committed, { lowScore: this.lowScore });
    return {
      graph, review, canUndo: history.canUndo, canRedo: history.canRedo, undoAnnotation: history.undoAnnotation,
      redoAnnotation: history.redoAnnotation, dirty: graph !== this.saved,
    };
  }

  get state(): EditorState {
    return this.current;
  }

  subscribe(listener: (state: EditorState) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private update(changes: Partial<EditorState> = {}): void {
    const next = { ...this.current, ...changes, ...this.derived() };
    const { graph } = next;
    this.pen.check(graph);
    // Undo and deletion may remove what is selected or hovered.
    const selection = [...next.selection].some((id) => !graph.has(id))
      ? new Set([...next.selection].filter((id) => graph.has(id)))
      : next.selection;
    const edge = next.edge !== null && graph.get(next.edge)?.parent != null ? next.edge : null;
    const hover = next.hover !== null && graph.has(next.hover.id) ? next.hover : null;
    const isSelecting = next.mode === "browse" || next.mode === "select";
    const mode: ModeName = isSelecting ? (selection.size > 0 || edge !== null ? "select" : "browse") : next.mode;
    this.current = { ...next, selection, edge, hover, mode };
    for (const listener of this.listeners) listener(this.current);
  }

  load(graph: Graph, info: EditorInfo = NO_WORK): void {
    this.pen.drop();
    [this.press, this.reviewPlace] = [null, null];
    this.history = new History(graph);
    this.info = info;
    this.saved = graph;
    this.seconds = 0;
    this.lastTouch = null;
    this.current = this.initial();
    this.update();
  }

  document(accepted = this.info.accepted): SkeletonDocument {
    const actions = this.info.actions + this.history.edits;
    const seconds = Math.round(10 * (this.info.seconds + this.seconds)) / 10;
    return toDocument(this.history.committed, { ...this.info, accepted, actions, seconds });
  }

  markSaved(): void {
    this.saved = this.history.committed;
    this.update();
  }

  touch(now: number): void {
    if (this.lastTouch !== null) this.seconds += Math.max(0, Math.min(LONGEST_PAUSE_S, now - this.lastTouch));
    this.lastTouch = now;
  }

  setTracer(tracer: Tracer | null): void {
    this.tracer = tracer;
    this.update();
  }

  setLowScore(threshold: number): void {
    this.lowScore = threshold;
    this.update();
  }

  // ---- operations ---------------------------------------------------------------------------

  private get context(): Context {
    const { graph, selection, edge, reviewItem, canUndo, canRedo, undoAnnotation, redoAnnotation } = this.current;
    return {
      graph, selection, edge, reviewItem, canUndo, canRedo, undoAnnotation, redoAnnotation,
      reviewCount: this.current.review.length,
      hasTracer: this.tracer !== null,
      isBusy: this.pen.isBusy,
      perform: (annotation, ...actions) => this.perform(annotation, ...actions),
      select: (ids) => this.select(ids),
      enter: (mode, options) => this.enter(mode, options?.single ?? false),
      connectTo: (id) => this.connectTo({ kind: "node", id }),
      reviewStep: (step) => this.reviewStep(step),
      undo: () => this.step("undo"),
      redo: () => this.step("redo"),
      cancel: () => this.cancel(),
    };
  }

  operations(): readonly Operation[] {
    const { context } = this;
    return DEFINITIONS.map((definition) => describe(definition, context));
  }

  operation(id: OperationId): Operation {
    return describe(definitionOf(id), this.context);
  }

  run(id: OperationId): boolean {
    const { context } = this;
    const definition = definitionOf(id);
    const reason = definition.reason(context);
    if (reason !== null) {
      this.update({ message: reason });
      return false;
    }
    this.current = { ...this.current, message: "" };
    definition.run(context);
    return true;
  }

  perform(annotation: string, ...actions: Action[]): boolean {
    const done = this.history.perform(annotation, ...actions);
    this.update(done ? { message: "", preview: NO_PREVIEW } : {});
    return done;
  }

  private step(way: "undo" | "redo"): void {
    const annotation = way === "undo" ? this.history.undoAnnotation : this.history.redoAnnotation;
    this.press = null;
    if (this.current.mode === "drag") this.current = { ...this.current, mode: "select" };
    this.history[way]();
    this.update({ message: `${way === "undo" ? "Undone" : "Redone"}: ${annotation}.`, preview: NO_PREVIEW });
  }

  private enter(mode: ModeName, single = false): void {
    this.pen.drop();
    this.press = null;
    if (mode === "draw" || mode === "trace") {
      const { selection, edge, graph } = this.current;
      const id = selection.size === 1 && edge === null ? ([...selection][0] as NodeId) : null;
      const start: Anchor | null = id !== null && graph.has(id) ? { kind: "node", id } : null;
      this.pen.begin(start, mode === "draw" ? "drawn" : "traced", single);
    }
    this.update({ mode, preview: NO_PREVIEW, message: "", reviewItem: null, ...(mode === "scale" ? { scaleLine: null } : {}) });
    this.pen.show(this.cursor);
  }

  private leave(changes: Partial<EditorState> = {}): void {
    this.pen.drop();
    this.press = null;
    this.update({ mode: "select", preview: NO_PREVIEW, ...changes });
  }

  private cancel(): void {
    const { mode } = this.current;
    if (mode === "drag") this.history.cancel();
    if (mode === "browse" || mode === "select") {
      this.reviewPlace = null;
      this.leave({ selection: new Set(), edge: null, reviewItem: null, message: "", region: null, scaleLine: null });
    } else this.leave({ message: "" });
  }

  select(ids: Iterable<NodeId>): void {
    this.update({ selection: new Set(ids), edge: null, reviewItem: null });
  }

  selectEdge(id: NodeId): void {
    this.update({ selection: new Set(), edge: id, reviewItem: null });
  }

  setPlant(plant: number | "new"): boolean {
    const { selection, edge } = this.current;
    return this.perform("Set plant", setPlant(edge === null ? selection : [edge], plant));
  }

  setScale(millimeters: number | null): boolean {
    const { scaleLine } = this.current;
    if (millimeters !== null && (scaleLine === null || !(millimeters > 0))) return false;
    const scale = millimeters === null ? null : (scaleLine as number) / millimeters;
    const done = this.perform("Set scale", setScale(scale));
    this.update({ scaleLine: null, preview: NO_PREVIEW });
    return done;
  }

  mergeRegion(document: unknown, region: readonly [number, number, number, number] | null): boolean {
    const snap = Math.max(12, JOIN_EDGES * medianEdge(this.current.graph));
    const done = this.perform("Predict region", mergeGraph(fromDocument(document), { region, snap }));
    this.update({ region: null });
    return done;
  }

  private connectTo(anchor: Anchor): boolean {
    const [id] = this.current.selection;
    if (id === undefined || (anchor.kind === "node" && anchor.id === id)) return false;
    let target: NodeId = -1;
    const prepare: Action = (graph) => {
      if (anchor.kind === "node") {
        target = anchor.id;
        return graph;
      }
      target = graph.nextNode;
      const { x, y } = placeOf(graph, anchor);
      return anchor.kind === "edge" ? insertOnEdge(anchor.id, x, y)(graph) : graph;
    };
    const done = this.perform("Connect", prepare, (graph) => connect(id, target)(graph));
    this.leave({ selection: new Set([id]), message: done ? "" : "These nodes are connected already." });
    return done;
  }

  // ---- review -------------------------------------------------------------------------------

  review(item: ReviewItem): void {
    const isEdge = item.kind === "low-score";
    this.reviewPlace = item;
    this.update({
      reviewItem: item, message: item.text, mode: "select", edge: isEdge ? item.id : null,
      selection: new Set(isEdge ? [] : [item.id]),
    });
  }

  private reviewStep(step: 1 | -1): void {
    const { review } = this.current;
    if (review.length === 0) {
      this.update({ reviewItem: null, selection: new Set(), edge: null, message: "Nothing is left to review." });
      return;
    }
    this.review(nextItem(review, this.reviewPlace, step));
  }

  // ---- pointer ------------------------------------------------------------------------------

  private hit(input: PointerInput, filter?: (id: NodeId) => boolean): Hit | null {
    return spatialIndex(this.history.committed).hit(input, input.tolerance, filter);
  }

  pointerDown(input: PointerInput): boolean {
    this.cursor = input;
    if ((input.button ?? 0) !== 0) return false;
    switch (this.current.mode) {
      case "draw":
      case "trace":
        this.pen.place(input);
        return true;
      case "connect":
        this.clickTarget(input);
        return true;
      case "plant":
        this.clickPlant(input);
        return true;
      case "lasso":
      case "scale":
      case "region":
        this.press = { at: input, ids: [], slack: input.tolerance, moved: false };
        this.update({ preview: { ...NO_PREVIEW, outline: [point(input)], line: [point(input)] } });
        return true;
      case "drag":
        return true;
      case "browse":
      case "select":
        return this.pressGraph(input);
    }
  }

  private pressGraph(input: PointerInput): boolean {
    const hit = this.hit(input);
    const { selection } = this.current;
    if (hit === null) {
      this.press = { at: input, ids: [], slack: input.tolerance / 2, moved: false };
      return false;
    }
    if (hit.kind === "edge") {
      if (input.ctrl || input.alt) this.cut(hit.id);
      else this.selectEdge(hit.id);
      return true;
    }
    if (input.shift || input.ctrl) {
      const next = new Set(selection);
      if (!next.delete(hit.id)) next.add(hit.id);
      this.select(next);
      return true;
    }
    if (!selection.has(hit.id)) this.select([hit.id]);
    const ids = [...this.current.selection];
    this.press = { at: input, ids, slack: input.tolerance / 2, moved: false };
    return true;
  }

  private cut(id: NodeId): void {
    if (this.perform("Cut edge", cutEdge(id))) this.select([id]);
  }

  pointerMove(input: PointerInput): void {
    this.cursor = input;
    const { press } = this;
    switch (this.current.mode) {
      case "draw":
      case "trace":
        this.pen.show(input);
        return;
      case "connect": {
        const [id] = this.current.selection;
        const hit = this.hit(input, (other) => other !== id);
        const from = id === undefined ? undefined : this.current.graph.get(id);
        const line = from === undefined ? [] : [point(from), hit?.kind === "edge" ? hit.at : point(input)];
        this.update({ hover: hit, preview: { ...NO_PREVIEW, target: hit, line } });
        return;
      }
      case "lasso":
      case "scale":
      case "region":
        if (press !== null) this.drawOutline(press, input);
        return;
      case "drag":
        this.drag(input);
        return;
      case "plant":
      case "browse":
      case "select":
        if (press !== null && !press.moved && distance(press.at, input) > press.slack) {
          press.moved = true;
          if (press.ids.length > 0) {
            this.history.begin(press.ids.length === 1 ? "Move node" : `Move ${press.ids.length} nodes`);
            this.update({ mode: "drag", hover: null });
            this.drag(input);
          }
          return;
        }
        if (press === null) this.showHover(input);
    }
  }

  private showHover(input: PointerInput): void {
    const hover = this.hit(input);
    const cuts = hover?.kind === "edge" && (input.ctrl || input.alt) && this.current.mode !== "plant";
    const affected = cuts ? new Set(this.current.graph.subtree(hover.id)) : NO_PREVIEW.affected;
    if (sameHit(hover, this.current.hover) && affected.size === this.current.preview.affected.size) return;
    this.update({ hover, preview: { ...NO_PREVIEW, affected } });
  }

  private drag(input: PointerInput): void {
    const { press } = this;
    if (press === null) return;
    this.history.replace(moveNodes(press.ids, input.x - press.at.x, input.y - press.at.y));
    const target = input.alt || press.ids.length !== 1 ? null : this.snapTarget(press.ids[0] as NodeId, input);
    this.update({ preview: { ...NO_PREVIEW, target } });
  }

  /** The node that a dragged node would be merged with: near it and in another tree. */
  private snapTarget(id: NodeId, input: PointerInput): Hit | null {
    const { committed } = this.history;
    const [at, root] = [this.history.graph.node(id), committed.rootOf(id)];
    return spatialIndex(committed).nearestNode(at, input.tolerance, (other) => committed.rootOf(other) !== root);
  }

  private drawOutline(press: Press, input: PointerInput): void {
    const { mode, preview } = this.current;
    const at = point(input);
    if (mode === "scale") this.update({ preview: { ...preview, outline: [], line: [point(press.at), at] } });
    else if (mode === "region") this.update({ preview: { ...preview, line: [], outline: box(press.at, at) } });
    else this.update({ preview: { ...preview, line: [], outline: [...preview.outline, at] } });
  }

  pointerUp(input: PointerInput): void {
    this.cursor = input;
    const { press } = this;
    this.press = null;
    if (press === null) return;
    const { mode, preview, selection } = this.current;
    if (mode === "drag") {
      const { target } = preview;
      const [id] = press.ids;
      if (target !== null && id !== undefined) {
        this.history.cancel();
        this.history.perform("Merge nodes", mergeNodes(id, target.id));
        const kept = this.history.graph.has(id) ? id : target.id;
        this.leave({ selection: new Set([kept]), edge: null });
        return;
      }
      this.history.commit();
      this.leave();
    } else if (mode === "lasso") {
      const inside = nodesInPolygon(this.current.graph, preview.outline);
      this.leave({ selection: new Set(input.shift ? [...selection, ...inside] : inside), edge: null });
    } else if (mode === "scale") {
      const length = distance(press.at, input);
      if (length > 0) this.leave({ scaleLine: length, preview: { ...NO_PREVIEW, line: [point(press.at), point(input)] } });
    } else if (mode === "region") {
      const [a, , b] = box(press.at, input) as [Point, Point, Point];
      if (b.x > a.x && b.y > a.y) this.leave({ region: [a.x, a.y, b.x, b.y], preview: { ...preview, line: [] } });
    } else if (!press.moved && press.ids.length === 0 && !input.shift) {
      this.update({ selection: new Set(), edge: null, reviewItem: null });
    }
  }

  pointerLeave(): void {
    if (this.current.hover !== null && this.press === null) this.update({ hover: null, preview: { ...this.current.preview, affected: NO_PREVIEW.affected } });
  }

  doubleClick(input: PointerInput): void {
    if (this.current.mode === "draw" || this.current.mode === "trace") {
      this.pen.end(null);
      return;
    }
    if (this.current.mode !== "browse" && this.current.mode !== "select") return;
    const hit = this.hit(input);
    if (hit?.kind !== "edge") return;
    const id = this.current.graph.nextNode;
    if (this.perform("Insert node", insertOnEdge(hit.id, hit.at.x, hit.at.y))) this.select([id]);
  }

  private clickTarget(input: PointerInput): void {
    const [id] = this.current.selection;
    const hit = this.hit(input, (other) => other !== id);
    if (hit === null) this.update({ message: "Click a node or an edge to connect to." });
    else this.connectTo(anchorOf(hit, input));
  }

  private clickPlant(input: PointerInput): void {
    const hit = this.hit(input);
    if (hit === null) {
      this.update({ message: "Click a node of the plant to assign to, or press P for a new plant." });
      return;
    }
    const plant = plantOf(this.current.graph, hit.id);
    this.leave();
    this.setPlant(plant);
  }

  // ---- keys ---------------------------------------------------------------------------------

  key(input: KeyInput): KeyResult {
    const { mode } = this.current;
    if (mode === "draw" || mode === "trace") {
      if (input.key === "Enter") {
        this.pen.end(null);
        return USED;
      }
      if (input.key === "Backspace") {
        this.pen.back(true);
        return USED;
      }
    }
    if (mode === "plant" && !input.ctrl && !input.alt) {
      if (/^[0-9]$/.test(input.key)) {
        this.leave();
        this.setPlant(Number(input.key));
        return USED;
      }
      if (input.key === "p" || input.key === "P") {
        this.leave();
        this.setPlant("new");
        return USED;
      }
    }
    if (mode !== "browse" && mode !== "select" && mode !== "drag" && input.key === " ") {
      // In modes that need a drag, the first press begins it and the second one ends it.
      if (this.press === null) this.pointerDown(this.cursor);
      else this.pointerUp(this.cursor);
      return USED;
    }
    if (this.press !== null && mode !== "drag" && input.key === "Enter") {
      this.pointerUp(this.cursor);
      return USED;
    }
    if (input.alt && input.key.startsWith("Arrow")) return this.nudge(input);
    const binding = bindingOf(input);
    if (binding === null) return UNUSED;
    if ("command" in binding) return { handled: true, command: binding.command };
    if (mode === "drag" && binding.operation !== "cancel" && binding.operation !== "undo") return USED;
    if ((mode === "draw" || mode === "trace") && binding.operation === "undo" && this.pen.hasPoints) {
      this.pen.back(false);
      return USED;
    }
    this.run(binding.operation);
    return USED;
  }

  /** Alt and an arrow key move the selected nodes, or the point that is about to be placed. */
  private nudge(input: KeyInput): KeyResult {
    const { mode, selection, edge } = this.current;
    const isTool = mode !== "browse" && mode !== "select";
    // Large steps of the pointer are visible on large images too.
    const by = !input.shift ? 1 : isTool ? Math.max(10, 2 * this.cursor.tolerance) : 10;
    const [dx, dy] = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, -by], ArrowDown: [0, by] }[input.key] ?? [0, 0];
    if (!isTool) {
      if (selection.size === 0 || edge !== null) return UNUSED;
      this.perform(selection.size === 1 ? "Move node" : `Move ${selection.size} nodes`, moveNodes(selection, dx as number, dy as number));
    } else {
      this.pointerMove({ ...this.cursor, x: this.cursor.x + (dx as number), y: this.cursor.y + (dy as number) });
      this.update();
    }
    return USED;
  }

  get cursorAt(): Point {
    return point(this.cursor);
  }

  placeCursor(input: PointerInput): void {
    this.cursor = input;
  }

  hints(modifiers: Partial<Modifiers> = {}): readonly Hint[] {
    const { mode, selection, edge, reviewItem } = this.current;
    const { shift = false, ctrl = false, alt = false } = modifiers;
    const context = { mode, selected: selection.size, hasEdge: edge !== null, isReview: reviewItem !== null };
    return hintsFor(context, { shift, ctrl, alt });
  }
}

function definitionOf(id: OperationId): Definition {
  return DEFINITIONS.find((definition) => definition.id === id) as Definition;
}

function describe({ id, label, reason }: Definition, context: Context): Operation {
  const why = reason(context);
  return { id, label, shortcut: shortcutOf(id), available: why === null, reason: why };
}

function point({ x, y }: Point): Point {
  return { x, y };
}

function box(a: Point, b: Point): Point[] {
  const [x0, x1, y0, y1] = [Math.min(a.x, b.x), Math.max(a.x, b.x), Math.min(a.y, b.y), Math.max(a.y, b.y)];
  return [{ x: x0, y: y0 }, { x: x1, y: y0 }, { x: x1, y: y1 }, { x: x0, y: y1 }];
}

function sameHit(a: Hit | null, b: Hit | null): boolean {
  return a === b || (a !== null && b !== null && a.kind === b.kind && a.id === b.id);
}
