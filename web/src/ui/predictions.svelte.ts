/** Predictions that somebody asks for while an image is open: wait for the job, then take over its document. */

import type { Backend, JobInfo, Region, SkeletonDocument, WorkingSize } from "../api";
import { fromDocument } from "../core/document";
import { isObject } from "../core/document/checks";
import type { Editor } from "../editor/editor";
import { messageOf, type Session } from "./session";

const JOB_POLL_MS = 400;

/** What predictions tell the page. */
export interface PredictionHooks {
  /** A job was begun. */
  job(): void;
  /** The server has written a result. */
  saved(): void;
  tell(text: string): void;
}

/** Predicts the open image and knows the job that is under way. */
export class Predictions {
  /** The job that is under way. */
  running = $state<string | null>(null);
  private stopped = false;

  constructor(
    private readonly backend: Backend,
    private readonly session: Session,
    private readonly editor: Editor,
    private readonly hooks: PredictionHooks,
  ) {}

  /** Predict the image, or a region of it, as one step of the history. */
  async predict(size: WorkingSize, region: Region | null, views = 1): Promise<void> {
    try {
      const job = await this.backend.predict(this.session.image, size, region, views);
      this.running = job;
      this.hooks.job();
      const done = await this.finished(job);
      if (this.stopped || !done) return;
      if (done.state === "failed") this.hooks.tell(done.error ?? "The prediction failed.");
      if (done.state !== "done" || !done.document) return;
      if (region) this.editor.mergeRegion(done.document, region);
      else await this.take(done.document);
    } catch (error) {
      this.hooks.tell(messageOf(error));
    } finally {
      this.running = null;
    }
  }

  /** The image is closed: do not wait any longer. */
  stop(): void {
    this.stopped = true;
  }

  private async take(document: SkeletonDocument): Promise<void> {
    const fresh = fromDocument(document);
    const { pxPerMm, metadata } = this.editor.state.graph;
    const merged = { ...metadata, ...fresh.metadata };
    // The scale of the image may be stated there only.
    if (isObject(metadata.rsml) && isObject(fresh.metadata.rsml)) merged.rsml = { ...metadata.rsml, ...fresh.metadata.rsml };
    this.editor.replaceGraph("Predict again", fresh.with({ pxPerMm, metadata: merged }));
    if (this.session.revision === null) {
      // The first prediction of an image is saved by the server: continue from that file, unless a person saved another.
      const { origin, document: stored, result_revision } = await this.backend.skeleton(this.session.image);
      const isEdited = isObject(stored.metadata) && isObject(stored.metadata.editor);
      if (origin === "result" && !isEdited) this.session.revision = result_revision;
      this.hooks.saved();
    }
  }

  private async finished(job: string): Promise<JobInfo | null> {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, JOB_POLL_MS));
      if (this.stopped) return null;
      const found = (await this.backend.jobs()).find((one) => one.job === job);
      if (!found || (found.state !== "waiting" && found.state !== "running")) return found ?? null;
    }
  }
}
