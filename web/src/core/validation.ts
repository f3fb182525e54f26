// The review queue: places of a graph that deserve a look. It is derived from the graph, so it is never out of date.

import type { Graph, Node, NodeId } from "./graph.ts";
import { spatialIndex } from "./spatial.ts";

export type ReviewKind = "low-score" | "doubtful-root" | "near-miss" | "short-tip";

/** One place to look at. */
export interface ReviewItem {
  /** Kind and node; stable as long as the node exists. */
  readonly key: string;
  readonly kind: ReviewKind;
  /** The node; for "low-score" the edge between it and its parent. */
  readonly id: NodeId;
  /** For "near-miss": the node that lies close. */
  readonly other: NodeId | null;
  readonly x: number;
  readonly y: number;
  /** How suspicious it is, 0 to 1; the queue is sorted by it, highest first. */
  readonly severity: number;
  /** One sentence for the status bar. */
  readonly text: string;
}

export interface ReviewOptions {
  /** Edges with a lower score are listed. */
  readonly lowScore: number;
}

export const REVIEW_DEFAULTS: ReviewOptions = { lowScore: 0.5 };

/** Near misses are closer than this many median edge lengths, short tips shorter; both at most so many px. */
const NEAR_MISS = { edges: 1.5, px: 48 };
const SHORT_TIP = { edges: 0.5, px: 24 };
/** A tree with a smaller fraction of the length of the longest one is a fragment. */
const FRAGMENT = 0.02;

const isOpen = (source: string): boolean => source === "predicted" || source === "imported";

const queues = new WeakMap<Graph, { lowScore: number; items: readonly ReviewItem[] }>();

/** What a person has not yet accepted or edited and looks suspicious, most suspicious first; cached per graph. */
export function reviewQueue(graph: Graph, options: ReviewOptions = REVIEW_DEFAULTS): readonly ReviewItem[] {
  const known = queues.get(graph);
  if (known?.lowScore === options.lowScore) return known.items;
  const edge = medianEdge(graph);
  const items = [
    ...lowScores(graph, options.lowScore),
    ...doubtfulRoots(graph, options.lowScore),
    ...nearMisses(graph, Math.min(NEAR_MISS.px, NEAR_MISS.edges * edge)),
    ...shortTips(graph, Math.min(SHORT_TIP.px, SHORT_TIP.edges * edge)),
  ].sort(compareItems);
  queues.set(graph, { lowScore: options.lowScore, items });
  return items;
}

/** Order of the queue: most suspicious first, then by place. It is total, so that a lost item has a position, too. */
export function compareItems(a: ReviewItem, b: ReviewItem): number {
  return b.severity - a.severity || a.id - b.id || (a.kind < b.kind ? -1 : a.kind > b.kind ? 1 : 0);
}

function item(kind: ReviewKind, node: Node, severity: number, text: string, other: Node | null = null): ReviewItem {
  const at = other ?? node;
  const [x, y] = [(node.x + at.x) / 2, (node.y + at.y) / 2];
  return { key: `${kind}:${node.id}`, kind, id: node.id, other: other?.id ?? null, x, y, severity, text };
}

function lowScores(graph: Graph, limit: number): ReviewItem[] {
  const items: ReviewItem[] = [];
  graph.nodes.forEach((node) => {
    if (node.parent === null || node.edgeScore === null || node.edgeScore >= limit || !isOpen(node.source.edge)) return;
    const parent = graph.node(node.parent);
    const found = item("low-score", node, 1 - node.edgeScore, `Edge with a score of ${node.edgeScore.toFixed(2)}.`);
    items.push({ ...found, x: (node.x + parent.x) / 2, y: (node.y + parent.y) / 2 });
  });
  return items;
}

function doubtfulRoots(graph: Graph, limit: number): ReviewItem[] {
  const length = treeLengths(graph);
  const longest = Math.max(0, ...length.values());
  const items: ReviewItem[] = [];
  for (const id of graph.roots) {
    const root = graph.node(id);
    if (!isOpen(root.source.node)) continue;
    if (root.score !== null && root.score < limit) {
      items.push(item("doubtful-root", root, 1 - root.score, `Root with a score of ${root.score.toFixed(2)}.`));
    } else if (graph.assumedRoots.has(id) && graph.children(id).length > 0) {
      items.push(item("doubtful-root", root, 0.6, "The file states no root for this tree."));
    } else if ((length.get(id) ?? 0) < FRAGMENT * longest) {
      items.push(item("doubtful-root", root, 0.4, "A very small tree: a fragment or dirt?"));
    }
  }
  return items;
}

