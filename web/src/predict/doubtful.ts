// What hangs on an edge of low confidence, as in `treeformer.decoding.doubtful`.

import { subgraph, traverse } from "./forest.ts";
import type { Forest } from "./forest.ts";
import { components } from "./numeric.ts";

/** A branch behind a doubtful edge exists if it has a node with at least this score. */
const SURE = 0.5;
/** An edge with a lower score does not belong to a plant. What it holds becomes one if it has enough nodes. */
const PLANT_SCORE = 0.1;
const MIN_PLANT_NODES = 3;

/** Drop branches that do not exist, and separate those that belong to no plant. */
export function reviseDoubtfulBranches(forest: Forest, lowConfidence: number): Forest {
  const score = (edge: number): number => forest.edgeScore[edge] as number;
  const firm = forest.edges.filter((_, edge) => score(edge) >= lowConfidence);
  if (firm.length === forest.edges.length) return forest;
  const { order, parent, edge } = traverse(forest);
  const edgeTo = (node: number): number => edge[node] as number;
  // The first node of each branch; of nested branches, the outer one first.
  const heads = order.filter((node) => edgeTo(node) >= 0 && score(edgeTo(node)) < lowConfidence);
  const piece = components(firm, forest.x.length);
  const own = (head: number): number => piece[head] as number;
  const outer = (head: number): number => piece[parent[head] as number] as number;
  const [best, size, exists]: [number[], number[], boolean[]] = [[], [], []];
  piece.forEach((at, node) => {
    best[at] = Math.max(best[at] ?? 0, forest.nodeScore[node] as number);
    size[at] = (size[at] ?? 0) + 1;
    exists[at] = true;
  });
  for (const head of [...heads].reverse()) {
    best[outer(head)] = Math.max(best[outer(head)] as number, best[own(head)] as number);
  }
  for (const head of heads) {
    exists[own(head)] = (exists[outer(head)] as boolean) && (best[own(head)] as number) >= SURE;
  }
  const plants = heads.filter(
    (head) => exists[own(head)] && score(edgeTo(head)) < PLANT_SCORE && (size[own(head)] as number) >= MIN_PLANT_NODES,
  );
  const cut = new Set(plants.map(edgeTo));
  const keep = piece.map((at) => exists[at] as boolean);
  // Before `subgraph`, which looks at one end of an edge only: no edge may lead to a node that is dropped.
  const stays = forest.edges.map(([u, v], at) => !cut.has(at) && (keep[u] as boolean) && (keep[v] as boolean));
  const rest: Forest = {
    ...forest,
    edges: forest.edges.filter((_, at) => stays[at]),
    edgeScore: forest.edgeScore.filter((_, at) => stays[at]),
    roots: [...forest.roots, ...plants].sort((a, b) => a - b),
  };
  return subgraph(rest, keep);
}
