// The page's side of the worker: state of the model, and the list of jobs.

import type { JobInfo, Region, SkeletonDocument, WorkingSize } from "../api";
import type { FromWorker, ModelFiles, ToWorker } from "../predict/messages.ts";
import type { ModelSettings } from "../predict/settings.ts";

export type ModelState =
  | { readonly kind: "waiting" }
  | { readonly kind: "download"; readonly loaded: number; readonly total: number }
  | { readonly kind: "starting" }
  | { readonly kind: "ready"; readonly settings: ModelSettings; readonly threads: number; readonly seconds: number }
  | { readonly kind: "unusable"; readonly message: string };

interface Job {
  readonly info: JobInfo;
  readonly saves: boolean;
}

/** Finished jobs that are still listed. */
const MAX_FINISHED = 20;

/** What the predictor needs of a worker. */
export type WorkerLike = Pick<Worker, "postMessage" | "onmessage" | "onerror">;

export class Predictor {
  state: ModelState = { kind: "waiting" };
  /** Duration of the last prediction, and of the network in it, s. */
  seconds: number | null = null;
  networkSeconds: number | null = null;
  /** True once the files of the model are stored in this browser. */
  kept = false;
  private readonly jobs = new Map<string, Job>();
  private count = 0;

  /**
   * @param worker Runs the model.
   * @param finished Called with each prediction of a whole image before its job is done.
   * @param changed Called if the state of the model or a job changed.
   */
  constructor(
    private readonly worker: WorkerLike,
    private readonly finished: (image: string, document: SkeletonDocument) => Promise<void>,
    private readonly changed: () => void,
  ) {
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => void this.hear(data);
    worker.onerror = (event) => {
      this.state = { kind: "unusable", message: `The prediction stopped: ${(event as ErrorEvent).message || "the worker failed"}.` };
      for (const { info } of this.jobs.values()) if (isOpen(info)) this.end(info, "failed", this.state.message);
      this.changed();
    };
  }

  load(files: ModelFiles, version: string): void {
    this.say({ kind: "load", files, version });
  }

  predict(image: string, file: Blob, workingSize: WorkingSize, region: Region | null): string {
    if (this.state.kind === "unusable") throw new Error(this.state.message);
    const job = `job-${++this.count}`;
    const info: JobInfo = { job, image, state: "waiting", done: 0, total: 1, error: null };
    this.jobs.set(job, { info, saves: region === null });
    this.say({ kind: "predict", job, file, name: image, workingSize, region });
    this.changed();
    return job;
  }

  list(): JobInfo[] {
    return [...this.jobs.values()].map(({ info }) => ({ ...info }));
  }

  isBusy(image: string): boolean {
    return [...this.jobs.values()].some(({ info }) => info.image === image && isOpen(info));
  }

  cancel(job: string): void {
    const found = this.jobs.get(job);
    if (found === undefined || !isOpen(found.info)) return;
    this.say({ kind: "cancel", job });
    this.end(found.info, "cancelled", null);
    this.changed();
  }

  private say(message: ToWorker): void {
    this.worker.postMessage(message);
  }

  private end(info: JobInfo, state: JobInfo["state"], error: string | null): void {
    Object.assign(info, { state, error });
    const old = [...this.jobs.values()].filter(({ info: one }) => !isOpen(one)).slice(0, -MAX_FINISHED);
    for (const { info: one } of old) this.jobs.delete(one.job);
  }

  private async hear(message: FromWorker): Promise<void> {
    if (message.kind === "download") {
      this.state = message.loaded < message.total ? message : { kind: "starting" };
    } else if (message.kind === "ready" || message.kind === "unusable") {
      this.state = message;
    } else if (message.kind === "kept") {
      this.kept = true;
    } else {
      const job = this.jobs.get(message.job);
      if (job === undefined || !isOpen(job.info)) return;
      const { info } = job;
      if (message.kind === "progress") Object.assign(info, { state: "running", done: message.done, total: message.total });
      else if (message.kind === "failed") this.end(info, "failed", message.message);
      else if (message.kind === "cancelled") this.end(info, "cancelled", null);
      else {
        this.seconds = message.seconds;
        this.networkSeconds = message.networkSeconds;
        info.document = message.document as SkeletonDocument;
        try {
          if (job.saves) await this.finished(info.image as string, info.document);
          this.end(info, "done", null);
        } catch (error) {
          this.end(info, "failed", error instanceof Error ? error.message : String(error));
        }
      }
    }
    this.changed();
  }
}

function isOpen({ state }: JobInfo): boolean {
  return state === "waiting" || state === "running";
}
