// The native JSON format: its name and version, its keys, and what the editor records in it.

import type { JsonObject } from "../graph.ts";

export const FORMAT = "treeformer-skeleton";
export const VERSION = 1;
/** Greatest coordinate, radius and image side, px, as in Python. */
export const MAX_PX = 1e7;

/** The keys that the editor understands. All others are kept as they are. */
export const KNOWN = new Set([
  "format", "version", "image_name", "image_size", "nodes", "edges", "roots", "radius", "node_score", "edge_score",
  "plant", "plants", "axes", "edge_axis", "metadata",
]);

/** A document of the native format. */
export type SkeletonDocument = JsonObject;

/** What `metadata.editor` says of the work on a document. Sources and scale are part of the graph. */
export interface EditorInfo {
  readonly seconds: number;
  readonly actions: number;
  readonly accepted: boolean;
  readonly model: { readonly name: string; readonly version: string; readonly hash: string } | null;
}

/** The record of a document that nobody has worked on. */
export const NO_WORK: EditorInfo = { seconds: 0, actions: 0, accepted: false, model: null };
