// Operations: an action together with a label, and the reason why it is unavailable.

import {
  accept, acceptAll, continueAxis, continueAxisReason, cutEdge, deleteNodes, insertOnEdge, reRoot, setPlant, startAxis,
} from "../core/actions.ts";
import type { Graph, NodeId } from "../core/graph.ts";
import type { Action } from "../core/history.ts";
import type { ReviewItem } from "../core/validation.ts";
import { shortcutOf } from "./keys.ts";
import { childOf, nextBranch, previousTip } from "./navigation.ts";
import type { ModeName, Operation, OperationId } from "./types.ts";

/** What operations see and do. The editor implements it. */
export interface Context {
  readonly graph: Graph;
  readonly selection: ReadonlySet<NodeId>;
  readonly edge: NodeId | null;
  readonly reviewItem: ReviewItem | null;
  readonly reviewCount: number;
  readonly canUndo: boolean;
  readonly canRedo: boolean;
  readonly undoAnnotation: string;
  readonly redoAnnotation: string;
  readonly hasTracer: boolean;
  readonly isBusy: boolean;
  perform(annotation: string, ...actions: Action[]): boolean;
  select(ids: Iterable<NodeId>): void;
  enter(mode: ModeName, options?: { single?: boolean }): void;
  connectTo(id: NodeId): boolean;
  reviewStep(step: 1 | -1): void;
  undo(): void;
  redo(): void;
  cancel(): void;
}

/** An operation before it is known whether it is available. */
export interface Definition {
  readonly id: OperationId;
  readonly label: string;
  /** One sentence, null if the operation is available. */
  readonly reason: (context: Context) => string | null;
  readonly run: (context: Context) => void;
}

const SELECT_NODE = "Select a node first.";
const SELECT_ONE = "Select one node first.";
const SELECT_EDGE = "Select an edge or a node below it first.";

const always = (): null => null;
const needsNodes = ({ selection }: Context): string | null => (selection.size > 0 ? null : SELECT_NODE);
const needsOne = ({ selection }: Context): string | null => (selection.size === 1 ? null : SELECT_ONE);

function single({ selection }: Context): NodeId | null {
  return selection.size === 1 ? ([...selection][0] as NodeId) : null;
}

/** The child of the edge that is meant: the selected edge, or the one above the only selected node. */
function edgeChild(context: Context): NodeId | null {
  return context.edge ?? single(context);
}

function needsEdge(context: Context): string | null {
  const child = edgeChild(context);
  if (child === null) return SELECT_EDGE;
  return context.graph.node(child).parent === null ? "This node is a root: there is no edge above it." : null;
}

/** The nodes that are meant by operations on trees: the selected nodes, or the child of the selected edge. */
function members({ selection, edge }: Context): NodeId[] {
  return edge === null ? [...selection] : [edge];
}

const needsMembers = (context: Context): string | null => (members(context).length > 0 ? null : SELECT_NODE);

function acceptActions({ reviewItem, selection, edge }: Context): Action[] {
  const isCurrent = reviewItem !== null && (edge === reviewItem.id || selection.has(reviewItem.id));
  if (reviewItem !== null && isCurrent) {
    if (reviewItem.kind === "low-score") return [accept([reviewItem.id], "edge")];
    return [accept([reviewItem.id, ...(reviewItem.other === null ? [] : [reviewItem.other])], "node")];
  }
  return edge === null ? [accept(selection)] : [accept([edge], "edge")];
}

