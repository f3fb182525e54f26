/** Live rows of the traits panel, computed in the page with the definitions of `treeformer.measure`. */

import type { AxisId, Graph } from "../core/graph";
import { axisOfNode, measureAxis, measurePlants, type PlantMeasures, scaleOf } from "../core/measures";
import type { EditorState } from "../editor/types";
import type { Measure } from "./traits";

const plants = new WeakMap<Graph, readonly PlantMeasures[]>();

function measured(graph: Graph): readonly PlantMeasures[] {
  let known = plants.get(graph);
  if (!known) plants.set(graph, (known = measurePlants(graph)));
  return known;
}

function sum(rows: readonly PlantMeasures[], key: "total_length" | "primary_length" | "lateral_count" | "lateral_length" | "tip_count"): number {
  return rows.reduce((total, row) => total + row[key], 0);
}

/** The sums over all plants of the image. */
export function imageMeasures(graph: Graph): Measure[] {
  const rows = measured(graph);
  const unit = scaleOf(graph) === null ? "px" : "mm";
  const total = sum(rows, "total_length");
  const low = rows.reduce((all, row) => all + (row.low_confidence_length_fraction ?? 0) * row.total_length, 0);
  const known = rows.some((row) => row.low_confidence_length_fraction !== null);
  return [
    { label: "Plants", value: rows.length, unit: "" },
    { label: "Total length", value: total, unit },
    { label: "Main axes", value: sum(rows, "primary_length"), unit },
    { label: "Laterals", value: sum(rows, "lateral_length"), unit },
    { label: "Lateral count", value: sum(rows, "lateral_count"), unit: "" },
    { label: "Tips", value: sum(rows, "tip_count"), unit: "" },
    ...(known && total > 0 ? [{ label: "Uncertain length", value: (100 * low) / total, unit: "%" }] : []),
  ];
}

/** The measures of one axis; empty if there is no such axis. */
export function axisMeasures(graph: Graph, axis: AxisId): Measure[] {
  const row = measureAxis(graph, axis);
  if (!row) return [];
  return [
    { label: "Length", value: row.length, unit: row.unit },
    { label: "Chord", value: row.chord_length, unit: row.unit },
    { label: "Order", value: row.order, unit: "" },
    { label: "Laterals", value: row.lateral_count, unit: "" },
    { label: "Emergence angle", value: row.emergence_angle, unit: "°" },
    { label: "Tip angle", value: row.tip_angle, unit: "°" },
  ];
}

/** The axis of the selected edge or node; null if nothing is selected. */
export function axisOf(state: EditorState): { id: AxisId; title: string } | null {
  const id = state.edge ?? [...state.selection].at(-1);
  if (id === undefined || !state.graph.has(id)) return null;
  const axis = axisOfNode(state.graph, id);
  if (axis === null) return null;
  const label = measureAxis(state.graph, axis)?.label;
  return { id: axis, title: `Axis ${label || axis + 1}` };
}
