// Types that the page and the editor share. The editor knows image coordinates and keys, not the DOM.

import type { EditorInfo, SkeletonDocument } from "../core/document.ts";
import type { Graph, NodeId } from "../core/graph.ts";
import type { Action } from "../core/history.ts";
import type { Hit } from "../core/spatial.ts";
import type { ReviewItem } from "../core/validation.ts";

export type { Hit } from "../core/spatial.ts";
export type { ReviewItem, ReviewKind } from "../core/validation.ts";

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Modifiers {
  readonly shift: boolean;
  /** Control, or Command on a Mac. */
  readonly ctrl: boolean;
  readonly alt: boolean;
}

/** A pointer event in image coordinates, px. */
export interface PointerInput extends Point, Partial<Modifiers> {
  /** Distance within which nodes and edges are hit, image px: about 8 screen px for a mouse, 16 for a finger. */
  readonly tolerance: number;
  /** 0 is the main button, 2 the secondary one. */
  readonly button?: number;
}

/** A key press: `KeyboardEvent.key` and the modifiers. */
export interface KeyInput extends Partial<Modifiers> {
  readonly key: string;
}

export type ModeName = "browse" | "select" | "drag" | "draw" | "trace" | "connect" | "plant" | "lasso" | "scale" | "region";

/** What a key asks of the page, not of the document. */
export type Command =
  | "save"
  | "previous-image"
  | "next-image"
  | "fit"
  | "fit-selection"
  | "zoom-in"
  | "zoom-out"
  | "pan-left"
  | "pan-right"
  | "pan-up"
  | "pan-down"
  | "color-confidence"
  | "color-plant"
  | "color-order"
  | "color-axis"
  | "toggle-overlay"
  | "invert"
  | "help";

/** The result of a key: whether it was used, and the command for the page if it is one. */
export interface KeyResult {
  readonly handled: boolean;
  readonly command: Command | null;
}

export type OperationId =
  | "add-child"
  | "draw-branch"
  | "trace"
  | "insert-node"
  | "delete"
  | "delete-subtree"
  | "delete-cut"
  | "cut-edge"
  | "connect"
  | "re-root"
  | "new-plant"
  | "set-plant"
  | "start-axis"
  | "continue-axis"
  | "lasso"
  | "accept"
  | "accept-all"
  | "set-scale"
  | "select-region"
  | "select-parent"
  | "select-child"
  | "next-branch"
  | "previous-tip"
  | "select-subtree"
  | "select-all"
  | "review-next"
  | "review-previous"
  | "undo"
  | "redo"
  | "cancel";

export interface Operation {
  readonly id: OperationId;
  readonly label: string;
  /** Key as shown to a person, as in "Shift+Delete". */
  readonly shortcut: string;
  readonly available: boolean;
  /** Why it is unavailable, one sentence; null if it is available. */
  readonly reason: string | null;
}

/** One entry of the status bar. */
export interface Hint {
  readonly keys: string;
  readonly text: string;
}

/** What the canvas draws over the graph in the current mode. */
export interface Preview {
  /** A line that would be drawn: the points of a branch or of a trace, the scale line. */
  readonly line: readonly Point[];
  /** A closed outline: the lasso or the region. */
  readonly outline: readonly Point[];
  /** Nodes that a click would cut off or delete. */
  readonly affected: ReadonlySet<NodeId>;
  /** The node or edge that a click would connect to or snap to. */
  readonly target: Hit | null;
  /** True while a trace is being computed. */
  readonly busy: boolean;
}

export const NO_PREVIEW: Preview = { line: [], outline: [], affected: new Set(), target: null, busy: false };

/** A path that follows the image between two points, in image coordinates, both ends included. */
export type Tracer = (from: Point, to: Point, signal: AbortSignal) => Promise<readonly Point[]>;