/** All operations. */
export const DEFINITIONS: readonly Definition[] = [
  {
    id: "add-child",
    label: "Add a node",
    reason: ({ selection }) => (selection.size > 1 ? SELECT_ONE : null),
    run: (context) => context.enter("draw", { single: true }),
  },
  {
    id: "draw-branch",
    label: "Draw a branch",
    reason: ({ selection }) => (selection.size > 1 ? "Select one node, or none for a new plant." : null),
    run: (context) => context.enter("draw"),
  },
  {
    id: "trace",
    label: "Trace",
    reason: ({ selection, hasTracer }) =>
      !hasTracer ? "The image is not loaded yet." : selection.size > 1 ? "Select one node, or none for a new plant." : null,
    run: (context) => context.enter("trace"),
  },
  {
    id: "insert-node",
    label: "Insert a node",
    reason: needsEdge,
    run: (context) => {
      const child = context.graph.node(edgeChild(context) as NodeId);
      const parent = context.graph.node(child.parent as NodeId);
      const id = context.graph.nextNode;
      const [x, y] = [(child.x + parent.x) / 2, (child.y + parent.y) / 2];
      if (context.perform("Insert node", insertOnEdge(child.id, x, y))) context.select([id]);
    },
  },
  {
    id: "delete",
    label: "Delete",
    reason: (context) => (context.edge !== null ? needsEdge(context) : needsNodes(context)),
    run: (context) => {
      if (context.edge !== null) context.perform("Cut edge", cutEdge(context.edge));
      else removeNodes(context, "heal");
    },
  },
  { id: "delete-subtree", label: "Delete the subtree", reason: needsMembers, run: (context) => removeNodes(context, "subtree") },
  { id: "delete-cut", label: "Delete and cut", reason: needsNodes, run: (context) => removeNodes(context, "cut") },
  {
    id: "cut-edge",
    label: "Cut",
    reason: needsEdge,
    run: (context) => {
      const child = edgeChild(context) as NodeId;
      if (context.perform("Cut edge", cutEdge(child))) context.select([child]);
    },
  },
  {
    id: "connect",
    label: "Connect",
    reason: needsOne,
    run: (context) => {
      const item = context.reviewItem;
      const isNear = item?.kind === "near-miss" && item.other !== null && context.selection.has(item.id);
      if (isNear && context.graph.has(item.other as NodeId)) context.connectTo(item.other as NodeId);
      else context.enter("connect");
    },
  },
  {
    id: "re-root",
    label: "Make root",
    reason: (context) => {
      const id = single(context);
      if (id === null) return SELECT_ONE;
      return context.graph.node(id).parent === null && !context.graph.assumedRoots.has(id) ? "This node is the root." : null;
    },
    run: (context) => context.perform("Change root", reRoot(single(context) as NodeId)),
  },
  {
    id: "set-plant",
    label: "Assign to a plant",
    reason: needsMembers,
    run: (context) => context.enter("plant"),
  },
  {
    id: "new-plant",
    label: "Make a new plant",
    reason: needsMembers,
    run: (context) => context.perform("Set plant", setPlant(members(context), "new")),
  },
  {
    id: "continue-axis",
    label: "Continue the axis here",
    reason: (context) => {
      const child = edgeChild(context);
      if (child === null) return SELECT_EDGE;
      const reason = continueAxisReason(context.graph, child);
      if (reason !== null) return reason;
      return continueAxis(child)(context.graph) === context.graph ? "The axis continues here already." : null;
    },
    run: (context) => context.perform("Continue axis", continueAxis(edgeChild(context) as NodeId)),
  },
  {
    id: "start-axis",
    label: "Begin an axis here",
    reason: (context) => {
      const reason = needsEdge(context);
      if (reason !== null) return reason;
      const child = edgeChild(context) as NodeId;
      return startAxis(child)(context.graph) === context.graph ? "An axis begins here already." : null;
    },
    run: (context) => context.perform("Begin axis", startAxis(edgeChild(context) as NodeId)),
  },
  { id: "lasso", label: "Lasso", reason: always, run: (context) => context.enter("lasso") },
  {
    id: "accept",
    label: "Accept",
    reason: needsMembers,
    run: (context) => {
      const isReview = context.reviewItem !== null;
      context.perform("Accept", ...acceptActions(context));
      if (isReview) context.reviewStep(1);
    },
  },
  {
    id: "accept-all",
    label: "Accept everything",
    reason: ({ graph }) => (graph.size > 0 ? null : "There is nothing to accept."),
    run: (context) => context.perform("Accept everything", acceptAll()),
  },
  { id: "set-scale", label: "Set the scale", reason: always, run: (context) => context.enter("scale") },
  { id: "select-region", label: "Choose a region", reason: always, run: (context) => context.enter("region") },
  {
    id: "select-parent",
    label: "Go to the parent",
    reason: (context) => {
      const id = edgeChild(context);
      if (id === null) return SELECT_ONE;
      return context.graph.node(id).parent === null ? "This node is the root." : null;
    },
    run: (context) => context.select([context.graph.node(edgeChild(context) as NodeId).parent as NodeId]),
  },
  {
    id: "select-child",
    label: "Go to the child",
    reason: (context) => {
      if (context.edge !== null) return null;
      const id = single(context);
      if (id === null) return SELECT_ONE;
      return context.graph.children(id).length === 0 ? "This node is a tip." : null;
    },
    run: (context) => context.select([context.edge ?? (childOf(context.graph, single(context) as NodeId) as NodeId)]),
  },
  {
    id: "next-branch",
    label: "Go to the next branch point or tip",
    reason: ({ graph }) => (graph.size > 0 ? null : "There are no nodes."),
    run: (context) => {
      const next = nextBranch(context.graph, edgeChild(context));
      if (next !== null) context.select([next]);
    },
  },
  {
    id: "previous-tip",
    label: "Go to the previous tip",
    reason: ({ graph }) => (graph.size > 0 ? null : "There are no nodes."),
    run: (context) => {
      const tip = previousTip(context.graph, edgeChild(context));
      if (tip !== null) context.select([tip]);
    },
  },
  {
    id: "select-subtree",
    label: "Select the subtree",
    reason: needsMembers,
    run: (context) => context.select(members(context).flatMap((id) => context.graph.subtree(id))),
  },
  {
    id: "select-all",
    label: "Select everything",
    reason: ({ graph }) => (graph.size > 0 ? null : "There are no nodes."),
    run: (context) => context.select(context.graph.nodes.values().map(({ id }) => id)),
  },
  {
    id: "review-next",
    label: "Next place to review",
    reason: ({ reviewCount }) => (reviewCount > 0 ? null : "Nothing is left to review."),
    run: (context) => context.reviewStep(1),
  },
  {
    id: "review-previous",
    label: "Previous place to review",
    reason: ({ reviewCount }) => (reviewCount > 0 ? null : "Nothing is left to review."),
    run: (context) => context.reviewStep(-1),
  },
  {
    id: "undo",
    label: "Undo",
    reason: ({ canUndo }) => (canUndo ? null : "There is nothing to undo."),
    run: (context) => context.undo(),
  },
  {
    id: "redo",
    label: "Redo",
    reason: ({ canRedo }) => (canRedo ? null : "There is nothing to redo."),
    run: (context) => context.redo(),
  },
  { id: "cancel", label: "Cancel", reason: always, run: (context) => context.cancel() },
];

/** The definition of an operation. */
export function definitionOf(id: OperationId): Definition {
  return DEFINITIONS.find((definition) => definition.id === id) as Definition;
}

/** An operation as it is shown: with its key, and available or not. */
export function describe({ id, label, reason }: Definition, context: Context): Operation {
  const why = reason(context);
  return { id, label, shortcut: shortcutOf(id), available: why === null, reason: why };
}

function removeNodes(context: Context, how: "heal" | "cut" | "subtree"): void {
  const ids = members(context);
  const { graph } = context;
  const next = ids.length === 1 ? graph.node(ids[0] as NodeId).parent : null;
  const annotation = how === "subtree" ? "Delete subtree" : ids.length === 1 ? "Delete node" : `Delete ${ids.length} nodes`;
  if (context.perform(annotation, deleteNodes(ids, how))) context.select(next === null ? [] : [next]);
}
