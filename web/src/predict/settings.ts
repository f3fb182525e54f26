// The settings of a model, as `treeformer export --web` writes them, and the options of one prediction.

import type { ScaleRule } from "./autoScale.ts";
import type { EdgeCalibration } from "./calibration.ts";

/** The part of `model.json` that prediction needs. */
export interface ModelSettings {
  readonly name?: string;
  readonly version: string;
  readonly sha256: string;
  readonly input_size: number;
  readonly working_size: number;
  readonly node_threshold: number;
  readonly root_threshold: number;
  readonly candidate_threshold: number;
  readonly tile_step: number;
  readonly direction_weight?: number;
  readonly edge_calibration?: EdgeCalibration | null;
  readonly scale_rule?: ScaleRule | null;
  readonly low_confidence_threshold?: number | null;
}

/** Longest side, px; "full" keeps the original size, "auto" uses the scale rule, null the model's default. */
export type WorkingSize = number | "full" | "auto" | null;

/** Padding in the output has a score of 0. It must not become a node, whatever the threshold. */
const SMALLEST_SCORE = 2 ** -126;

export interface PredictionOptions {
  /** Length that longer images are reduced to, px; null reduces no image. */
  readonly workingPx: number | null;
  /** Chooses the working size after a first pass; null for a fixed size. */
  readonly scaleRule: ScaleRule | null;
  readonly fixedPx: number;
  readonly minScore: number;
  readonly nodeThreshold: number;
  readonly rootThreshold: number;
  readonly edgeThreshold: number;
  readonly unsurePlants: boolean;
  readonly tileStep: number;
  readonly directionWeight: number;
  readonly calibration: EdgeCalibration | null;
  readonly lowConfidence: number | null;
  readonly record: Readonly<Record<string, string | number | boolean>>;
}

export function predictionOptions(settings: ModelSettings, workingSize: WorkingSize, engine: string): PredictionOptions {
  const rule = settings.scale_rule ?? null;
  if (workingSize === "auto" && rule === null) throw new Error("This model has no scale rule: give the size in pixels.");
  const size = workingSize ?? (rule === null ? settings.working_size : "auto");
  const minScore = Math.max(settings.candidate_threshold, SMALLEST_SCORE);
  const nodeThreshold = Math.max(settings.node_threshold, minScore);
  const edgeThreshold = 0;
  return {
    workingPx: typeof size === "number" ? size : null,
    scaleRule: size === "auto" ? rule : null,
    fixedPx: settings.working_size,
    minScore,
    nodeThreshold,
    rootThreshold: settings.root_threshold,
    edgeThreshold,
    unsurePlants: false,
    tileStep: settings.tile_step,
    directionWeight: settings.direction_weight ?? 0,
    calibration: settings.edge_calibration ?? null,
    lowConfidence: settings.low_confidence_threshold ?? null,
    record: {
      engine,
      working_size: size,
      node_threshold: nodeThreshold,
      root_threshold: settings.root_threshold,
      edge_threshold: edgeThreshold,
      single_plant: false,
    },
  };
}

/** The options with a size that a scale rule chose; `isFinal` if it will not choose again. */
export function atSize(options: PredictionOptions, workingPx: number, isFinal: boolean): PredictionOptions {
  const record = { ...options.record, chosen_working_size: workingPx };
  return { ...options, workingPx, scaleRule: isFinal ? null : options.scaleRule, record };
}
