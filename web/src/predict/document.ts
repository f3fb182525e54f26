// The document of a predicted forest in the native JSON format, with the record of its origin.

import type { SkeletonDocument } from "../core/document.ts";
import { FORMAT, VERSION } from "../core/document.ts";
import type { Json } from "../core/graph.ts";
import type { PredictedForest } from "./postprocess.ts";
import type { ModelSettings, PredictionOptions } from "./settings.ts";

const HASH_LETTERS = 16;

/** Metadata of a prediction, as `treeformer.inference.provenance` writes them. */
export function predictionMetadata(
  settings: ModelSettings,
  options: PredictionOptions,
  version: string,
): { [key: string]: Json } {
  const name = settings.name ?? "default";
  const shown = Object.entries(options.record).map(([key, value]) => `${key} ${String(value)}`);
  const ofModel = [name, settings.version].filter((part) => part !== "").join(" ");
  const line = [`treeformer ${version}`, `model ${ofModel}`, `sha256 ${settings.sha256.slice(0, HASH_LETTERS)}`, ...shown];
  const record = { treeformer: version, model: name, model_version: settings.version, model_sha256: settings.sha256 };
  const metadata: { [key: string]: Json } = { model: name, prediction: { ...record, ...options.record } };
  const threshold = settings.low_confidence_threshold ?? null;
  if (threshold !== null) metadata.low_confidence_threshold = threshold;
  return { ...metadata, rsml: { software: line.join("; ") } };
}

/** The document of a forest. */
export function forestDocument(
  forest: PredictedForest,
  imageName: string | null,
  metadata: { [key: string]: Json },
): SkeletonDocument {
  return {
    format: FORMAT,
    version: VERSION,
    ...(imageName === null ? {} : { image_name: imageName }),
    image_size: [...forest.imageSize],
    nodes: forest.x.map((x, k) => [x, forest.y[k] as number]),
    edges: forest.edges.map(([u, v]) => [u, v]),
    roots: [...forest.roots],
    ...(forest.radius === null ? {} : { radius: forest.radius.map((r) => (Number.isNaN(r) ? null : r)) }),
    node_score: [...forest.nodeScore],
    edge_score: [...forest.edgeScore],
    plant: [...forest.plant],
    axes: forest.axes.map(({ nodes, parent, plant }) => ({ nodes: [...nodes], parent, plant })),
    edge_axis: [...forest.edgeAxis],
    ...(Object.keys(metadata).length > 0 ? { metadata } : {}),
  };
}
