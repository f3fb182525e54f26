// The editor without DOM: modes, selection, operations and keys on top of the history of graphs.

import { NO_WORK, fromDocument, toDocument } from "../core/document.ts";
import type { EditorInfo, SkeletonDocument } from "../core/document.ts";
import { Graph } from "../core/graph.ts";
import type { NodeId } from "../core/graph.ts";
import { mergeGraph, setPlant, setScale } from "../core/actions.ts";
import { History } from "../core/history.ts";
import type { Action } from "../core/history.ts";
import type {
  EditorApi, EditorState, Hint, KeyInput, KeyResult, Modifiers, Operation, OperationId, PointerInput, Preview, ReviewItem, Tracer,
} from "./types.ts";

const NO_PREVIEW: Preview = { line: [], outline: [], affected: new Set(), target: null, busy: false };

export class Editor implements EditorApi {
  private history: History;
  private info: EditorInfo;
  private saved: Graph;
  private current: EditorState;
  private readonly listeners = new Set<(state: EditorState) => void>();
  protected tracer: Tracer | null = null;

  constructor(graph: Graph = Graph.empty(), info: EditorInfo = NO_WORK) {
    this.history = new History(graph);
    this.info = info;
    this.saved = graph;
    this.current = this.fresh();
  }

  private fresh(): EditorState {
    const { history } = this;
    return {
      graph: history.graph, mode: "browse", selection: new Set(), edge: null, hover: null, preview: NO_PREVIEW, review: [],
      reviewItem: null, message: "", canUndo: history.canUndo, canRedo: history.canRedo,
      undoAnnotation: history.undoAnnotation, redoAnnotation: history.redoAnnotation, dirty: history.graph !== this.saved,
      region: null, scaleLine: null,
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
    const { history } = this;
    this.current = {
      ...this.current, graph: history.graph, canUndo: history.canUndo, canRedo: history.canRedo,
      undoAnnotation: history.undoAnnotation, redoAnnotation: history.redoAnnotation, dirty: history.graph !== this.saved,
      ...changes,
    };
    for (const listener of this.listeners) listener(this.current);
  }

  load(graph: Graph, info: EditorInfo = NO_WORK): void {
    this.history = new History(graph);
    this.info = info;
    this.saved = graph;
    this.current = this.fresh();
    this.update();
  }

  document(accepted = this.info.accepted): SkeletonDocument {
    return toDocument(this.history.graph, { ...this.info, accepted, actions: this.info.actions + this.history.edits });
  }

  markSaved(): void {
    this.saved = this.history.graph;
    this.update();
  }

  pointerDown(_input: PointerInput): void {}
  pointerMove(_input: PointerInput): void {}
  pointerUp(_input: PointerInput): void {}
  doubleClick(_input: PointerInput): void {}
  pointerLeave(): void {}

  key(_input: KeyInput): KeyResult {
    return { handled: false, command: null };
  }

  operations(): readonly Operation[] {
    return [];
  }

  operation(id: OperationId): Operation {
    return { id, label: id, shortcut: "", available: false, reason: "Not available." };
  }

  run(id: OperationId): boolean {
    const done = id === "undo" ? this.history.undo() : id === "redo" ? this.history.redo() : false;
    this.update();
    return done;
  }

  perform(annotation: string, ...actions: Action[]): boolean {
    const done = this.history.perform(annotation, ...actions);
    this.update();
    return done;
  }

  hints(_modifiers: Partial<Modifiers> = {}): readonly Hint[] {
    return [];
  }

  select(ids: Iterable<NodeId>): void {
    const selection = new Set(ids);
    this.update({ selection, edge: null, mode: selection.size > 0 ? "select" : "browse" });
  }

  selectEdge(id: NodeId): void {
    this.update({ selection: new Set(), edge: id, mode: "select" });
  }

  setPlant(plant: number | "new"): boolean {
    return this.perform("Set plant", setPlant(this.current.selection, plant));
  }

  setScale(millimeters: number | null): boolean {
    const { scaleLine } = this.current;
    const scale = millimeters === null || scaleLine === null ? null : scaleLine / millimeters;
    return this.perform("Set scale", setScale(scale));
  }

  mergeRegion(document: unknown, region: readonly [number, number, number, number] | null): boolean {
    return this.perform("Predict region", mergeGraph(fromDocument(document), { region, snap: 24 }));
  }

  review(item: ReviewItem): void {
    this.update({ reviewItem: item });
  }

  setTracer(tracer: Tracer | null): void {
    this.tracer = tracer;
  }

  touch(_now: number): void {}
}
