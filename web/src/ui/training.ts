/** What the page says about a training on the corrections. */

import type { ImageEntry, TrainingInfo } from "../api";

const STAGES: Record<string, string> = {
  survey: "Reading the corrections",
  plan: "Planning",
  features: "Preparing crops",
  training: "Training",
  validation: "Validating",
  export: "Writing the model",
  done: "Finishing",
};

/** Images that a person has corrected: they are trained on. */
export function corrected(entries: readonly ImageEntry[]): number {
  return entries.filter((e) => e.state === "edited" || e.state === "accepted").length;
}

/** Images that would be predicted again: no person has saved them or begun to correct them. */
export function uncorrected(entries: readonly ImageEntry[]): number {
  return entries.filter((e) => (e.state === "missing" || e.state === "predicted") && !e.has_draft).length;
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
