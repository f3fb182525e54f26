// The native JSON format ("treeformer-skeleton", version 1) to a Graph and back. The round trip is exact.

import { isChain, newAxis, repairAxes } from "./axes.ts";
import { Graph, SOURCES, deriveTopology } from "./graph.ts";
import type { Axis, AxisFunction, AxisId, Json, JsonObject, Node, NodeId, Source } from "./graph.ts";
import { Vector } from "./vector.ts";

export const FORMAT = "treeformer-skeleton";
export const VERSION = 1;
/** Greatest coordinate, radius and image side, px, as in Python. */
export const MAX_PX = 1e7;

/** A document of the native format. */
export type SkeletonDocument = JsonObject;

/** What `metadata.editor` says of the work on a document; sources and scale are part of the graph. */
export interface EditorInfo {
  readonly seconds: number;
  readonly actions: number;
  readonly accepted: boolean;
  readonly model: { readonly name: string; readonly version: string; readonly hash: string } | null;
}

export const NO_WORK: EditorInfo = { seconds: 0, actions: 0, accepted: false, model: null };

/** A document that cannot be read. The message names the place, as in `nodes[3]`. */
export class DocumentError extends Error {
  override readonly name = "DocumentError";
}

export interface Loaded {
  readonly graph: Graph;
  readonly info: EditorInfo;
  /** Sentences on what had to be changed, empty for nearly all files. */
  readonly notes: readonly string[];
}

/** Read a document. Raise DocumentError if it is invalid or has a cycle. */
export function fromDocument(document: unknown): Graph {
  return loadDocument(document).graph;
}

