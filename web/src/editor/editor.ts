// The editor without DOM: state, modes, selection and operations on top of the history of graphs. The pen, the pointer
// and the keyboard have files of their own and act through `Host`.

import { mergeGraph, setPlant, setScale } from "../core/actions.ts";
import { NO_WORK, fromDocument, toDocument } from "../core/document.ts";
import type { EditorInfo, SkeletonDocument } from "../core/document.ts";
import { point } from "../core/geometry.ts";
import { Graph } from "../core/graph.ts";
import type { NodeId } from "../core/graph.ts";
import { History } from "../core/history.ts";
import type { Action } from "../core/history.ts";
import { renumbered } from "../core/renumber.ts";
import { spatialIndex } from "../core/spatial.ts";
import { REVIEW_DEFAULTS, medianEdge, nextItem, reviewQueue } from "../core/validation.ts";
import type { ReviewItem } from "../core/validation.ts";
import { connectTo } from "./branch.ts";
import type { Anchor } from "./branch.ts";
import { hintsFor } from "./hints.ts";
import type { Host } from "./host.ts";
import { Keyboard } from "./keyboard.ts";
import { DEFINITIONS, definitionOf, describe } from "./operations.ts";
import type { Context } from "./operations.ts";
import { Pen } from "./pen.ts";
import { Pointer } from "./pointer.ts";
import { NO_PREVIEW } from "./types.ts";
import type {
  EditorApi, EditorState, Hint, KeyInput, KeyResult, ModeName, Modifiers, Operation, OperationId, Point, PointerInput,
  Tracer, Version,
} from "./types.ts";
import { WorkTime } from "./worktime.ts";

/** Ends at the border of a predicted region are joined within this many median edge lengths, at least 12 px. */
const JOIN_EDGES = 1.5;

/** Holds the document, the selection and the mode. `EditorApi` documents what the page calls. */
export class Editor implements EditorApi {
  private history: History;
  private info: EditorInfo;
  private saved: Graph;
  private current: EditorState;
  private readonly listeners = new Set<(state: EditorState) => void>();
  private tracer: Tracer | null = null;
  private readonly pen: Pen;
  private readonly pointer: Pointer;
  private readonly keyboard: Keyboard;
  private lowScore = REVIEW_DEFAULTS.lowScore;
  /** The last item of the review queue that was shown; the queue continues there even if it is gone. */
  private reviewPlace: ReviewItem | null = null;
  private work = new WorkTime();

  constructor(graph: Graph = Graph.empty(), info: EditorInfo = NO_WORK) {
    this.history = new History(graph);
    this.info = info;
    this.saved = graph;
    this.current = this.initial();
    const host = this.host();
    this.pen = new Pen(host);
    this.pointer = new Pointer(host, this.pen);
    this.keyboard = new Keyboard(host, this.pen, this.pointer);
  }

