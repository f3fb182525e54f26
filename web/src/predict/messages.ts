// What the page and the worker say to each other.

import type { SkeletonDocument } from "../core/document.ts";
import type { ModelSettings, WorkingSize } from "./settings.ts";

/** Addresses of the files that the worker downloads, with their sizes in bytes. */
export interface ModelFiles {
  readonly settings: string;
  readonly weights: { readonly address: string; readonly bytes: number };
  readonly runtime: { readonly address: string; readonly bytes: number };
}

export type ToWorker =
  | { readonly kind: "load"; readonly files: ModelFiles; readonly version: string }
  | {
      readonly kind: "predict";
      readonly job: string;
      readonly file: Blob;
      readonly name: string;
      readonly workingSize: WorkingSize;
      readonly region: readonly [number, number, number, number] | null;
    }
  | { readonly kind: "cancel"; readonly job: string };

export type FromWorker =
  | { readonly kind: "download"; readonly loaded: number; readonly total: number }
  | { readonly kind: "ready"; readonly settings: ModelSettings; readonly threads: number; readonly seconds: number }
  /** The files of the model are stored in this browser. */
  | { readonly kind: "kept" }
  | { readonly kind: "unusable"; readonly message: string }
  | { readonly kind: "progress"; readonly job: string; readonly done: number; readonly total: number }
  | {
      readonly kind: "done";
      readonly job: string;
      readonly document: SkeletonDocument;
      /** Duration of the prediction, and of the runs of the network in it, s. */
      readonly seconds: number;
      readonly networkSeconds: number;
    }
  | { readonly kind: "failed"; readonly job: string; readonly message: string }
  | { readonly kind: "cancelled"; readonly job: string };