function nearMisses(graph: Graph, within: number): ReviewItem[] {
  if (graph.roots.length < 2) return [];
  const index = spatialIndex(graph);
  const items: ReviewItem[] = [];
  const seen = new Set<string>();
  graph.nodes.forEach((node) => {
    const isEnd = node.parent === null || graph.children(node.id).length === 0;
    if (!isEnd || !isOpen(node.source.node)) return;
    const root = graph.rootOf(node.id);
    const near = index.nearestNode(node, within, (id) => graph.rootOf(id) !== root);
    if (near === null) return;
    const pair = node.id < near.id ? `${node.id} ${near.id}` : `${near.id} ${node.id}`;
    if (seen.has(pair)) return;
    seen.add(pair);
    const severity = 0.2 + 0.5 * (1 - near.distance / within);
    const text = `Ends ${near.distance.toFixed(0)} px from another tree.`;
    items.push(item("near-miss", node, severity, text, graph.node(near.id)));
  });
  return items;
}

function shortTips(graph: Graph, limit: number): ReviewItem[] {
  const items: ReviewItem[] = [];
  graph.nodes.forEach((node) => {
    if (node.parent === null || graph.children(node.id).length > 0 || !isOpen(node.source.node)) return;
    let length = 0;
    let at: Node = node;
    while (at.parent !== null && length < limit) {
      const parent = graph.node(at.parent);
      length += Math.hypot(at.x - parent.x, at.y - parent.y);
      at = parent;
      if (graph.children(at.id).length > 1) break;
    }
    if (at.parent === null || length >= limit) return;
    items.push(item("short-tip", node, 0.3 * (1 - length / limit), `A branch of only ${length.toFixed(0)} px.`));
  });
  return items;
}

/** Total edge length of each tree, px; key: root. */
export function treeLengths(graph: Graph): Map<NodeId, number> {
  const length = new Map<NodeId, number>(graph.roots.map((root) => [root, 0]));
  graph.nodes.forEach((node) => {
    if (node.parent === null) return;
    const parent = graph.node(node.parent);
    const root = graph.rootOf(node.id);
    length.set(root, (length.get(root) ?? 0) + Math.hypot(node.x - parent.x, node.y - parent.y));
  });
  return length;
}

/** Median length of the edges, px; 0 if there are none. */
export function medianEdge(graph: Graph): number {
  const lengths: number[] = [];
  graph.nodes.forEach((node) => {
    if (node.parent === null) return;
    const parent = graph.node(node.parent);
    lengths.push(Math.hypot(node.x - parent.x, node.y - parent.y));
  });
  lengths.sort((a, b) => a - b);
  return lengths[lengths.length >> 1] ?? 0;
}

/** Expected number of wrong edges: the sum of 1 − score over edges that no person has checked. */
export function expectedErrors(graph: Graph): number {
  let sum = 0;
  graph.nodes.forEach(({ edgeScore, source }) => {
    if (edgeScore !== null && isOpen(source.edge)) sum += 1 - Math.min(1, Math.max(0, edgeScore));
  });
  return sum;
}

/** The item after or before another one, which may be gone: the queue then continues where it was. The queue has items. */
export function nextItem(queue: readonly ReviewItem[], from: ReviewItem | null, step: 1 | -1): ReviewItem {
  const place = from === null ? -1 : queue.findIndex((one) => one.key === from.key);
  let at: number;
  if (from === null) at = step === 1 ? 0 : queue.length - 1;
  else if (place >= 0) at = place + step;
  else {
    const after = queue.findIndex((one) => compareItems(one, from) > 0);
    const next = after < 0 ? queue.length : after;
    at = step === 1 ? next : next - 1;
  }
  return queue[(at + queue.length) % queue.length] as ReviewItem;
}
