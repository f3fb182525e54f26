// Traits of a graph with the definitions of `treeformer.measure`: one row per plant, and the values of one axis.

import { axisOrders, withAxes } from "./axes.ts";
import { axisPoints } from "./axispoints.ts";
import { convexHullArea } from "./geometry.ts";
import type { AxisId, Graph, JsonObject, NodeId } from "./graph.ts";
import { plantOf } from "./graph.ts";

/** Edges with a lower score count as uncertain, unless the metadata state another threshold. */
export const LOW_CONFIDENCE_THRESHOLD = 0.15;

/** The main traits of one plant. Null is unknown. */
export interface PlantMeasures {
  readonly plant: number;
  readonly unit: "px" | "mm";
  readonly total_length: number;
  readonly primary_length: number;
  readonly lateral_count: number;
  readonly lateral_length: number;
  readonly lateral_length_mean: number | null;
  readonly tip_count: number;
  readonly branch_point_count: number;
  readonly max_order: number;
  readonly depth: number;
  readonly width: number;
  readonly convex_hull_area: number;
  readonly mean_diameter: number | null;
  readonly surface_area: number | null;
  readonly volume: number | null;
  readonly main_curve_index: number | null;
  readonly lateral_emergence_angle_mean: number | null;
  readonly low_confidence_length_fraction: number | null;
}

export interface AxisMeasures {
  readonly axis: AxisId;
  readonly unit: "px" | "mm";
  readonly label: string;
  readonly plant: number;
  readonly order: number;
  readonly length: number;
  readonly chord_length: number;
  readonly curve_index: number | null;
  /** Angles from gravity, degrees: 0 is straight down. */
  readonly emergence_angle: number | null;
  readonly tip_angle: number | null;
  readonly lateral_count: number;
}

/** The scale, px per mm: set in the editor, otherwise that of an RSML file; null if it is unknown. */
export function scaleOf(graph: Graph): number | null {
  return graph.pxPerMm ?? rsmlScale(graph.metadata);
}

const MM_PER_UNIT: Readonly<Record<string, number>> = { mm: 1, cm: 10, m: 1000, um: 1e-3, inch: 25.4 };

/** The scale of an RSML file, px per mm; null if it states none. */
export function rsmlScale(metadata: JsonObject): number | null {
  const head = metadata.rsml;
  if (typeof head !== "object" || head === null || Array.isArray(head)) return null;
  const { unit, resolution } = head as JsonObject;
  const mm = MM_PER_UNIT[String(unit ?? "").toLowerCase()];
  const pxPerUnit = Number(resolution);
  return mm === undefined || !(pxPerUnit > 0 && Number.isFinite(pxPerUnit)) ? null : pxPerUnit / mm;
}

interface AxisLine {
  readonly axis: AxisId;
  readonly plant: number;
  readonly order: number;
  readonly length: number;
  readonly chord: number;
  readonly emergence: number | null;
  readonly tip: number | null;
}

const lineCache = new WeakMap<Graph, readonly AxisLine[]>();

function axisLines(given: Graph): readonly AxisLine[] {
  let lines = lineCache.get(given);
  if (lines === undefined) {
    const graph = withAxes(given);
    const orders = axisOrders(graph.axes);
    lines = [...graph.axes.keys()].sort((a, b) => a - b).map((axis) => axisLine(graph, given, axis, orders.get(axis) ?? 0));
    lineCache.set(given, lines);
  }
  return lines;
}

function axisLine(graph: Graph, given: Graph, axis: AxisId, order: number): AxisLine {
  const ids = axisPoints(graph, axis);
  const points = ids.map((id) => graph.node(id));
  let length = 0;
  let first: readonly [number, number] | null = null;
  let last: readonly [number, number] | null = null;
  for (let k = 1; k < points.length; k++) {
    const [a, b] = [points[k - 1], points[k]] as [(typeof points)[number], (typeof points)[number]];
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const step = Math.hypot(dx, dy);
    if (step === 0) continue;
    length += step;
    first ??= [dx, dy];
    last = [dx, dy];
  }
  const [start, end] = [points[0], points[points.length - 1]];
  const chord = start && end ? Math.min(length, Math.hypot(end.x - start.x, end.y - start.y)) : 0;
  const plant = start ? plantOf(given, start.id) : (graph.axes.get(axis)?.plant ?? 0);
  return { axis, plant, order, length, chord, emergence: fromGravity(first), tip: fromGravity(last) };
}

function fromGravity(step: readonly [number, number] | null): number | null {
  return step === null ? null : (Math.atan2(Math.abs(step[0]), step[1]) * 180) / Math.PI;
}

const ratio = (a: number, b: number): number | null => (b > 0 ? a / b : null);

