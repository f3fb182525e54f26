// A document of the native format to a graph.

import { isChain, newAxis, repairAxes } from "../axes.ts";
import { withPoints } from "../axispoints.ts";
import { Graph, SOURCES } from "../graph.ts";
import type { Axis, AxisFunction, Json, JsonObject, Node, NodeId, Source } from "../graph.ts";
import { Vector } from "../vector.ts";
import { fail, index, integer, isObject, list, number, object, sized, text } from "./checks.ts";
import { FORMAT, KNOWN, MAX_PX, VERSION } from "./format.ts";
import type { EditorInfo } from "./format.ts";

/** A document that was read. */
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
