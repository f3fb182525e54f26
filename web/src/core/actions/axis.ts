// Actions on axes and plants.

import { newAxis, partOfAxis, withExplicitAxes } from "../axes.ts";
import type { Axis, AxisId, Graph, NodeId } from "../graph.ts";
import type { Action } from "../history.ts";
import { Edit, chainBelow, freshPlant, numberPlants, settle, unite } from "./common.ts";

/**
 * Let the axis above a node's parent continue along the node. The axis that continued there until now takes over the
 * record of the one that the node began.
 */
export const continueAxis =
  (id: NodeId): Action =>
  (given) => {
    if (continueAxisReason(given, id) !== null) return given;
    const graph = withExplicitAxes(given);
    const node = graph.node(id);
    const parent = graph.node(node.parent as NodeId);
    if (parent.axis !== null && parent.axis === node.axis) return given;
    const edit = new Edit(graph);
    const axis = parent.axis ?? edit.addAxis(newAxis());
    if (parent.axis === null) edit.set(parent.id, { axis });
    const other = node.axis;
    const record = edit.axes.get(axis) as Axis;
    const rest = parent.axis === null ? null : graph.continuation(parent.id);
    const below = other === null ? [id] : chainBelow(graph, id, other);
    for (const member of below) edit.set(member, { axis });
    if (other !== null) edit.axes.set(axis, unite(record, edit.axes.get(other) as Axis));
    if (rest !== null) {
      const tail = other ?? edit.addAxis();
      if (other !== null) edit.axes.set(other, unite(edit.axes.get(other) as Axis, record));
      for (const member of chainBelow(graph, rest, axis)) edit.set(member, { axis: tail });
    }
    return edit.finish();
  };

/** Why `continueAxis` cannot be applied to a node, null if it can. */
export function continueAxisReason(graph: Graph, id: NodeId): string | null {
  const { parent } = graph.node(id);
  if (parent === null) return "A root has no axis above it.";
  if (graph.node(parent).parent === null) return "Axes begin at the root, so there is none to continue.";
  return null;
}

/** Begin a new axis with the edge above a node. */
export const startAxis =
  (id: NodeId): Action =>
  (given) => {
    const graph = withExplicitAxes(given);
    const node = graph.node(id);
    if (node.parent === null) return given;
    const isHead = node.axis !== null && graph.node(node.parent).axis !== node.axis;
    if (isHead) return given;
    const edit = new Edit(graph);
    const record = node.axis === null ? newAxis() : partOfAxis(edit.axes.get(node.axis) as Axis);
    const axis = edit.addAxis({ ...record, parent: graph.node(node.parent).axis });
    for (const member of node.axis === null ? [id] : chainBelow(graph, id, node.axis)) edit.set(member, { axis });
    return edit.finish();
  };

/** Set the label of an axis. */
export const setAxisLabel =
  (id: AxisId, label: string): Action =>
  (graph) => {
    const axis = graph.axes.get(id);
    if (axis === undefined || (axis.record.label ?? "") === label) return graph;
    const { label: _, ...rest } = axis.record;
    const record = label === "" ? rest : { ...rest, label };
    return graph.with({ axes: new Map(graph.axes).set(id, { ...axis, record }) });
  };

/** Assign the trees of some nodes to a plant; "new" takes the next free number. */
export const setPlant =
  (ids: Iterable<NodeId>, plant: number | "new"): Action =>
  (graph) => {
    const roots = new Set([...ids].map((id) => graph.rootOf(id)));
    if (roots.size === 0 || (plant !== "new" && !(Number.isSafeInteger(plant) && plant >= 0))) return graph;
    const start = numberPlants(graph, true);
    const number = plant === "new" ? freshPlant(start) : plant;
    const changes = [...roots]
      .flatMap((root) => start.subtree(root))
      .map((id) => start.node(id))
      .filter((node) => node.plant !== number);
    if (changes.length === 0) return graph;
    const nodes = start.nodes.update(changes.map((node) => [node.id, { ...node, plant: number }]));
    return settle(start.with({ nodes }, true), start);
  };