/** Read a document together with what the editor recorded in it. */
export function loadDocument(document: unknown): Loaded {
  const top = object(document, "the document");
  if (top.format !== FORMAT) fail(`format is ${JSON.stringify(top.format)}, not "${FORMAT}"`);
  if (top.version !== VERSION) fail(`version is ${JSON.stringify(top.version)}: this editor reads version ${VERSION}`);
  const keys = new Set(Object.keys(top));
  const unknown = Object.fromEntries(Object.entries(top).filter(([key]) => !KNOWN.has(key)));
  const points = list(top.nodes, "nodes").map((point, k) => {
    const pair = list(point, `nodes[${k}]`);
    if (pair.length !== 2) fail(`nodes[${k}] must be two numbers`);
    return pair.map((value) => number(value, `nodes[${k}]`, -MAX_PX, MAX_PX)) as [number, number];
  });
  const count = points.length;
  const edges = readEdges(top.edges, count);
  const forest = orient(edges, count, readRoots(top.roots, count));

  const perNode = (key: string): Json[] | null => (key in top ? sized(list(top[key], key), count, key) : null);
  const perEdge = (key: string): Json[] | null => (key in top ? sized(list(top[key], key), edges.length, key) : null);
  const radius = perNode("radius")?.map((v, k) => (v === null ? null : number(v, `radius[${k}]`, 0, MAX_PX)));
  const score = perNode("node_score")?.map((v, k) => number(v, `node_score[${k}]`));
  const edgeScore = perEdge("edge_score")?.map((v, k) => number(v, `edge_score[${k}]`));
  const plant = perNode("plant")?.map((v, k) => index(v, `plant[${k}]`));
  const plants = "plants" in top ? list(top.plants, "plants").map((v, k) => object(v, `plants[${k}]`)) : [];
  const hasAxes = "axes" in top;
  if (hasAxes !== "edge_axis" in top) fail("axes and edge_axis must be given together");
  const axisRows = hasAxes ? list(top.axes, "axes").map((v, k) => readAxis(object(v, `axes[${k}]`), `axes[${k}]`, count)) : [];
  const edgeAxis = perEdge("edge_axis")?.map((v, k) => {
    const axis = integer(v, `edge_axis[${k}]`);
    if (axis < -1 || axis >= axisRows.length) fail(`edge ${k} is on axis ${axis}, but there are ${axisRows.length} axes`);
    return axis < 0 ? null : axis;
  });
  axisRows.forEach(({ axis }, k) => {
    if (axis.parent !== null && axis.parent >= axisRows.length) fail(`axis ${k} has parent ${axis.parent}, which does not exist`);
  });
  const metadata = "metadata" in top ? object(top.metadata, "metadata") : {};
  const editor = isObject(metadata.editor) ? metadata.editor : {};
  const fallback: Source = (score ?? edgeScore) !== undefined && "model" in metadata ? "predicted" : "imported";
  const nodeSource = readSources(editor.node_source, count, fallback);
  const edgeSource = readSources(editor.edge_source, edges.length, fallback);

  const nodes: [NodeId, Node][] = points.map(([x, y], id) => {
    const edge = forest.edge[id] as number;
    const isRoot = edge < 0;
    const own = nodeSource[id] as Source;
    return [
      id,
      {
        id,
        x,
        y,
        parent: isRoot ? null : (forest.parent[id] as number),
        plant: plant?.[id] ?? null,
        axis: isRoot ? null : (edgeAxis?.[edge] ?? null),
        radius: radius?.[id] ?? null,
        score: score?.[id] ?? null,
        edgeScore: isRoot ? null : (edgeScore?.[edge] ?? null),
        source: { node: own, edge: isRoot ? own : (edgeSource[edge] as Source) },
      },
    ];
  });
  const plain = Graph.empty({
    nodes: Vector.empty<Node>().update(nodes),
    nextNode: count,
    axes: new Map(axisRows.map(({ axis }, k) => [k, axis])),
    nextAxis: axisRows.length,
    explicitAxes: hasAxes || count === 0,
    explicitPlants: plant !== undefined,
    plants,
    assumedRoots: new Set(forest.assumed),
    imageName: "image_name" in top ? text(top.image_name, "image_name") : null,
    imageSize: "image_size" in top ? readSize(top.image_size) : null,
    pxPerMm: typeof editor.px_per_mm === "number" && editor.px_per_mm > 0 ? editor.px_per_mm : null,
    metadata,
    file: { edges, keys, unknown },
  });
  const notes: string[] = [];
  const broken = [...plain.topology.paths.values()].filter((path) => !isChain(plain, path)).length;
  if (broken > 0) notes.push(`${broken} of the axes were not one path from base to tip and were split.`);
  const whole = repairAxes(plain, null);
  if (broken === 0 && whole.axes !== plain.axes) fail("an axis is its own ancestor");
  return { graph: withPoints(whole, axisRows.map((row) => row.nodes)), info: readInfo(editor), notes };
}

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
export function fileEdges(graph: Graph): [NodeId, NodeId][] {
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

/** Points of an axis as they are written: its path without the junctions that a reader added. */
export function axisPoints(graph: Graph, id: AxisId): readonly NodeId[] {
  const axis = graph.axes.get(id) as Axis;
  const path = graph.path(id);
  if (axis.verbatim !== null && sameIds(axis.verbatim.path, path)) {
    return axis.verbatim.points.filter((point) => graph.has(point));
  }
  return path.filter((node) => !axis.skipped.has(node));
}

const KNOWN = new Set([
  "format", "version", "image_name", "image_size", "nodes", "edges", "roots", "radius", "node_score", "edge_score",
  "plant", "plants", "axes", "edge_axis", "metadata",
]);

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

/** Samples at the points of an axis. New points are interpolated along the axis; beyond the known ones, null. */
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
    const [a, b] = [samples[low], samples[high]];
    if (typeof a !== "number" || typeof b !== "number") return null;
    const [from, to] = [distance[low] as number, distance[high] as number];
    return to > from ? a + ((b - a) * ((distance[k] as number) - from)) / (to - from) : a;
  });
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

// ---- reading ------------------------------------------------------------------------------------

