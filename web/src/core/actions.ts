// All actions: `(arguments) => (graph) => graph`. Each returns the same graph if it does not apply, and a valid forest.

export { addChild, addPath, addRoot, insertOnEdge, newIds } from "./actions/add.ts";
export type { Place } from "./actions/add.ts";
export { continueAxis, continueAxisReason, setAxisLabel, setPlant, startAxis } from "./actions/axis.ts";
export { areJoined, connect, connection, mergeNodes, reRoot, reparent } from "./actions/connect.ts";
export { freshPlant } from "./actions/common.ts";
export { accept, acceptAll, moveNode, moveNodes, setRadius, setScale } from "./actions/move.ts";
export { mergeGraph } from "./actions/region.ts";
export type { Box, MergeOptions } from "./actions/region.ts";
export { cutEdge, cutEdges, deleteAxis, deleteNode, deleteNodes } from "./actions/remove.ts";
export type { Removal } from "./actions/remove.ts";