/** One row per plant, in mm if the scale is known. */
export function measurePlants(graph: Graph, pxPerMm: number | null = scaleOf(graph)): PlantMeasures[] {
  const members = new Map<number, NodeId[]>();
  graph.nodes.forEach(({ id }) => {
    const plant = plantOf(graph, id);
    const list = members.get(plant);
    if (list === undefined) members.set(plant, [id]);
    else list.push(id);
  });
  const byPlant = new Map<number, AxisLine[]>();
  for (const line of axisLines(graph)) byPlant.set(line.plant, [...(byPlant.get(line.plant) ?? []), line]);
  const scored = graph.file.keys.has("edge_score") || graph.nodes.values().some(({ edgeScore }) => edgeScore !== null);
  const { low_confidence_threshold: stated } = graph.metadata;
  const threshold = scored ? (typeof stated === "number" ? stated : LOW_CONFIDENCE_THRESHOLD) : null;
  return [...members.keys()]
    .sort((a, b) => a - b)
    .map((plant) => measurePlant(graph, plant, members.get(plant) ?? [], byPlant.get(plant) ?? [], threshold, pxPerMm));
}

function measurePlant(
  graph: Graph,
  plant: number,
  ids: readonly NodeId[],
  lines: readonly AxisLine[],
  threshold: number | null,
  pxPerMm: number | null,
): PlantMeasures {
  const scale = pxPerMm ?? 1;
  let [total, low, thick, thickLength, tips, branchPoints] = [0, 0, 0, 0, 0, 0];
  let [surface, volume, thickEdges] = [0, 0, 0];
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const id of ids) {
    const node = graph.node(id);
    [x0, x1, y0, y1] = [Math.min(x0, node.x), Math.max(x1, node.x), Math.min(y0, node.y), Math.max(y1, node.y)];
    const degree = graph.degree(id);
    if (degree >= 3) branchPoints++;
    if (node.parent === null) continue;
    if (degree === 1) tips++;
    const parent = graph.node(node.parent);
    const length = Math.hypot(node.x - parent.x, node.y - parent.y);
    total += length;
    if (threshold !== null && (node.edgeScore ?? 1) < threshold) low += length;
    if (node.radius !== null && parent.radius !== null) {
      const [a, b] = [node.radius, parent.radius];
      thick += (a + b) * length;
      thickLength += length;
      thickEdges++;
      // Each edge is the frustum of a cone.
      surface += Math.PI * (a + b) * Math.hypot(length, a - b);
      volume += (Math.PI / 3) * length * (a * a + a * b + b * b);
    }
  }
  const primary = lines.filter(({ order }) => order === 0);
  const lateral = lines.filter(({ order }) => order > 0);
  const sum = (list: readonly AxisLine[]): number => list.reduce((s, { length }) => s + length, 0);
  const main = primary.reduce<AxisLine | null>((best, line) => (best === null || line.length > best.length ? line : best), null);
  const angles = lateral.flatMap(({ emergence }) => (emergence === null ? [] : [emergence]));
  const hasRadius = graph.file.keys.has("radius") || thickLength > 0;
  const diameter = hasRadius ? ratio(thick, thickLength) : null;
  return {
    plant,
    unit: pxPerMm === null ? "px" : "mm",
    total_length: total / scale,
    primary_length: sum(primary) / scale,
    lateral_count: lateral.length,
    lateral_length: sum(lateral) / scale,
    lateral_length_mean: lateral.length > 0 ? sum(lateral) / lateral.length / scale : null,
    tip_count: tips,
    branch_point_count: branchPoints,
    max_order: Math.max(0, ...lines.map(({ order }) => order)),
    depth: (y1 - y0) / scale,
    width: (x1 - x0) / scale,
    convex_hull_area: convexHullArea(ids.map((id) => graph.node(id))) / (scale * scale),
    mean_diameter: diameter === null ? null : diameter / scale,
    surface_area: thickEdges > 0 ? surface / scale ** 2 : null,
    volume: thickEdges > 0 ? volume / scale ** 3 : null,
    main_curve_index: main === null ? null : ratio(main.length - main.chord, main.length),
    lateral_emergence_angle_mean: angles.length > 0 ? angles.reduce((s, a) => s + a, 0) / angles.length : null,
    low_confidence_length_fraction: threshold === null ? null : ratio(low, total),
  };
}

/** The values of one axis, null if there is no such axis. Inferred axes are numbered as in `withAxes`. */
export function measureAxis(graph: Graph, axis: AxisId, pxPerMm: number | null = scaleOf(graph)): AxisMeasures | null {
  const line = axisLines(graph).find((one) => one.axis === axis);
  if (line === undefined) return null;
  const { axes } = withAxes(graph);
  const scale = pxPerMm ?? 1;
  const { label } = axes.get(axis)?.record ?? {};
  return {
    axis,
    unit: pxPerMm === null ? "px" : "mm",
    label: typeof label === "string" ? label : "",
    plant: line.plant,
    order: line.order,
    length: line.length / scale,
    chord_length: line.chord / scale,
    curve_index: ratio(line.length - line.chord, line.length),
    emergence_angle: line.emergence,
    tip_angle: line.tip,
    lateral_count: [...axes.values()].filter(({ parent }) => parent === axis).length,
  };
}

/** The axis that a node belongs to: that of its parent edge, at a root that of its first child; null if it has none. */
export function axisOfNode(given: Graph, id: NodeId): AxisId | null {
  const graph = withAxes(given);
  const own = graph.node(id).axis;
  if (own !== null) return own;
  for (const child of graph.children(id)) {
    const { axis } = graph.node(child);
    if (axis !== null) return axis;
  }
  return null;
}
