// Actions that change positions and values, not the structure.

import type { Graph, JsonObject, Node, NodeId } from "../graph.ts";
import type { Action } from "../history.ts";
import { rsmlScale } from "../measures.ts";
import { isPlace, numberPlants, unskip } from "./common.ts";

/** Move one node to a position, px. */
export const moveNode =
  (id: NodeId, x: number, y: number): Action =>
  (graph) => {
    const node = graph.node(id);
    return place(graph, [[id, x, y]], x === node.x && y === node.y);
  };

/** Move several nodes by the same distance, px. */
export const moveNodes =
  (ids: Iterable<NodeId>, dx: number, dy: number): Action =>
  (graph) => {
    const moves = [...new Set(ids)].map((id): [NodeId, number, number] => {
      const { x, y } = graph.node(id);
      return [id, x + dx, y + dy];
    });
    return place(graph, moves, dx === 0 && dy === 0);
  };

function place(graph: Graph, moves: readonly (readonly [NodeId, number, number])[], isSame: boolean): Graph {
  if (isSame || moves.length === 0 || !moves.every(([, x, y]) => isPlace(x, y))) return graph;
  const start = numberPlants(graph);
  const changes = moves.map(([id, x, y]): [NodeId, Node] => {
    const node = start.node(id);
    return [id, { ...node, x, y, source: { ...node.source, node: edited(node) } }];
  });
  const nodes = start.nodes.update(changes);
  return start.with({ nodes, axes: unskip(start, new Set(moves.map(([id]) => id))) }, true);
}

function edited({ source }: Node): Node["source"]["node"] {
  return source.node === "drawn" || source.node === "traced" ? source.node : "edited";
}

/** Set the radius of nodes, px; null for unknown. */
export const setRadius =
  (ids: Iterable<NodeId>, radius: number | null): Action =>
  (graph) => {
    if (radius !== null && !(radius >= 0 && isPlace(radius, 0))) return graph;
    const changes = [...new Set(ids)]
      .map((id) => graph.node(id))
      .filter((node) => node.radius !== radius)
      .map((node): [NodeId, Node] => [node.id, { ...node, radius, source: { ...node.source, node: edited(node) } }]);
    return changes.length === 0 ? graph : graph.with({ nodes: graph.nodes.update(changes) }, true);
  };

/** Mark nodes as accepted by a person, together with the edges to their parents unless `edges` is false. */
export const accept =
  (ids: Iterable<NodeId>, what: "both" | "node" | "edge" = "both"): Action =>
  (graph) => {
    const changes: [NodeId, Node][] = [];
    for (const id of new Set(ids)) {
      const { source, ...node } = graph.node(id);
      const mark = (word: Node["source"]["node"]) => (word === "predicted" || word === "imported" ? "accepted" : word);
      const next = {
        node: what === "edge" ? source.node : mark(source.node),
        edge: what === "node" ? source.edge : mark(source.edge),
      };
      if (next.node !== source.node || next.edge !== source.edge) changes.push([id, { ...node, source: next }]);
    }
    return changes.length === 0 ? graph : graph.with({ nodes: graph.nodes.update(changes) }, true);
  };

/** Mark everything as accepted. */
export const acceptAll = (): Action => (graph) => accept(graph.nodes.values().map(({ id }) => id))(graph);

/** Set the scale, px per mm; null for unknown, which also removes the scale of an RSML file. */
export const setScale =
  (pxPerMm: number | null): Action =>
  (graph) => {
    if (pxPerMm !== null && !(Number.isFinite(pxPerMm) && pxPerMm > 0)) return graph;
    const metadata = pxPerMm === null ? withoutScale(graph.metadata) : graph.metadata;
    return pxPerMm === graph.pxPerMm && metadata === graph.metadata ? graph : graph.with({ pxPerMm, metadata });
  };

function withoutScale(metadata: JsonObject): JsonObject {
  if (rsmlScale(metadata) === null) return metadata;
  const { unit: _unit, resolution: _resolution, ...rsml } = metadata.rsml as JsonObject;
  return { ...metadata, rsml };
}
