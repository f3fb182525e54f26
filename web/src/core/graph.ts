// The immutable graph that the editor works on: nodes with parent pointers, records of axes and plants.
//
// A node names its parent, so every graph without a cycle is a forest. The axis, the edge score and the source of the
// edge to the parent are stored at the child. Graphs share everything that an action does not change.

import { Vector } from "./vector.ts";

export type NodeId = number;
export type AxisId = number;

/** Where a node or an edge comes from. */
export type Source = "predicted" | "accepted" | "edited" | "drawn" | "traced" | "imported";

export const SOURCES: readonly Source[] = ["predicted", "accepted", "edited", "drawn", "traced", "imported"];

export interface Node {
  readonly id: NodeId;
  /** Position, px of the upright image; the center of the top left pixel is (0.5, 0.5). */
  readonly x: number;
  readonly y: number;
  /** The parent, null at the root of a tree. */
  readonly parent: NodeId | null;
  /** Index of the plant; null if the document does not number its plants (see `plantOf`). */
  readonly plant: number | null;
  /** Axis of the edge to the parent; null for none and at roots. */
  readonly axis: AxisId | null;
  /** Radius, px; null if unknown. */
  readonly radius: number | null;
  readonly score: number | null;
  /** Score of the edge to the parent; null if unknown and at roots. */
  readonly edgeScore: number | null;
  readonly source: { readonly node: Source; readonly edge: Source };
}

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/** Values along an axis. `values` holds one per node if the function has one sample per point, `raw` otherwise. */
export interface AxisFunction {
  readonly values: ReadonlyMap<NodeId, number | null> | null;
  readonly raw: JsonObject;
}

/** The record of an axis. Its nodes follow from the graph. */
export interface Axis {
  readonly parent: AxisId | null;
  readonly plant: number;
  /** Nodes of the path that are not points of the axis in the file: junctions that a reader added. */
  readonly skipped: ReadonlySet<NodeId>;
  /** The points of a file whose order does not follow the path; written as long as `path` is unchanged. */
  readonly verbatim: { readonly points: readonly NodeId[]; readonly path: readonly NodeId[] } | null;
  readonly functions: readonly AxisFunction[] | null;
  /** Keys that the file left out because they have their default value. */
  readonly omitted: ReadonlySet<"parent" | "plant">;
  /** id, label, accession, properties, metadata and unknown keys, as in the file. */
  readonly record: JsonObject;
}

/** What is derived from the parent pointers. Graphs that differ only in positions or scores share it. */
export interface Topology {
  /** Roots in ascending order. */
  readonly roots: readonly NodeId[];
  readonly children: ReadonlyMap<NodeId, readonly NodeId[]>;
  /** All nodes, parents before children, breadth first. */
  readonly order: readonly NodeId[];
  /** Root of the tree of each node. */
  readonly rootOf: ReadonlyMap<NodeId, NodeId>;
  /** The path of each axis that has an edge: the node where it is attached, then its nodes from base to tip. */
  readonly paths: ReadonlyMap<AxisId, readonly NodeId[]>;
}

export interface GraphFields {
  readonly nodes: Vector<Node>;
  readonly nextNode: NodeId;
  readonly axes: ReadonlyMap<AxisId, Axis>;
  readonly nextAxis: AxisId;
  /** True if the axes are stated. Otherwise they are inferred from the shape, as in Python. */
  readonly explicitAxes: boolean;
  /** True if nodes carry plant numbers. Otherwise each tree is a plant, numbered from left to right. */
  readonly explicitPlants: boolean;
  readonly plants: readonly JsonObject[];
  /** Roots of trees for which the file states no root. */
  readonly assumedRoots: ReadonlySet<NodeId>;
  readonly imageName: string | null;
  readonly imageSize: readonly [number, number] | null;
  /** Scale, px per mm; null if unknown. */
  readonly pxPerMm: number | null;
  readonly metadata: JsonObject;
  /** What is needed to write a document in the order in which it was read. */
  readonly file: FileOrder;
}

