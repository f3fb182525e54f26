// The backend of the static page: images that were dropped, results and drafts in this browser, prediction in a worker.

import type {
  Backend, DraftRequest, GrayCrop, ImageEntry, JobInfo, LoadedSkeleton, Pyramid, Region, SavedSkeleton, SaveRequest,
  SessionInfo, SkeletonDocument, TraitTable, WorkingSize,
} from "../api";
import { BackendError, ConflictError } from "../api";
import { FORMAT, VERSION } from "../core/document.ts";
import type { Source } from "../core/graph.ts";
import { csvText, traitTable } from "../predict/files.ts";
import { ImageError, openImage } from "../predict/image/open.ts";
import { LOW_CONFIDENCE_THRESHOLD } from "../core/measures.ts";
import type { Predictor } from "./predictor.ts";
import { Pyramids, thumbnail } from "./pyramids.ts";
import type { Store, StoredResult } from "./store.ts";

const HASH_LETTERS = 16;

export class LocalBackend implements Backend {
  private readonly pyramids: Pyramids;
  private readonly thumbnails = new Map<string, string>();
  private readonly errors = new Map<string, string>();
  private predictor: Predictor | null = null;

  constructor(
    private readonly store: Store,
    private readonly version: string,
  ) {
    this.pyramids = new Pyramids((image) => this.file(image));
  }

  /** Connect the predictor, which calls `keepPrediction`. */
  use(predictor: Predictor): void {
    this.predictor = predictor;
  }

  /** Prepare previews of the images that are stored. */
  async open(): Promise<void> {
    for (const { image, file, thumbnail } of await this.store.images()) {
      try {
        this.thumbnails.set(image, URL.createObjectURL(thumbnail ?? (await previewOf(file, image))));
      } catch (error) {
        this.errors.set(image, messageOf(error));
      }
    }
  }

  /** Add image files. Returns the names that they have in the list, and one sentence per file that was refused. */
  async add(files: readonly File[]): Promise<{ added: string[]; refused: string[] }> {
    const added: string[] = [];
    const refused: string[] = [];
    const known = new Set((await this.store.images()).map(({ image }) => image));
    for (const file of files) {
      try {
        const thumbnail = await previewOf(file, file.name);
        // A copy: the file on disk may change or disappear.
        const copy = new Blob([await file.arrayBuffer()], { type: file.type });
        // Other files may be added at the same time, also in another window.
        let image = freeName(file.name || "image", known);
        while (!(await this.store.addImage({ image, file: copy, added: Date.now(), thumbnail }))) {
          known.add(image);
          image = freeName(file.name || "image", known);
        }
        this.thumbnails.set(image, URL.createObjectURL(thumbnail));
        known.add(image);
        added.push(image);
      } catch (error) {
        refused.push(error instanceof ImageError ? error.message : `${file.name}: ${messageOf(error)}`);
      }
    }
    return { added, refused };
  }

  async remove(image: string): Promise<void> {
    for (const { job, image: of } of this.predictor?.list() ?? []) if (of === image) this.predictor?.cancel(job);
    await this.store.remove(image);
    this.pyramids.drop(image);
    this.thumbnails.delete(image);
    this.errors.delete(image);
  }

  async session(): Promise<SessionInfo> {
    const state = this.predictor?.state;
    const settings = state?.kind === "ready" ? state.settings : null;
    const model = {
      name: settings?.name ?? "default",
      version: settings?.version ?? "",
      hash: settings?.sha256.slice(0, HASH_LETTERS) ?? "",
    };
    return {
      version: this.version,
      images_root: "this browser",
      results_root: "this browser",
      model: state === undefined || state.kind === "unusable" ? null : model,
      low_confidence_threshold: settings?.low_confidence_threshold ?? LOW_CONFIDENCE_THRESHOLD,
    };
  }

  async images(): Promise<ImageEntry[]> {
    const [images, results, drafts] = await Promise.all([this.store.images(), this.store.results(), this.store.drafts()]);
    const resultOf = new Map(results.map((result) => [result.image, result]));
    const withDraft = new Set(drafts.map(({ image }) => image));
    return images.map(({ image }) => {
      const result = resultOf.get(image);
      const error = this.errors.get(image) ?? null;
      const counts = result === undefined ? { expected_errors: null, plants: null, nodes: null } : countsOf(result);
      const state = result?.state ?? (error === null ? "missing" : "failed");
      return { image, state, ...counts, has_draft: withDraft.has(image), error };
    });
  }

  thumbnail(image: string): string | null {
    return this.thumbnails.get(image) ?? null;
  }

  pyramid(image: string): Promise<Pyramid> {
    return this.pyramids.describe(image);
  }

  tile(image: string, level: number, x: number, y: number): Promise<ImageBitmap> {
    return this.pyramids.tile(image, level, x, y);
  }

  async crop(image: string, region: Region, max: number): Promise<GrayCrop> {
    const { width, height, data: rgba } = await this.pyramids.pixels(image, region, max);
    const data = new Float32Array(width * height);
    for (let k = 0; k < data.length; k++) {
      const [r, g, b] = rgba.subarray(4 * k, 4 * k + 3) as unknown as [number, number, number];
      data[k] = (0.299 * r + 0.587 * g + 0.114 * b) / 255;
    }
    const [x0, y0, x1, y1] = region;
    return { width, height, data, x0, y0, scaleX: width / (x1 - x0), scaleY: height / (y1 - y0) };
  }

