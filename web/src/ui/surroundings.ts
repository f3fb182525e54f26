/** What the controller of an image and the page around it tell each other. */

import type { SessionInfo } from "../api";
import type { Settings } from "./settings";

/** What the component around the controller provides. */
export interface Surroundings {
  settings(): Settings;
  change(patch: Partial<Settings>): void;
  session(): SessionInfo | null;
  step(by: number): void;
  /** Open the next image that is not accepted; false if there is none. */
  next(): boolean;
  /** The result was written, or the server has written one. */
  saved(): void;
  /** A job was begun. */
  job(): void;
  /** The document changed. */
  changed(): void;
}

/** A question above the image. It stays until it is answered. */
export interface Notice {
  text: string;
  actions: { label: string; run: () => void }[];
}

/** The dialogs of the editor. */
export type DialogName = "help" | "scale" | "predict" | "conflict";
