// The points of an axis in a file and its path in the graph, which may hold junctions that a reader added.

import type { Axis, AxisId, Graph, NodeId } from "./graph.ts";

/** Points of an axis as they are written: its path without the junctions that a reader added. */
export function axisPoints(graph: Graph, id: AxisId): readonly NodeId[] {
  const axis = graph.axes.get(id) as Axis;
  const path = graph.path(id);
  if (axis.verbatim !== null && sameIds(axis.verbatim.path, path)) {
    return axis.verbatim.points.filter((point) => graph.has(point));
  }
  return path.filter((node) => !axis.skipped.has(node));
}

/** Note in each axis how the points of the file differ from its path, so that `axisPoints` returns them again. */
export function withPoints(graph: Graph, rows: readonly (readonly NodeId[])[]): Graph {
  if (rows.length === 0) return graph;
  const axes = new Map(graph.axes);
  rows.forEach((points, id) => {
    const axis = axes.get(id) as Axis;
    const path = graph.path(id);
    if (sameIds(points, path)) return;
    const inPoints = new Set(points);
    const skipped = new Set(path.filter((node) => !inPoints.has(node)));
    if (sameIds(points, path.filter((node) => inPoints.has(node))) && points.length > 0) axes.set(id, { ...axis, skipped });
    else axes.set(id, { ...axis, verbatim: { points, path } });
  });
  return graph.with({ axes }, true);
}

/**
 * Samples at the points of an axis. New points are interpolated along the axis; beyond the known ones they have the value
 * of the nearest one, because RSML cannot leave a sample out.
 */
export function samplesAt(
  graph: Graph,
  points: readonly NodeId[],
  values: ReadonlyMap<NodeId, number | null>,
): (number | null)[] {
  const samples = points.map((point) => values.get(point));
  const distance = [0];
  for (let k = 1; k < points.length; k++) {
    const [a, b] = [graph.node(points[k - 1] as NodeId), graph.node(points[k] as NodeId)];
    distance.push((distance[k - 1] as number) + Math.hypot(a.x - b.x, a.y - b.y));
  }
  return samples.map((value, k) => {
    if (value !== undefined) return value;
    let low = k;
    let high = k;
    while (low >= 0 && samples[low] === undefined) low--;
    while (high < samples.length && samples[high] === undefined) high++;
    const a = low < 0 ? samples[high] : samples[low];
    const b = high >= samples.length ? a : samples[high];
    if (typeof a !== "number" || typeof b !== "number") return null;
    const [from, to] = [distance[low] ?? 0, distance[high] ?? 0];
    return low >= 0 && to > from ? a + ((b - a) * ((distance[k] as number) - from)) / (to - from) : a;
  });
}

function sameIds(a: readonly NodeId[], b: readonly NodeId[]): boolean {
  return a.length === b.length && a.every((id, k) => id === b[k]);
}