  async skeleton(image: string): Promise<LoadedSkeleton> {
    const [result, drafts] = await Promise.all([this.store.result(image), this.store.drafts()]);
    const revision = result?.revision ?? null;
    const own = drafts.filter((draft) => draft.image === image).sort((a, b) => b.time - a.time);
    const others = own.filter((draft) => draft.revision !== revision).map(({ window, revision: base, time }) => {
      return { window, revision: base, time };
    });
    const common = { revision, result_revision: revision, file: null, other_drafts: others };
    const draft = own.find((one) => one.revision === revision);
    if (draft) return { ...common, document: draft.document, origin: "draft", window: draft.window, time: draft.time };
    if (result) return { ...common, document: result.document, origin: "result", window: null };
    return { ...common, document: await this.emptyDocument(image), origin: "none", window: null };
  }

  async draft(image: string, window: string): Promise<{ document: SkeletonDocument; revision: string | null; time: number }> {
    const found = (await this.store.drafts()).find((draft) => draft.image === image && draft.window === window);
    if (found === undefined) throw new BackendError("This draft does not exist any more.", 404);
    return { document: found.document, revision: found.revision, time: found.time };
  }

  async save({ image, document, revision, accepted }: SaveRequest): Promise<SavedSkeleton> {
    const result: StoredResult = {
      image,
      document: plain(document),
      revision: crypto.randomUUID(),
      state: accepted ? "accepted" : "edited",
    };
    const other = await this.store.replaceResult(result, revision);
    if (other) throw new ConflictError("The skeleton was changed in another window.", other.revision, other.document);
    return { revision: result.revision, files: ["in this browser"] };
  }

  saveDraft({ image, document, revision, window }: DraftRequest): Promise<void> {
    return this.store.putDraft({ image, document: plain(document), revision, window, time: Date.now() });
  }

  deleteDraft(image: string, window: string, time?: number): Promise<void> {
    return this.store.deleteDraft(image, window, time);
  }

  /** Store the first prediction of an image as its result; later ones are only returned. */
  async keepPrediction(image: string, document: SkeletonDocument): Promise<void> {
    this.errors.delete(image);
    if (!(await this.store.image(image))) return;
    await this.store.replaceResult({ image, document, revision: crypto.randomUUID(), state: "predicted" }, null);
  }

  async predict(image: string, workingSize: WorkingSize, region: Region | null): Promise<string> {
    if (this.predictor === null) throw new BackendError("The model is not loaded.", 0);
    return this.predictor.predict(image, await this.file(image), workingSize, region);
  }

  async predictMissing(): Promise<string> {
    let job = "";
    for (const { image, state } of await this.images()) {
      if ((state === "missing" || state === "failed") && !this.predictor?.isBusy(image)) {
        job = await this.predict(image, null, null);
      }
    }
    return job;
  }

  async jobs(): Promise<JobInfo[]> {
    const jobs = this.predictor?.list() ?? [];
    for (const { image, state, error } of jobs) if (state === "failed" && image) this.errors.set(image, error ?? "");
    return jobs;
  }

  async cancelJob(job: string): Promise<void> {
    this.predictor?.cancel(job);
  }

  async traits(document: SkeletonDocument, pxPerMm: number | null): Promise<TraitTable> {
    const name = typeof document.image_name === "string" ? document.image_name : "";
    return traitTable(document as Parameters<typeof traitTable>[0], name, pxPerMm);
  }

  /** The page has its own download button: an address would have to exist before the table does. */
  traitsTable(): null {
    return null;
  }

  /** The traits of all results and drafts as CSV. */
  async traitsCsv(): Promise<string> {
    const tables = [];
    for (const { image } of await this.store.images()) {
      const { document, origin } = await this.skeleton(image);
      if (origin !== "none") tables.push(traitTable(document as Parameters<typeof traitTable>[0], image, null));
    }
    return csvText(tables);
  }

  private async file(image: string): Promise<Blob> {
    const stored = await this.store.image(image);
    if (stored === undefined) throw new BackendError(`${image} is not in the list any more.`, 404);
    return stored.file;
  }

  private async emptyDocument(image: string): Promise<SkeletonDocument> {
    const { width, height } = await this.pyramid(image);
    return { format: FORMAT, version: VERSION, image_name: image, image_size: [width, height], nodes: [], edges: [] };
  }
}

/** A small preview of an image file. */
async function previewOf(file: Blob, name: string): Promise<Blob> {
  const { bitmap } = await openImage(file, name);
  const preview = await thumbnail(bitmap);
  bitmap.close();
  return preview;
}

/** A name that is not in the list yet: "a.png", "a (2).png". */
export function freeName(name: string, known: ReadonlySet<string>): string {
  const dot = name.lastIndexOf(".");
  const [stem, suffix] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, ""];
  for (let k = 1; ; k++) {
    const free = k === 1 ? name : `${stem} (${k})${suffix}`;
    if (!known.has(free)) return free;
  }
}

function countsOf({ document, state }: StoredResult): Pick<ImageEntry, "expected_errors" | "plants" | "nodes"> {
  const scores = Array.isArray(document.edge_score) ? (document.edge_score as number[]) : null;
  const { editor } = (document.metadata ?? {}) as { editor?: { edge_source?: Source[] } };
  const isUnchecked = (k: number): boolean => ["predicted", "imported"].includes(editor?.edge_source?.[k] ?? "predicted");
  const errors = scores?.reduce((sum, score, k) => sum + (isUnchecked(k) ? 1 - score : 0), 0) ?? null;
  return {
    expected_errors: state === "accepted" ? 0 : errors,
    plants: Array.isArray(document.roots) ? document.roots.length : null,
    nodes: Array.isArray(document.nodes) ? document.nodes.length : null,
  };
}

/** A copy without proxies, which IndexedDB cannot store. */
function plain(document: SkeletonDocument): SkeletonDocument {
  return JSON.parse(JSON.stringify(document)) as SkeletonDocument;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
