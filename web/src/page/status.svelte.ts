import type { ModelState } from "./predictor.ts";

/** What the page shows about the model and the service worker. */
export interface Status {
  model: ModelState;
  /** Duration of the last prediction, s. */
  seconds: number | null;
  offline: boolean;
}

export const status = $state<Status>({ model: { kind: "waiting" }, seconds: null, offline: false });
