// What the pen, the pointer and the keyboard see of the editor and do with it.

import type { NodeId } from "../core/graph.ts";
import type { History } from "../core/history.ts";
import type { Anchor } from "./branch.ts";
import type { EditorApi, EditorState, Hit, PointerInput, Tracer } from "./types.ts";

/** The side of the editor that its tools use. */
export interface Host extends Pick<EditorApi, "state" | "perform" | "run" | "select" | "selectEdge" | "setPlant"> {
  /** For drags, which are transactions. All else goes through `perform`. */
  readonly history: History;
  readonly tracer: Tracer | null;
  /** Last known position of the pointer. */
  readonly cursor: PointerInput;
  /** The node or edge under the pointer, of the graph without the drag that is under way. */
  hit(input: PointerInput, filter?: (id: NodeId) => boolean): Hit | null;
  /** Change the state and tell the listeners. */
  update(changes?: Partial<EditorState>): void;
  /** Connect the selected node. Return true if the graph changed. */
  connectTo(anchor: Anchor): boolean;
  /** Return to the mode in which nodes are selected. */
  leave(changes?: Partial<EditorState>): void;
}
