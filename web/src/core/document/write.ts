// A graph to a document of the native format.

import { axisPoints, samplesAt } from "../axispoints.ts";
import type { Axis, AxisId, Graph, Json, JsonObject, Node, NodeId } from "../graph.ts";
import { isObject } from "./checks.ts";
import { FORMAT, VERSION } from "./format.ts";
import type { EditorInfo, SkeletonDocument } from "./format.ts";

/** Write a document. With `info`, `metadata.editor` is written, with one source per node and edge. */
export function toDocument(graph: Graph, info: EditorInfo | null = null): SkeletonDocument {
  const { keys } = graph.file;
  const nodes = graph.nodes.values();
  const position = new Map(nodes.map((node, k) => [node.id, k]));
  const at = (id: NodeId): number => position.get(id) as number;
  const edges = fileEdges(graph);
  const childOf = edges.map(([u, v]) => graph.node(graph.node(v).parent === u ? v : u));

  const document: { [key: string]: Json } = { format: FORMAT, version: VERSION };
  if (graph.imageName !== null) document.image_name = graph.imageName;
  if (graph.imageSize !== null) document.image_size = graph.imageSize;
  document.nodes = nodes.map(({ x, y }) => [x, y]);
  document.edges = edges.map(([u, v]) => [at(u), at(v)]);
  const roots = statedRoots(graph).map(at);
  if (keys.has("roots") || roots.length > 0) document.roots = roots;
  if (keys.has("radius") || nodes.some(({ radius }) => radius !== null)) document.radius = nodes.map(({ radius }) => radius);
  // A score is required for each node or for none. What a person drew counts as certain.
  if (keys.has("node_score") || nodes.some(({ score }) => score !== null)) {
    document.node_score = nodes.map(({ score }) => score ?? 1);
  }
  if (keys.has("edge_score") || childOf.some(({ edgeScore }) => edgeScore !== null)) {
    document.edge_score = childOf.map(({ edgeScore }) => edgeScore ?? 1);
  }
  if (graph.explicitPlants) document.plant = nodes.map(({ plant }) => plant ?? 0);
  if (keys.has("plants") || graph.plants.length > 0) document.plants = graph.plants;
  if (graph.explicitAxes && (keys.has("axes") || graph.axes.size > 0)) {
    const axisAt = new Map([...graph.axes.keys()].sort((a, b) => a - b).map((id, k) => [id, k]));
    document.axes = [...axisAt.keys()].map((id) => writeAxis(graph, id, at, axisAt));
    document.edge_axis = childOf.map(({ axis }) => (axis === null ? -1 : (axisAt.get(axis) as number)));
  }
  const metadata = writeMetadata(graph, nodes, childOf, info);
  if (keys.has("metadata") || Object.keys(metadata).length > 0) document.metadata = metadata;
  return { ...document, ...graph.file.unknown };
}

/** The edges in the order of the file that was read, then new ones as (parent, child) by child. */
function fileEdges(graph: Graph): [NodeId, NodeId][] {
  const isEdge = (u: NodeId, v: NodeId): boolean => {
    const [a, b] = [graph.get(u), graph.get(v)];
    return a !== undefined && b !== undefined && (a.parent === v || b.parent === u);
  };
  const edges: [NodeId, NodeId][] = [];
  const written = new Set<NodeId>();
  for (const [u, v] of graph.file.edges) {
    if (!isEdge(u, v)) continue;
    edges.push([u, v]);
    written.add(graph.node(v).parent === u ? v : u);
  }
  graph.nodes.forEach(({ id, parent }) => {
    if (parent !== null && !written.has(id)) edges.push([parent, id]);
  });
  return edges;
}

function statedRoots(graph: Graph): readonly NodeId[] {
  if (graph.assumedRoots.size === 0) return graph.roots;
  // A reader takes the first node of a component without a root. If that is another one, the root has to be stated.
  const lowest = new Map<NodeId, NodeId>();
  graph.nodes.forEach(({ id }) => {
    const root = graph.rootOf(id);
    if (!lowest.has(root)) lowest.set(root, id);
  });
  return graph.roots.filter((root) => !graph.assumedRoots.has(root) || lowest.get(root) !== root);
}

function writeAxis(graph: Graph, id: AxisId, at: (id: NodeId) => number, axisAt: ReadonlyMap<AxisId, number>): JsonObject {
  const axis = graph.axes.get(id) as Axis;
  const points = axisPoints(graph, id);
  const parent = axis.parent === null ? null : (axisAt.get(axis.parent) ?? null);
  const row: { [key: string]: Json } = { ...axis.record, nodes: points.map(at) };
  if (parent !== null || !axis.omitted.has("parent")) row.parent = parent;
  if (axis.plant !== 0 || !axis.omitted.has("plant")) row.plant = axis.plant;
  if (axis.functions !== null) {
    row.functions = axis.functions.map(({ raw, values }) =>
      values === null ? raw : { ...raw, samples: samplesAt(graph, points, values) },
    );
  }
  return row;
}

function writeMetadata(graph: Graph, nodes: readonly Node[], childOf: readonly Node[], info: EditorInfo | null): JsonObject {
  const { metadata } = graph;
  const old = isObject(metadata.editor) ? metadata.editor : null;
  if (info === null && old === null && (graph.pxPerMm === null || "editor" in metadata)) return metadata;
  const editor: { [key: string]: Json } = { ...(old ?? {}) };
  if (info !== null || "node_source" in editor) editor.node_source = nodes.map(({ source }) => source.node);
  if (info !== null || "edge_source" in editor) editor.edge_source = childOf.map(({ source }) => source.edge);
  if (info !== null) {
    const { seconds, actions, accepted, model } = info;
    Object.assign(editor, { seconds, actions, accepted, model });
  }
  if (info !== null || "px_per_mm" in editor || graph.pxPerMm !== null) editor.px_per_mm = graph.pxPerMm;
  return { ...metadata, editor };
}
