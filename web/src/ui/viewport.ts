/** Where the view goes: to the selected nodes, or to a place to review. */

import type { NodeId } from "../core/graph";
import type { EditorState, Point } from "../editor/types";
import type { Stage } from "./canvas/stage";

/** Fit the selected nodes or the selected edge into the canvas; the image if nothing is selected. */
export function fitSelection(stage: Stage, { graph, edge, selection }: EditorState): void {
  const ids: NodeId[] = edge !== null ? [edge, graph.node(edge).parent ?? edge] : [...selection];
  const nodes = ids.flatMap((id) => graph.get(id) ?? []);
  if (nodes.length === 0) {
    stage.fit();
    return;
  }
  stage.fitBox({
    x0: Math.min(...nodes.map((n) => n.x)),
    y0: Math.min(...nodes.map((n) => n.y)),
    x1: Math.max(...nodes.map((n) => n.x)),
    y1: Math.max(...nodes.map((n) => n.y)),
  });
}

/** Bring the last selected node, or the lower end of the selected edge, into view. */
export function revealSelection(stage: Stage, { graph, edge, selection }: EditorState): void {
  const id = edge ?? [...selection].at(-1);
  const node = id === undefined ? undefined : graph.get(id);
  if (node) stage.reveal(node);
}

/** Bring a place to review into view, large enough to judge it. */
export function revealReview(stage: Stage, item: Point): void {
  const size = stage.imageSize;
  if (!size) return;
  const fit = Math.min(stage.view.width / size.width, stage.view.height / size.height);
  stage.reveal(item, Math.min(2, 3 * fit));
}