function readEdges(value: unknown, count: number): [number, number][] {
  const seen = new Map<number, number>();
  return list(value, "edges").map((row, k) => {
    const pair = list(row, `edges[${k}]`);
    if (pair.length !== 2) fail(`edges[${k}] must be two node indices`);
    const [u, v] = pair.map((end) => index(end, `edges[${k}]`)) as [number, number];
    const missing = u >= count ? u : v;
    if (missing >= count) fail(`edge ${k} (${u}, ${v}) refers to node ${missing}, but there are ${count} nodes`);
    if (u === v) fail(`edge ${k} joins node ${u} to itself`);
    const code = Math.min(u, v) * count + Math.max(u, v);
    const first = seen.get(code);
    if (first !== undefined) fail(`edge ${k} (${u}, ${v}) repeats edge ${first}`);
    seen.set(code, k);
    return [u, v];
  });
}

function readRoots(value: unknown, count: number): number[] {
  if (value === undefined) return [];
  return list(value, "roots").map((entry, k) => {
    const root = index(entry, `roots[${k}]`);
    if (root >= count) fail(`root ${root} is not a node: there are ${count} nodes`);
    return root;
  });
}

/** Direct edges away from the roots. A component without a root begins at its lowest node. */
function orient(edges: readonly [number, number][], count: number, roots: readonly number[]) {
  const neighbors: [number, number][][] = Array.from({ length: count }, () => []);
  edges.forEach(([u, v], edge) => {
    (neighbors[u] as [number, number][]).push([v, edge]);
    (neighbors[v] as [number, number][]).push([u, edge]);
  });
  const parent = new Array<number>(count).fill(-1);
  const edge = new Array<number>(count).fill(-1);
  const rootOf = new Array<number>(count).fill(-1);
  const isRoot = new Set(roots);
  const visit = (root: number): void => {
    rootOf[root] = root;
    const queue = [root];
    for (let at = 0; at < queue.length; at++) {
      const node = queue[at] as number;
      for (const [next, via] of neighbors[node] as [number, number][]) {
        if (via === edge[node]) continue;
        if (rootOf[next] !== -1) fail(`node ${next} is on a cycle; the editor works on trees`);
        if (isRoot.has(next)) fail(`nodes ${root} and ${next} are both roots of one connected component`);
        [parent[next], edge[next], rootOf[next]] = [node, via, root];
        queue.push(next);
      }
    }
  };
  for (const root of isRoot) visit(root);
  const assumed: number[] = [];
  for (let node = 0; node < count; node++) {
    if (rootOf[node] !== -1) continue;
    assumed.push(node);
    visit(node);
  }
  return { parent, edge, assumed };
}

interface AxisRow {
  readonly axis: Axis;
  readonly nodes: readonly NodeId[];
}

function readAxis(row: JsonObject, place: string, count: number): AxisRow {
  const { nodes: given, parent, plant, functions, ...record } = row;
  const nodes = list(given, `${place}.nodes`).map((entry) => {
    const node = index(entry, `${place}.nodes`);
    if (node >= count) fail(`${place} goes through node ${node}, which does not exist`);
    return node;
  });
  const omitted = new Set((["parent", "plant"] as const).filter((key) => !(key in row)));
  const unique = new Set(nodes).size === nodes.length;
  const axis = newAxis({
    parent: parent === undefined || parent === null ? null : index(parent, `${place}.parent`),
    plant: plant === undefined ? 0 : index(plant, `${place}.plant`),
    functions:
      functions === undefined
        ? null
        : list(functions, `${place}.functions`).map((entry, k) =>
            readFunction(object(entry, `${place}.functions[${k}]`), `${place}.functions[${k}]`, unique ? nodes : null),
          ),
    omitted,
    record,
  });
  return { axis, nodes };
}

function readFunction(row: JsonObject, place: string, nodes: readonly NodeId[] | null): AxisFunction {
  text(row.name, `${place}.name`);
  const samples = list(row.samples, `${place}.samples`).map((v, k) => (v === null ? null : number(v, `${place}.samples[${k}]`)));
  const byPoint = (row.domain ?? "polyline") === "polyline" && (row.positions ?? null) === null;
  if (!byPoint || nodes === null || samples.length !== nodes.length) return { raw: row, values: null };
  return { raw: row, values: new Map(nodes.map((node, k) => [node, samples[k] as number | null])) };
}

