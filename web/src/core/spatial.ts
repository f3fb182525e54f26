// A grid over the nodes and edges of a graph: what is near a point. Built on demand, once per graph.

import { isInPolygon, nearestOnSegment } from "./geometry.ts";
import type { XY } from "./geometry.ts";
import type { Graph, Node, NodeId } from "./graph.ts";

export type Hit =
  | { readonly kind: "node"; readonly id: NodeId; readonly distance: number }
  | { readonly kind: "edge"; readonly id: NodeId; readonly distance: number; readonly at: XY; readonly t: number };

export type Filter = (id: NodeId) => boolean;

const LEAST_CELL = 16;
const MOST_CELLS = 1 << 16;

/** A grid over the nodes and edges of one graph, for hits and nearest nodes. */
export class SpatialIndex {
  private readonly cell: number;
  private readonly x0: number;
  private readonly y0: number;
  private readonly columns: number;
  private readonly rows: number;
  private readonly nodesAt = new Map<number, NodeId[]>();
  private readonly edgesAt = new Map<number, NodeId[]>();

  constructor(private readonly graph: Graph) {
    let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
    graph.nodes.forEach(({ x, y }) => {
      [x0, y0, x1, y1] = [Math.min(x0, x), Math.min(y0, y), Math.max(x1, x), Math.max(y1, y)];
    });
    const [width, height] = graph.size > 0 ? [x1 - x0, y1 - y0] : [0, 0];
    [this.x0, this.y0] = graph.size > 0 ? [x0, y0] : [0, 0];
    const area = Math.max(1, width) * Math.max(1, height);
    this.cell = Math.max(LEAST_CELL, Math.sqrt(area / Math.max(1, graph.size)), Math.sqrt(area / MOST_CELLS), width / 4096, height / 4096);
    this.columns = Math.floor(width / this.cell) + 1;
    this.rows = Math.floor(height / this.cell) + 1;
    graph.nodes.forEach((node) => {
      push(this.nodesAt, this.key(this.column(node.x), this.row(node.y)), node.id);
      if (node.parent !== null) this.addEdge(node, graph.node(node.parent));
    });
  }

  private column(x: number): number {
    return Math.min(this.columns - 1, Math.max(0, Math.floor((x - this.x0) / this.cell)));
  }

  private row(y: number): number {
    return Math.min(this.rows - 1, Math.max(0, Math.floor((y - this.y0) / this.cell)));
  }

  private key(column: number, row: number): number {
    return row * this.columns + column;
  }

  private addEdge(a: Node, b: Node): void {
    // Column by column: the rows that the segment covers there.
    const [left, right] = a.x <= b.x ? [a, b] : [b, a];
    const slope = right.x > left.x ? (right.y - left.y) / (right.x - left.x) : 0;
    const [first, last] = [this.column(left.x), this.column(right.x)];
    for (let column = first; column <= last; column++) {
      const from = column === first ? left.x : this.x0 + column * this.cell;
      const to = column === last ? right.x : this.x0 + (column + 1) * this.cell;
      const ys = first === last ? [left.y, right.y] : [left.y + slope * (from - left.x), left.y + slope * (to - left.x)];
      const [low, high] = [this.row(Math.min(...ys)), this.row(Math.max(...ys))];
      for (let row = low; row <= high; row++) push(this.edgesAt, this.key(column, row), a.id);
    }
  }

  private near(items: ReadonlyMap<number, NodeId[]>, p: XY, reach: number, visit: (id: NodeId) => void): void {
    // Nothing lies outside the grid, so clamped cells contain everything within reach.
    const [left, right] = [this.column(p.x - reach), this.column(p.x + reach)];
    const [top, bottom] = [this.row(p.y - reach), this.row(p.y + reach)];
    for (let row = top; row <= bottom; row++) {
      for (let column = left; column <= right; column++) items.get(this.key(column, row))?.forEach(visit);
    }
  }

  /** The nearest node within a distance, px. Ties go to the lower id. */
  nearestNode(p: XY, within: number, filter: Filter = () => true): Hit | null {
    let best: Hit | null = null;
    this.near(this.nodesAt, p, within, (id) => {
      const node = this.graph.node(id);
      const distance = Math.hypot(node.x - p.x, node.y - p.y);
      if (distance > within || !filter(id)) return;
      if (best === null || distance < best.distance || (distance === best.distance && id < best.id)) {
        best = { kind: "node", id, distance };
      }
    });
    return best;
  }

  /** The nearest edge within a distance, px, named by its child. */
  nearestEdge(p: XY, within: number, filter: Filter = () => true): Extract<Hit, { kind: "edge" }> | null {
    let best: Extract<Hit, { kind: "edge" }> | null = null;
    this.near(this.edgesAt, p, within, (id) => {
      const node = this.graph.node(id);
      if (node.parent === null || !filter(id)) return;
      const { x, y, t, distance } = nearestOnSegment(p, this.graph.node(node.parent), node);
      if (distance > within) return;
      if (best === null || distance < best.distance || (distance === best.distance && id < best.id)) {
        best = { kind: "edge", id, distance, at: { x, y }, t };
      }
    });
    return best;
  }

  /** What a click hits: a node within the tolerance, otherwise an edge. */
  hit(p: XY, tolerance: number, filter: Filter = () => true): Hit | null {
    return this.nearestNode(p, tolerance, filter) ?? this.nearestEdge(p, tolerance, filter);
  }
}

function push(map: Map<number, NodeId[]>, key: number, id: NodeId): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [id]);
  else list.push(id);
}

const indices = new WeakMap<Graph, SpatialIndex>();

/** The index of a graph; built at the first call. */
export function spatialIndex(graph: Graph): SpatialIndex {
  let index = indices.get(graph);
  if (index === undefined) {
    index = new SpatialIndex(graph);
    indices.set(graph, index);
  }
  return index;
}

/** Nodes inside a closed outline. */
export function nodesInPolygon(graph: Graph, outline: readonly XY[]): NodeId[] {
  return graph.nodes.values().filter((node) => isInPolygon(node, outline)).map(({ id }) => id);
}
