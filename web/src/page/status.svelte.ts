import type { ModelState } from "./predictor.ts";

/** What the page shows about the model and the service worker. */
export interface Status {
  model: ModelState;
  /** Duration of the last prediction, and of the network in it, s. */
  seconds: number | null;
  networkSeconds: number | null;
  /** True once the service worker can answer for the page, and once the files of the model are stored. */
  served: boolean;
  kept: boolean;
}

export const status = $state<Status>({
  model: { kind: "waiting" },
  seconds: null,
  networkSeconds: null,
  served: false,
  kept: false,
});