/** Compare the points of the file with the paths in the graph, and note the differences. */
function withPoints(graph: Graph, rows: readonly (readonly NodeId[])[]): Graph {
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

function readSources(value: Json | undefined, count: number, fallback: Source): Source[] {
  const given = Array.isArray(value) && value.length === count ? value : null;
  return Array.from({ length: count }, (_, k) => {
    const word = given?.[k];
    return SOURCES.find((source) => source === word) ?? fallback;
  });
}

function readInfo(editor: JsonObject): EditorInfo {
  const { model } = editor;
  const word = (value: Json | undefined): string => (typeof value === "string" ? value : "");
  return {
    seconds: typeof editor.seconds === "number" ? editor.seconds : 0,
    actions: typeof editor.actions === "number" ? editor.actions : 0,
    accepted: editor.accepted === true,
    model: isObject(model) ? { name: word(model.name), version: word(model.version), hash: word(model.hash) } : null,
  };
}

function readSize(value: unknown): [number, number] {
  const pair = list(value, "image_size").map((side) => index(side, "image_size"));
  if (pair.length !== 2 || pair.some((side) => side < 1 || side > MAX_PX)) fail("image_size must be width and height, px");
  return pair as [number, number];
}

// ---- checks -------------------------------------------------------------------------------------

function fail(message: string): never {
  throw new DocumentError(message);
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function object(value: unknown, place: string): JsonObject {
  return isObject(value) ? value : fail(`${place} must be an object`);
}

function list(value: unknown, place: string): Json[] {
  if (value === undefined) fail(`${place} are missing`);
  return Array.isArray(value) ? (value as Json[]) : fail(`${place} must be a list`);
}

function sized(values: Json[], count: number, place: string): Json[] {
  return values.length === count ? values : fail(`${place} has ${values.length} entries, not ${count}`);
}

function number(value: unknown, place: string, least = -Infinity, most = Infinity): number {
  if (typeof value !== "number" || !Number.isFinite(value)) return fail(`${place} must be a number`);
  return value >= least && value <= most ? value : fail(`${place} is ${value}`);
}

function integer(value: unknown, place: string): number {
  return Number.isSafeInteger(value) ? (value as number) : fail(`${place} must be a whole number`);
}

function index(value: unknown, place: string): number {
  const entry = integer(value, place);
  return entry >= 0 ? entry : fail(`${place} is ${entry}`);
}

function text(value: unknown, place: string): string {
  return typeof value === "string" ? value : fail(`${place} must be text`);
}

function sameIds(a: readonly NodeId[], b: readonly NodeId[]): boolean {
  return a.length === b.length && a.every((id, k) => id === b[k]);
}

/** Raise an error if a graph is not a valid forest with valid axes. For tests and before saving. */
export function checkGraph(graph: Graph): void {
  const topology = deriveTopology(graph.nodes);
  for (const [id, path] of topology.paths) {
    if (!graph.axes.has(id)) throw new Error(`axis ${id} has no record`);
    if (!isChain(graph, path)) throw new Error(`axis ${id} is not one path`);
  }
  for (const root of topology.roots) {
    if (graph.node(root).axis !== null) throw new Error(`root ${root} has an axis`);
  }
  for (const [id, axis] of graph.axes) {
    if (axis.parent !== null && !graph.axes.has(axis.parent)) throw new Error(`axis ${id} has no parent ${axis.parent}`);
    const seen = new Set<AxisId>();
    for (let at: AxisId | null = id; at !== null; at = graph.axes.get(at)?.parent ?? null) {
      if (seen.has(at)) throw new Error(`axis ${id} is its own ancestor`);
      seen.add(at);
    }
  }
}
