/** A skeleton as flat arrays, grouped by how its edges are drawn. Built once per change, not per frame. */

import {
  confidenceColor,
  confidenceStep,
  identityColor,
  orderColor,
  plantColor,
  UNKNOWN,
} from "./palette";
import type { Box } from "./view";

export interface SceneNode {
  readonly id: number;
  readonly x: number;
  readonly y: number;
  readonly parent: number | null;
  readonly plant: number;
  readonly axis: number | null;
  readonly radius: number | null;
  readonly edgeScore: number | null;
  /** Identifier of the axis; needed to color by it. */
  readonly identity?: string | undefined;
}

export type ColorBy = "confidence" | "plant" | "order" | "axis";

export interface SceneOptions {
  colorBy: ColorBy;
  widthByRadius: boolean;
  /** Edges with a lower score are dashed. */
  lowThreshold: number;
}

export const enum Kind {
  Through,
  Branch,
  Tip,
  Root,
}

/** Edges that share color, width and dash. `edges` holds indices of child nodes. */
export interface Bucket {
  color: string;
  /** Diameter in px of the image; 0 for a line of constant width on the screen. */
  diameter: number;
  dashed: boolean;
  edges: number[];
}

export interface Scene {
  readonly ids: readonly number[];
  readonly index: ReadonlyMap<number, number>;
  readonly x: Float64Array;
  readonly y: Float64Array;
  /** Index of the parent, −1 for roots. */
  readonly parent: Int32Array;
  readonly kind: Uint8Array;
  readonly order: Uint8Array;
  readonly buckets: readonly Bucket[];
  /** Node color by index, for markers. */
  readonly color: readonly string[];
  readonly box: Box | null;
}

/** Branching order of the edge above each node, by index: 0 on axes that begin at a root. */
export function branchingOrders(nodes: readonly SceneNode[], parent: Int32Array): Uint8Array {
  const order = new Uint8Array(nodes.length);
  const state = new Uint8Array(nodes.length);
  const path: number[] = [];
  for (let start = 0; start < nodes.length; start++) {
    let i = start;
    while (i >= 0 && state[i] === 0) {
      path.push(i);
      state[i] = 1;
      i = parent[i]!;
    }
    for (let k = path.pop(); k !== undefined; k = path.pop()) {
      const p = parent[k]!;
      if (p >= 0 && parent[p]! >= 0) {
        const next = order[p]! + (nodes[k]!.axis === nodes[p]!.axis ? 0 : 1);
        order[k] = Math.min(255, next);
      }
    }
  }
  return order;
}

/** Round a diameter so that a few widths serve all edges (steps of 19 %). */
function quantized(diameter: number): number {
  return 2 ** (Math.round(Math.log2(diameter) * 4) / 4);
}

/** Sort nodes and edges into what the canvas draws. */
export function buildScene(nodes: readonly SceneNode[], options: SceneOptions): Scene {
  const count = nodes.length;
  const index = new Map<number, number>();
  nodes.forEach((node, i) => index.set(node.id, i));
  const x = new Float64Array(count);
  const y = new Float64Array(count);
  const parent = new Int32Array(count).fill(-1);
  const children = new Uint16Array(count);
  nodes.forEach((node, i) => {
    x[i] = node.x;
    y[i] = node.y;
    const p = node.parent === null ? -1 : (index.get(node.parent) ?? -1);
    parent[i] = p;
    if (p >= 0) children[p]!++;
  });
  const order = branchingOrders(nodes, parent);
  const kind = new Uint8Array(count);
  const color: string[] = [];
  const buckets = new Map<string, Bucket>();
  let box: Box | null = null;
  for (let i = 0; i < count; i++) {
    const node = nodes[i]!;
    const p = parent[i]!;
    kind[i] = p < 0 ? Kind.Root : children[i] === 0 ? Kind.Tip : children[i]! > 1 ? Kind.Branch : Kind.Through;
    color.push(edgeColor(node, order[i]!, options.colorBy));
    box ??= { x0: node.x, y0: node.y, x1: node.x, y1: node.y };
    box.x0 = Math.min(box.x0, node.x);
    box.y0 = Math.min(box.y0, node.y);
    box.x1 = Math.max(box.x1, node.x);
    box.y1 = Math.max(box.y1, node.y);
    if (p < 0) continue;
    const radius = options.widthByRadius ? meanRadius(node.radius, nodes[p]!.radius) : null;
    const diameter = radius === null || radius <= 0 ? 0 : quantized(2 * radius);
    const dashed = node.edgeScore !== null && node.edgeScore < options.lowThreshold;
    const key = `${color[i]}|${diameter}|${dashed}`;
    let bucket = buckets.get(key);
    if (!bucket) buckets.set(key, (bucket = { color: color[i]!, diameter, dashed, edges: [] }));
    bucket.edges.push(i);
  }
  // A root has no edge above it; its marker takes the color of its plant or of order 0.
  for (let i = 0; i < count; i++) {
    if (parent[i]! < 0 && options.colorBy === "confidence") color[i] = "#ffffff";
  }
  const sorted = [...buckets.values()].sort((a, b) => b.diameter - a.diameter || Number(a.dashed) - Number(b.dashed));
  return { ids: nodes.map((node) => node.id), index, x, y, parent, kind, order, buckets: sorted, color, box };
}

function meanRadius(a: number | null, b: number | null): number | null {
  if (a === null) return b;
  return b === null ? a : (a + b) / 2;
}

function edgeColor(node: SceneNode, order: number, colorBy: ColorBy): string {
  if (colorBy === "plant") return plantColor(node.plant);
  if (colorBy === "order") return orderColor(order);
  if (colorBy === "axis") return node.identity === undefined ? UNKNOWN : identityColor(node.identity);
  return node.edgeScore === null ? UNKNOWN : confidenceColor(confidenceStep(node.edgeScore));
}
