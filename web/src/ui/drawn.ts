/** What the canvas draws of a state of the editor: the nodes of the scene, and the marks over them. */

import { type Graph, plantOf } from "../core/graph";
import type { EditorState, Point } from "../editor/types";
import type { Marks } from "./canvas/overlay";
import type { ColorBy, SceneNode } from "./canvas/scene";

/** What the state does not know. */
export interface Additions {
  /** Corrections of another date. */
  offered: Marks["offered"];
  /** The cross of the keyboard. */
  cursor: Point | null;
  /** True if axes are labeled. */
  labels: boolean;
}

/** The nodes with the plant and the axis by which they are colored. */
export function sceneNodes(graph: Graph, colorBy: ColorBy): SceneNode[] {
  return graph.nodes.values().map((node) => ({
    ...node,
    plant: plantNumber(graph, node.plant ?? plantOf(graph, node.id)),
    identity: node.axis === null || colorBy !== "axis" ? undefined : axisName(graph, node.axis),
  }));
}

/** What is drawn over the skeleton in a state of the editor. */
export function marksOf(state: EditorState, { offered, cursor, labels: isLabeled }: Additions): Marks {
  const { preview, mode, hover, graph } = state;
  const edge = state.edge !== null ? graph.get(state.edge) : undefined;
  const selected = edge && edge.parent !== null ? new Set([edge.id, edge.parent]) : state.selection;
  const outline = preview.outline.length > 1 ? preview.outline : null;
  const target = preview.target;
  const snap = target === null ? null : target.kind === "edge" ? target.at : (graph.get(target.id) ?? null);
  const [first, last] = [preview.line[0], preview.line.at(-1)];
  const item = state.reviewItem;
  const ruler = mode === "scale" || state.scaleLine !== null;
  return {
    selected,
    hoverNode: hover?.kind === "node" ? hover.id : null,
    hoverEdge: hover?.kind === "edge" ? hover.id : null,
    doomed: preview.affected.size > 0 ? preview.affected : null,
    path: !ruler && preview.line.length > 0 ? preview.line : null,
    ruler: ruler && first && last ? [first, last] : null,
    lasso: mode === "lasso" ? outline : null,
    region: outline && (mode === "region" || state.region) ? corners(outline) : null,
    review: item ? { point: item, radius: 0 } : null,
    snap: snap ? { x: snap.x, y: snap.y } : null,
    offered,
    cursor,
    labels: isLabeled ? axisLabels(graph) : NO_LABELS,
  };
}

function corners(outline: readonly Point[]): [Point, Point] {
  const xs = outline.map((p) => p.x);
  const ys = outline.map((p) => p.y);
  return [
    { x: Math.min(...xs), y: Math.min(...ys) },
    { x: Math.max(...xs), y: Math.max(...ys) },
  ];
}

/** The id of an axis in its file, otherwise its number. */
function axisName(graph: Graph, id: number): string {
  const name = graph.axes.get(id)?.record.id;
  return typeof name === "string" && name !== "" ? name : `${id + 1}`;
}

/** The number that a plant has in its file, which is the same at all dates of a series; otherwise its index. */
function plantNumber(graph: Graph, plant: number): number {
  const id = graph.plants[plant]?.id;
  return typeof id === "string" && /^[0-9]{1,6}$/.test(id) ? Number(id) - 1 : plant;
}

const NO_LABELS: Marks["labels"] = [];
const labels = new WeakMap<Graph, Marks["labels"]>();

/** The label of each axis at its tip. */
function axisLabels(graph: Graph): Marks["labels"] {
  let known = labels.get(graph);
  if (!known) {
    known = [...graph.topology.paths].flatMap(([id, path]) => {
      const tip = graph.get(path.at(-1)!);
      const label = graph.axes.get(id)?.record.label;
      const text = typeof label === "string" && label !== "" ? label : axisName(graph, id);
      return tip ? [{ point: { x: tip.x, y: tip.y }, text }] : [];
    });
    labels.set(graph, known);
  }
  return known;
}