  private host(): Host {
    const editor = this;
    return {
      get state() {
        return editor.current;
      },
      get history() {
        return editor.history;
      },
      get tracer() {
        return editor.tracer;
      },
      get cursor() {
        return editor.pointer.cursor;
      },
      hit: (input, filter) => spatialIndex(this.history.committed).hit(input, input.tolerance, filter),
      update: (changes) => this.update(changes),
      perform: (annotation, ...actions) => this.perform(annotation, ...actions),
      run: (id) => this.run(id),
      select: (ids) => this.select(ids),
      selectEdge: (id) => this.selectEdge(id),
      setPlant: (plant) => this.setPlant(plant),
      connectTo: (anchor) => this.connectTo(anchor),
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
    this.pointer.drop();
    this.keyboard.drop();
    this.reviewPlace = null;
    this.history = new History(graph);
    this.info = info;
    this.saved = graph;
    this.work = new WorkTime();
    this.current = this.initial();
    this.update();
  }

  document(accepted = this.info.accepted): SkeletonDocument {
    const actions = this.info.actions + this.history.edits;
    const seconds = Math.round(10 * (this.info.seconds + this.work.seconds)) / 10;
    return toDocument(this.history.committed, { ...this.info, accepted, actions, seconds });
  }

  replaceGraph(annotation: string, graph: Graph, announce?: (graph: Graph) => void): void {
    this.endTools();
    const fresh = renumbered(graph, this.history.committed.nextNode);
    announce?.(fresh);
    this.restart(annotation, fresh, fresh);
  }

  get version(): Version {
    const { committed, base } = this.history;
    return { graph: committed, base };
  }

  returnTo(annotation: string, { graph, base }: Version): void {
    this.endTools();
    this.restart(annotation, graph, base);
  }

  /** Before another graph is shown: a branch and a drag are kept as steps, so that undo reaches them. */
  private endTools(): void {
    this.finish();
    this.pen.drop();
    this.pointer.drop();
    this.keyboard.drop();
    this.history.commit();
  }

  private restart(annotation: string, graph: Graph, base: Graph): void {
    this.reviewPlace = null;
    this.history.restart(annotation, graph, base);
    this.update({
      mode: "browse", selection: new Set(), edge: null, hover: null, reviewItem: null, preview: NO_PREVIEW, message: "",
      region: null, scaleLine: null,
    });
  }

  finish(): boolean {
    return this.pen.finish();
  }

  markSaved(): void {
    this.saved = this.history.committed;
    this.update();
  }

  touch(now: number): void {
    this.work.touch(now);
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
    if (id !== "undo" && id !== "cancel") this.pointer.letGo();
    this.current = { ...this.current, message: "" };
    definition.run(context);
    return true;
  }

  perform(annotation: string, ...actions: Action[]): boolean {
    this.pointer.letGo();
    const done = this.history.perform(annotation, ...actions);
    this.update(done ? { message: "", preview: NO_PREVIEW } : {});
    return done;
  }

  private step(way: "undo" | "redo"): void {
    const annotation = way === "undo" ? this.history.undoAnnotation : this.history.redoAnnotation;
    this.pointer.drop();
    if (this.current.mode === "drag") this.current = { ...this.current, mode: "select" };
    this.history[way]();
    this.update({ message: `${way === "undo" ? "Undone" : "Redone"}: ${annotation}.`, preview: NO_PREVIEW });
  }

  private enter(mode: ModeName, single = false): void {
    // The tool acts on what is selected now, not on the end of a branch that was drawn until now.
    const { selection, edge } = this.current;
    if (this.finish()) this.current = { ...this.current, selection, edge };
    this.pen.drop();
    this.pointer.drop();
    this.keyboard.drop();
    if (mode === "draw" || mode === "trace") {
      const { selection, edge, graph } = this.current;
      const id = selection.size === 1 && edge === null ? ([...selection][0] as NodeId) : null;
      const start: Anchor | null = id !== null && graph.has(id) ? { kind: "node", id } : null;
      this.pen.begin(start, mode === "draw" ? "drawn" : "traced", single);
    }
    this.update({ mode, preview: NO_PREVIEW, message: "", reviewItem: null, ...(mode === "scale" ? { scaleLine: null } : {}) });
    this.pen.show(this.pointer.cursor);
  }

  private leave(changes: Partial<EditorState> = {}): void {
    this.pen.drop();
    this.pointer.drop();
    this.keyboard.drop();
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
    const done = this.perform("Connect", connectTo(id, anchor));
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

  // ---- pointer and keys ---------------------------------------------------------------------

  pointerDown(input: PointerInput): boolean {
    return this.pointer.down(input);
  }

  pointerMove(input: PointerInput): void {
    this.pointer.move(input);
  }

  pointerUp(input: PointerInput): void {
    this.pointer.up(input);
  }

  pointerLeave(): void {
    this.pointer.leave();
  }

  doubleClick(input: PointerInput): void {
    this.pointer.doubleClick(input);
  }

  key(input: KeyInput): KeyResult {
    return this.keyboard.press(input);
  }

  get cursorAt(): Point {
    return point(this.pointer.cursor);
  }

  placeCursor(input: PointerInput): void {
    this.pointer.cursor = input;
  }

  hints(modifiers: Partial<Modifiers> = {}): readonly Hint[] {
    const { mode, selection, edge, reviewItem } = this.current;
    const { shift = false, ctrl = false, alt = false } = modifiers;
    const context = { mode, selected: selection.size, hasEdge: edge !== null, isReview: reviewItem !== null };
    return hintsFor(context, { shift, ctrl, alt });
  }
}