/** An immutable view of the editor's state. A new object after each change. */
export interface EditorState {
  readonly graph: Graph;
  readonly mode: ModeName;
  readonly selection: ReadonlySet<NodeId>;
  /** The selected edge, named by its child; null if nodes or nothing are selected. */
  readonly edge: NodeId | null;
  readonly hover: Hit | null;
  readonly preview: Preview;
  readonly review: readonly ReviewItem[];
  /** The current item of the review queue. */
  readonly reviewItem: ReviewItem | null;
  /** A sentence for the status bar: why something was refused, or what was done. */
  readonly message: string;
  readonly canUndo: boolean;
  readonly canRedo: boolean;
  readonly undoAnnotation: string;
  readonly redoAnnotation: string;
  /** True if the document differs from the one that was loaded or last marked as saved. */
  readonly dirty: boolean;
  /** The region that was drawn in mode "region", [x0, y0, x1, y1]; null if none. */
  readonly region: readonly [number, number, number, number] | null;
  /** Length of the scale line, px, as soon as it is drawn; the page then asks for millimeters and calls setScale. */
  readonly scaleLine: number | null;
}

/** A graph, and the one from which it was made by edits. */
export interface Version {
  readonly graph: Graph;
  readonly base: Graph;
}

/** What the page calls. `Editor` in editor.ts implements it. */
export interface EditorApi {
  readonly state: EditorState;
  /** Call a function after each change of the state; the result unsubscribes it. */
  subscribe(listener: (state: EditorState) => void): () => void;

  /** Begin with another document; history, selection and mode are reset. */
  load(graph: Graph, info?: EditorInfo): void;
  /** The document with `metadata.editor`, as it is sent to the server. */
  document(accepted?: boolean): SkeletonDocument;
  /**
   * Show another graph as one step. It gets node ids that the present graph does not use, so that nothing acts on other
   * nodes than before; tools end. `announce` is told the graph with these ids before the listeners are.
   */
  replaceGraph(annotation: string, graph: Graph, announce?: (graph: Graph) => void): void;
  /** The present graph, for `returnTo`. */
  readonly version: Version;
  /** Show an earlier graph again as one step. */
  returnTo(annotation: string, version: Version): void;
  /** Keep a branch that is being drawn, as Enter does. Return true if there was one with points. */
  finish(): boolean;
  /** Tell the editor that the current state is saved. */
  markSaved(): void;

  /** Return true if the editor uses the pointer until it is released; otherwise the page may pan. */
  pointerDown(input: PointerInput): boolean;
  pointerMove(input: PointerInput): void;
  pointerUp(input: PointerInput): void;
  doubleClick(input: PointerInput): void;
  /** The pointer left the canvas. */
  pointerLeave(): void;
  key(input: KeyInput): KeyResult;
  /** Where Space would click in the mode of a tool. */
  readonly cursorAt: Point;
  /** Begin there if the keyboard is used and the pointer was never over the canvas. */
  placeCursor(input: PointerInput): void;

  operations(): readonly Operation[];
  operation(id: OperationId): Operation;
  /** Run an operation if it is available; otherwise state.message says why not. Return true if it ran. */
  run(id: OperationId): boolean;
  /** Apply any action of core/actions.ts as one step. Return true if the graph changed. */
  perform(annotation: string, ...actions: Action[]): boolean;
  /** What keys and clicks do now. */
  hints(modifiers?: Partial<Modifiers>): readonly Hint[];

  select(ids: Iterable<NodeId>): void;
  selectEdge(id: NodeId): void;
  /** Assign the trees of the selected nodes to a plant. */
  setPlant(plant: number | "new"): boolean;
  /** Set the scale from the drawn line and its length, mm; null removes the scale. */
  setScale(millimeters: number | null): boolean;
  /** Insert the prediction of a region. */
  mergeRegion(document: unknown, region: readonly [number, number, number, number] | null): boolean;
  /** Go to an item of the review queue. */
  review(item: ReviewItem): void;
  setTracer(tracer: Tracer | null): void;
  /** Edges with a lower score are in the review queue. */
  setLowScore(threshold: number): void;
  /** Seconds of work count only while the page is visible and used; call it on activity. */
  touch(now: number): void;
}
