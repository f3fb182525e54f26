// Axes of a decoded forest, as in `treeformer.skeleton.axes`.

import type { Forest, Traversal } from "./forest.ts";

/** Two continuations whose directions differ by less than this (in cosine) are a tie: the longer one wins. */
const STRAIGHTNESS_TIE = 1e-9;

export interface InferredAxis {
  readonly nodes: number[];
  readonly parent: number | null;
  readonly plant: number;
}

/** The child along which the axis through each node continues, −1 at tips and roots. */
function continuations(forest: Forest, traversal: Traversal, minReachFraction: readonly number[]): number[] {
  const { parent, order } = traversal;
  const count = forest.x.length;
  const step = (values: readonly number[], node: number): number => {
    const above = parent[node] as number;
    return above < 0 ? 0 : (values[node] as number) - (values[above] as number);
  };
  const [dx, dy] = [forest.x, forest.y].map((values) => values.map((_, node) => step(values, node))) as [number[], number[]];
  const length = dx.map((value, k) => Math.hypot(value, dy[k] as number));
  const unit = (values: readonly number[]): number[] => values.map((value, k) => value / ((length[k] as number) || 1));
  const [ux, uy] = [unit(dx), unit(dy)];
  const reach = new Array<number>(count).fill(0);
  for (let at = order.length - 1; at >= 0; at--) {
    const node = order[at] as number;
    const above = parent[node] as number;
    if (above >= 0) reach[above] = Math.max(reach[above] as number, (reach[node] as number) + (length[node] as number));
  }
  const children: number[][] = Array.from({ length: count }, () => []);
  parent.forEach((above, node) => {
    if (above >= 0) (children[above] as number[]).push(node);
  });
  return children.map((list, node) => {
    if ((parent[node] as number) < 0 || list.length === 0) return -1;
    const through = (child: number): number => (reach[child] as number) + (length[child] as number);
    const straightness = (child: number): number =>
      (ux[child] as number) * (ux[node] as number) + (uy[child] as number) * (uy[node] as number);
    const far = (minReachFraction[node] as number) * Math.max(0, ...list.map(through));
    const candidates = list.filter((child) => through(child) >= far);
    const straightest = Math.max(...candidates.map(straightness));
    let best = -1;
    for (const child of candidates) {
      if (straightness(child) < straightest - STRAIGHTNESS_TIE) continue;
      if (best < 0 || through(child) > through(best)) best = child;
    }
    return best;
  });
}

/** Split a forest into axes, parents before laterals; `ofEdge` is the axis of each edge. */
export function inferAxes(
  forest: Forest,
  traversal: Traversal,
  plant: readonly number[],
  minReachFraction: readonly number[],
): { axes: InferredAxis[]; ofEdge: number[] } {
  const continues = continuations(forest, traversal, minReachFraction);
  const ofNode = new Array<number>(forest.x.length).fill(-1);
  const ofEdge = new Array<number>(forest.edges.length).fill(-1);
  const axes: InferredAxis[] = [];
  for (const node of traversal.order) {
    const above = traversal.parent[node] as number;
    if (above < 0) continue;
    let axis = ofNode[above] as number;
    if (continues[above] === node) (axes[axis] as InferredAxis).nodes.push(node);
    else {
      axes.push({ nodes: [above, node], parent: axis < 0 ? null : axis, plant: plant[above] as number });
      axis = axes.length - 1;
    }
    ofNode[node] = axis;
    ofEdge[traversal.edge[node] as number] = axis;
  }
  return { axes, ofEdge };
}
