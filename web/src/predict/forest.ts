// A decoded forest as plain arrays, with what post-processing asks of it.

import { argsort, components } from "./numeric.ts";
import type { Pair } from "./numeric.ts";
import type { Size } from "./tiles.ts";

export interface Forest {
  readonly x: readonly number[];
  readonly y: readonly number[];
  /** Nodes i < j, ascending. */
  readonly edges: readonly Pair[];
  /** At most one per tree, ascending. */
  readonly roots: readonly number[];
  readonly nodeScore: readonly number[];
  readonly edgeScore: readonly number[];
  /** px, NaN if unknown; null for a forest without radii. */
  readonly radius: readonly number[] | null;
  readonly imageSize: Size;
}

/** Whole trees of a forest. `keep` has one value per tree for all of its nodes. */
export function subgraph(forest: Forest, keep: readonly boolean[]): Forest {
  let count = 0;
  const index = keep.map((kept) => (kept ? count++ : -1));
  const pick = <T>(values: readonly T[]): T[] => values.filter((_, k) => keep[k]);
  const isKept = forest.edges.map(([u]) => keep[u] as boolean);
  return {
    ...forest,
    x: pick(forest.x),
    y: pick(forest.y),
    edges: forest.edges.filter((_, k) => isKept[k]).map(([u, v]): Pair => [index[u] as number, index[v] as number]),
    roots: forest.roots.filter((root) => keep[root]).map((root) => index[root] as number),
    nodeScore: pick(forest.nodeScore),
    edgeScore: forest.edgeScore.filter((_, k) => isKept[k]),
    radius: forest.radius === null ? null : pick(forest.radius),
  };
}

/** A breadth-first traversal from the roots, in the order of `treeformer.skeleton.traversal`. */
export interface Traversal {
  readonly component: readonly number[];
  /** Root of each component, its lowest node if it has none. */
  readonly componentRoot: readonly number[];
  readonly order: readonly number[];
  /** Parent of each node and the edge to it, −1 at roots. */
  readonly parent: readonly number[];
  readonly edge: readonly number[];
  /** Number of edges to the root. */
  readonly depth: readonly number[];
}

export function traverse(forest: Forest): Traversal {
  const count = forest.x.length;
  const component = components(forest.edges, count);
  const componentRoot: number[] = [];
  component.forEach((label, node) => (componentRoot[label] ??= node));
  for (const root of forest.roots) componentRoot[component[root] as number] = root;
  const outgoing: Pair[][] = Array.from({ length: count }, () => []);
  const incoming: Pair[][] = Array.from({ length: count }, () => []);
  const byEnds = argsort(forest.edges.length, (a, b) => {
    const [p, q] = [forest.edges[a] as Pair, forest.edges[b] as Pair];
    return p[0] - q[0] || p[1] - q[1];
  });
  for (const edge of byEnds) {
    const [u, v] = forest.edges[edge] as Pair;
    (outgoing[u] as Pair[]).push([v, edge]);
    (incoming[v] as Pair[]).push([u, edge]);
  }
  const order = [...componentRoot].sort((a, b) => a - b);
  const parent = new Array<number>(count).fill(-1);
  const edge = new Array<number>(count).fill(-1);
  const depth = new Array<number>(count).fill(0);
  for (let at = 0; at < order.length; at++) {
    const node = order[at] as number;
    for (const [next, via] of [...(outgoing[node] as Pair[]), ...(incoming[node] as Pair[])]) {
      if (next === parent[node]) continue;
      parent[next] = node;
      edge[next] = via;
      depth[next] = (depth[node] as number) + 1;
      order.push(next);
    }
  }
  return { component, componentRoot, order, parent, edge, depth };
}

export function edgeLength(forest: Forest, [u, v]: Pair): number {
  const { x, y } = forest;
  return Math.hypot((x[v] as number) - (x[u] as number), (y[v] as number) - (y[u] as number));
}