/** The order and the keys of the document that a graph was read from. */
export interface FileOrder {
  readonly edges: readonly (readonly [NodeId, NodeId])[];
  readonly keys: ReadonlySet<string>;
  readonly unknown: JsonObject;
}

const NO_CHILDREN: readonly NodeId[] = [];

/** An immutable forest. `with` returns a changed copy. */
export class Graph implements GraphFields {
  declare readonly nodes: Vector<Node>;
  declare readonly nextNode: NodeId;
  declare readonly axes: ReadonlyMap<AxisId, Axis>;
  declare readonly nextAxis: AxisId;
  declare readonly explicitAxes: boolean;
  declare readonly explicitPlants: boolean;
  declare readonly plants: readonly JsonObject[];
  declare readonly assumedRoots: ReadonlySet<NodeId>;
  declare readonly imageName: string | null;
  declare readonly imageSize: readonly [number, number] | null;
  declare readonly pxPerMm: number | null;
  declare readonly metadata: JsonObject;
  declare readonly file: FileOrder;
  private shape: Topology | null;

  private constructor(fields: GraphFields, shape: Topology | null) {
    this.nodes = fields.nodes;
    this.nextNode = fields.nextNode;
    this.axes = fields.axes;
    this.nextAxis = fields.nextAxis;
    this.explicitAxes = fields.explicitAxes;
    this.explicitPlants = fields.explicitPlants;
    this.plants = fields.plants;
    this.assumedRoots = fields.assumedRoots;
    this.imageName = fields.imageName;
    this.imageSize = fields.imageSize;
    this.pxPerMm = fields.pxPerMm;
    this.metadata = fields.metadata;
    this.file = fields.file;
    this.shape = shape;
  }

  /** A graph without nodes. */
  static empty(fields: Partial<GraphFields> = {}): Graph {
    return new Graph(
      {
        nodes: Vector.empty(),
        nextNode: 0,
        axes: new Map(),
        nextAxis: 0,
        explicitAxes: true,
        explicitPlants: false,
        plants: [],
        assumedRoots: new Set(),
        imageName: null,
        imageSize: null,
        pxPerMm: null,
        metadata: {},
        file: { edges: [], keys: new Set(), unknown: {} },
        ...fields,
      },
      null,
    );
  }

  /** A graph with some fields changed. The derived topology is kept if parents and axes of the nodes are the same. */
  with(changes: Partial<GraphFields>, keepTopology = false): Graph {
    const same = keepTopology || changes.nodes === undefined;
    return new Graph({ ...this.fields(), ...changes }, same ? this.shape : null);
  }

  private fields(): GraphFields {
    const { nodes, nextNode, axes, nextAxis, explicitAxes, explicitPlants, plants, assumedRoots } = this;
    const { imageName, imageSize, pxPerMm, metadata, file } = this;
    return {
      nodes, nextNode, axes, nextAxis, explicitAxes, explicitPlants, plants, assumedRoots,
      imageName, imageSize, pxPerMm, metadata, file,
    };
  }

  get size(): number {
    return this.nodes.size;
  }

  has(id: NodeId): boolean {
    return this.nodes.has(id);
  }

  get(id: NodeId): Node | undefined {
    return this.nodes.get(id);
  }

  /** The node; an error if there is none. */
  node(id: NodeId): Node {
    const node = this.nodes.get(id);
    if (node === undefined) throw new Error(`there is no node ${id}`);
    return node;
  }

  parent(id: NodeId): Node | null {
    const { parent } = this.node(id);
    return parent === null ? null : this.node(parent);
  }

  children(id: NodeId): readonly NodeId[] {
    return this.topology.children.get(id) ?? NO_CHILDREN;
  }

  get roots(): readonly NodeId[] {
    return this.topology.roots;
  }

  rootOf(id: NodeId): NodeId {
    const root = this.topology.rootOf.get(id);
    if (root === undefined) throw new Error(`there is no node ${id}`);
    return root;
  }

  degree(id: NodeId): number {
    return this.children(id).length + (this.node(id).parent === null ? 0 : 1);
  }

