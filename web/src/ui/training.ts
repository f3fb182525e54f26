/** What the page says about a training on the corrections. */

import type { ImageEntry, TrainingInfo } from "../api";

const STAGES: Record<string, string> = {
  survey: "Reading the corrections",
  plan: "Planning",
  labels: "Labeling images without corrections",
  features: "Preparing crops",
  training: "Training",
  validation: "Validating",
  export: "Writing the model",
  done: "Finishing",
};

/** At most so many images get pseudo-labels, as in `treeformer.finetuning.pseudo_labels`. */
const MAX_LABELED = 100;

const isCorrection = (e: ImageEntry): boolean => e.state === "edited" && e.origin !== "annotation";

/** Images that are trained on: accepted ones and annotations of other programs, and on request all corrections. */
export function learnedFrom(entries: readonly ImageEntry[], includeUnaccepted: boolean): number {
  return entries.filter((e) => e.state === "accepted" || (e.state === "edited" && (includeUnaccepted || !isCorrection(e)))).length;
}

/** Images whose corrections nobody has accepted, and how many of their places are open. */
export function unaccepted(entries: readonly ImageEntry[]): { images: number; places: number } {
  const found = entries.filter(isCorrection);
  return { images: found.length, places: found.reduce((sum, e) => sum + (e.open_places ?? 0), 0) };
}

/** Images that would be predicted again: no person has saved them or begun to correct them. */
export function uncorrected(entries: readonly ImageEntry[]): number {
  return entries.filter((e) => (e.state === "missing" || e.state === "predicted") && !e.has_draft).length;
}

/** Images that no person has saved. They can get pseudo-labels, even if someone has begun to correct them. */
export function unlabeled(entries: readonly ImageEntry[]): number {
  return entries.filter((e) => e.state === "missing" || e.state === "predicted").length;
}

/**
 * What learning from images without corrections does, or why it is not offered.
 *
 * `gpu` is null while nobody knows whether there is one; `count` is the number of these images.
 */
export function unlabeledHint(gpu: boolean | null, count: number): string {
  if (gpu === null) return "Looking for a GPU…";
  if (!gpu) return "This needs a GPU, and PyTorch sees none on this computer.";
  if (count === 0) return "There is no image without corrections.";
  const which = count === 1 ? "the image" : count > MAX_LABELED ? `at most ${MAX_LABELED} of the ${count} images` : `the ${count} images`;
  return `The new model predicts ${which} without corrections, and learns from the half on which several views agree best.`;
}

/** One sentence about the images with pseudo-labels; empty if there is nothing to say. */
export function pseudoLabels(training: Pick<TrainingInfo, "state" | "before" | "after" | "pseudo_labels">): string {
  const { state, pseudo_labels: count } = training;
  if (count === null || (state !== "running" && !isNewModel(training))) return "";
  const images = `${count} image${count === 1 ? "" : "s"} without corrections`;
  if (state === "running") return `${images} got pseudo-labels.`;
  if (count === 0) return "Images without corrections did not help, so the model learned from the corrected ones only.";
  return `The model has learned from ${images}, too.`;
}

/** The stage of a training in words. */
export function stageLabel(stage: string): string {
  return STAGES[stage] ?? "Training";
}

/** "about 12 min left"; empty if unknown. */
export function timeLeft(seconds: number | null): string {
  if (seconds === null || seconds <= 0) return "";
  return seconds < 90 ? `about ${Math.ceil(seconds / 10) * 10} s left` : `about ${Math.round(seconds / 60)} min left`;
}

/** Whether a finished training ended with another model than it began with. */
export function isNewModel({ state, before, after }: Pick<TrainingInfo, "state" | "before" | "after">): boolean {
  return state === "done" && (before === null || after === null || after > before);
}

/** One sentence about how a training ended; empty while it runs. */
export function outcome({ state, before, after, lines }: TrainingInfo): string {
  if (state === "failed" || state === "cancelled") return lines.at(-1) ?? "";
  if (state !== "done") return "";
  if (before === null || after === null) return "The model is ready.";
  if (!isNewModel({ state, before, after }))
    return `Training did not improve the model (F1 ${before.toFixed(2)}), so it was kept.`;
  return `F1 ${before.toFixed(2)} before, ${after.toFixed(2)} after.`;
}
