/** Modes and operations as the page names and groups them. */

import type { EditorState, OperationId } from "../editor/types";

type Mode = EditorState["mode"];

export const MODE_LABELS: Record<Mode, string> = {
  browse: "Browse",
  select: "Select",
  drag: "Move",
  draw: "Draw branch",
  trace: "Trace",
  connect: "Connect",
  plant: "Set plant",
  lasso: "Lasso",
  scale: "Set scale",
  region: "Region",
};

/** Operations of the panel; the toolbar has the modes. */
export const PANEL: readonly OperationId[] = [
  "add-child",
  "insert-node",
  "delete",
  "delete-subtree",
  "cut-edge",
  "connect",
  "re-root",
  "set-plant",
  "new-plant",
  "continue-axis",
  "start-axis",
  "select-subtree",
  "accept",
  "accept-all",
];

/** Modes in which a drag belongs to the tool, wherever it begins. */
export const DRAG_MODES: ReadonlySet<Mode> = new Set(["lasso", "region", "scale"]);