  /** The node and everything below it, parents before children. */
  subtree(id: NodeId): NodeId[] {
    const list = [id];
    for (let at = 0; at < list.length; at++) list.push(...this.children(list[at] as NodeId));
    return list;
  }

  /** The nodes from `id` to the root of its tree, both included. */
  ancestors(id: NodeId): NodeId[] {
    const list: NodeId[] = [];
    for (let at: NodeId | null = id; at !== null; at = this.node(at).parent) {
      list.push(at);
      if (list.length > this.size) throw new Error(`node ${id} is its own ancestor`);
    }
    return list;
  }

  /** True if `ancestor` is `id` or lies between it and its root. */
  isBelow(id: NodeId, ancestor: NodeId): boolean {
    for (let at: NodeId | null = id; at !== null; at = this.node(at).parent) if (at === ancestor) return true;
    return false;
  }

  /** The child along which the axis of a node's parent edge continues, null if it ends there. */
  continuation(id: NodeId): NodeId | null {
    const { axis } = this.node(id);
    if (axis === null) return null;
    return this.children(id).find((child) => this.node(child).axis === axis) ?? null;
  }

  /** Nodes of an axis from the attach point to the tip; empty if no edge has this axis. */
  path(axis: AxisId): readonly NodeId[] {
    return this.topology.paths.get(axis) ?? NO_CHILDREN;
  }

  get topology(): Topology {
    this.shape ??= deriveTopology(this.nodes);
    return this.shape;
  }
}

/** Derive children, roots and paths. Raise an error if a node is its own ancestor or a parent does not exist. */
export function deriveTopology(nodes: Vector<Node>): Topology {
  const children = new Map<NodeId, NodeId[]>();
  const roots: NodeId[] = [];
  nodes.forEach((node) => {
    if (node.parent === null) {
      roots.push(node.id);
      return;
    }
    if (!nodes.has(node.parent)) throw new Error(`the parent of node ${node.id} does not exist`);
    const siblings = children.get(node.parent);
    if (siblings === undefined) children.set(node.parent, [node.id]);
    else siblings.push(node.id);
  });
  const order = roots.slice();
  const rootOf = new Map<NodeId, NodeId>();
  for (const root of roots) rootOf.set(root, root);
  const paths = new Map<AxisId, NodeId[]>();
  for (let at = 0; at < order.length; at++) {
    const id = order[at] as NodeId;
    const root = rootOf.get(id) as NodeId;
    for (const child of children.get(id) ?? NO_CHILDREN) {
      order.push(child);
      rootOf.set(child, root);
      const { axis } = nodes.get(child) as Node;
      if (axis === null) continue;
      const path = paths.get(axis);
      if (path === undefined) paths.set(axis, [id, child]);
      else path.push(child);
    }
  }
  if (order.length !== nodes.size) {
    const reached = new Set(order);
    const lost = nodes.values().find((node) => !reached.has(node.id)) as Node;
    throw new Error(`node ${lost.id} is its own ancestor`);
  }
  return { roots, children, order, rootOf, paths };
}

/** Plant of each root's tree and of single nodes: the stated number, otherwise trees from left to right. */
export function plantOf(graph: Graph, id: NodeId): number {
  const { plant } = graph.node(id);
  return plant ?? plantRanks(graph).get(graph.rootOf(id)) ?? 0;
}

const ranks = new WeakMap<Graph, ReadonlyMap<NodeId, number>>();

/** Number of each tree from left to right by the position of its root (key: root). */
export function plantRanks(graph: Graph): ReadonlyMap<NodeId, number> {
  let known = ranks.get(graph);
  if (known === undefined) {
    const lowest = new Map<NodeId, NodeId>();
    graph.nodes.forEach(({ id }) => {
      const root = graph.rootOf(id);
      if (!lowest.has(root)) lowest.set(root, id);
    });
    const trees = [...lowest.keys()].sort(
      (a, b) => graph.node(a).x - graph.node(b).x || (lowest.get(a) as number) - (lowest.get(b) as number),
    );
    known = new Map(trees.map((root, rank) => [root, rank]));
    ranks.set(graph, known);
  }
  return known;
}
