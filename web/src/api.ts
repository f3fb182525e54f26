/**
 * What the editor needs from the outside: images, skeletons, predictions, traits.
 *
 * `Backend` is the contract. `HttpBackend` talks to the local server of `treeformer edit`. A page without a
 * server or a notebook widget implements the same interface.
 */

/** A skeleton in treeformer's native JSON format (`src/treeformer/formats/skeleton.schema.json`). */
export type SkeletonDocument = Record<string, unknown>;

export type ImageState = "missing" | "predicted" | "edited" | "accepted" | "failed";

export interface ModelInfo {
  name: string;
  version: string | number;
  hash: string;
}

export interface SessionInfo {
  version: string;
  images_root: string;
  results_root: string;
  model: ModelInfo | null;
  low_confidence_threshold: number;
  /** Largest number of views of an image that a prediction may use; missing if a backend predicts one view only. */
  max_views?: number;
}

export interface ImageEntry {
  /** Path relative to the images root, with forward slashes. */
  image: string;
  state: ImageState;
  /** Σ (1 − edge score) of the result; null if unknown. */
  expected_errors: number | null;
  plants: number | null;
  nodes: number | null;
  has_draft: boolean;
  error: string | null;
  /** Changes whenever the file of the result changes; missing if a backend does not tell. */
  version?: string | null;
  /** What the result is; missing if a backend does not tell. */
  origin?: "prediction" | "correction" | "accepted" | "annotation" | null;
  /** Edges of low confidence that no person has checked. */
  open_places?: number;
}

/** A training on the corrections of the folder. */
export interface TrainingInfo {
  state: "idle" | "running" | "done" | "failed" | "cancelled";
  stage: string;
  /** Lines for people, the newest last; after a failure the last one is the reason. */
  lines: string[];
  done: number;
  /** 0 if unknown. */
  total: number;
  seconds_left: number | null;
  /** F1 on the validation images, of the start model and of the new one. */
  before: number | null;
  after: number | null;
  model: string | null;
  folder: string | null;
  missing_packages: string[];
  /** Whether images without corrections are learned from, too. Before a training: whether an interrupted one did. */
  unannotated: boolean;
  /** Images without corrections that got pseudo-labels; at the end, those that the new model was trained on. */
  pseudo_labels: number | null;
}

/** One image of a time series. */
export interface SeriesDate {
  image: string;
  time: number;
  /** Maps px of this image to px of the reference date: (x, y) -> (a x - b y + c, b x + a y + d). */
  transform: [number, number, number, number];
  /** False if the image could not be aligned with the others. */
  succeeded: boolean;
}

/** A tile pyramid: level 0 is full size, each next level half of it. */
export interface Pyramid {
  width: number;
  height: number;
  tile: number;
  levels: number;
}

/** A part of the image in gray values 0 to 1, reduced by the factor `scale` (crop px per image px). */
export interface GrayCrop {
  width: number;
  height: number;
  data: Float32Array;
  x0: number;
  y0: number;
  scaleX: number;
  scaleY: number;
}

export interface LoadedSkeleton {
  document: SkeletonDocument;
  revision: string | null;
  origin: "draft" | "result" | "import" | "none";
  result_revision: string | null;
  file: string | null;
  /** One sentence if the image has several skeleton files, of which `file` is used. */
  choice?: string | null;
  /** The window that wrote the draft, and when; null if the document is no draft. */
  window?: string | null;
  time?: number | null;
  /** Drafts that began from another version of the file; they are kept, not loaded. */
  other_drafts?: { window: string; revision: string | null; time: number }[];
}

/** A draft as it was when it was read. */
export interface DraftRef {
  window: string;
  time: number;
}

export interface SaveRequest {
  image: string;
  document: SkeletonDocument;
  revision: string | null;
  accepted: boolean;
  window: string;
  /** The draft of another window that the document continues; it is deleted unless it is newer by now. */
  recovered?: DraftRef | null;
}

export interface SavedSkeleton {
  revision: string;
  files: string[];
  /** One sentence if something was not written, as RSML of a document that RSML cannot state. */
  warning?: string | null;
}

export interface DraftRequest {
  image: string;
  document: SkeletonDocument;
  revision: string | null;
  window: string;
}

/** Corners x0, y0, x1, y1 in px of the full image. */
export type Region = [number, number, number, number];

export type WorkingSize = number | "full" | "auto" | null;

export interface JobInfo {
  job: string;
  image: string | null;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  done: number;
  total: number;
  error: string | null;
  document?: SkeletonDocument | null;
}

export interface TraitTable {
  columns: string[];
  rows: (Record<string, unknown> | unknown[])[];
  units: Record<string, string>;
}

/** Everything that the editor asks of its surroundings. Every method may reject with a `BackendError`. */
export interface Backend {
  session(): Promise<SessionInfo>;
  images(): Promise<ImageEntry[]>;
  /** The dates of the series that the folder holds, in the order of time; missing if a backend knows no series. */
  series?(): Promise<SeriesDate[]>;
  /** Address of a small preview; null if there is none. */
  thumbnail(image: string): string | null;
  /** `shown` is the size of the canvas that the image will be fitted into, device px; it may speed up the first view. */
  pyramid(image: string, shown?: { width: number; height: number }): Promise<Pyramid>;
  tile(image: string, level: number, x: number, y: number, signal?: AbortSignal): Promise<ImageBitmap>;
  crop(image: string, region: Region, max: number): Promise<GrayCrop>;
  /** The draft of an image if it began from the current result, otherwise the result. */
  skeleton(image: string): Promise<LoadedSkeleton>;
  /** The draft of one window, as listed in `other_drafts`. */
  draft(image: string, window: string): Promise<{ document: SkeletonDocument; revision: string | null; time?: number }>;
  /** Save the result. Rejects with `ConflictError` if the result changed since `revision`. */
  save(request: SaveRequest): Promise<SavedSkeleton>;
  saveDraft(request: DraftRequest): Promise<void>;
  /** Delete the draft of a window; with `time`, only if it is still the one of that time. */
  deleteDraft(image: string, window: string, time?: number): Promise<void>;
  /** Start a prediction of several views (at most `max_views`) and return its job. */
  predict(image: string, workingSize: WorkingSize, region: Region | null, views?: number): Promise<string>;
  predictMissing(): Promise<string>;
  /** Predict all images again that nobody has corrected; missing if a backend cannot train. */
  predictAgain?(): Promise<string>;
  /** The images without corrections, the one from which a model would learn most first. */
  next?(): Promise<string[]>;
  training?(): Promise<TrainingInfo>;
  /** Whether a training would run on a GPU. The first answer may take seconds. */
  hasGpu?(): Promise<boolean>;
  /**
   * With `unannotated`, images without corrections are learned from, too, which needs a GPU; with `includeUnaccepted`,
   * corrections that nobody has accepted.
   */
  startTraining?(maxMinutes: number | null, unannotated: boolean, includeUnaccepted: boolean): Promise<TrainingInfo>;
  /** Cancel the training that is running; otherwise forget the last one. */
  stopTraining?(): Promise<TrainingInfo>;
  jobs(): Promise<JobInfo[]>;
  cancelJob(job: string): Promise<void>;
  traits(document: SkeletonDocument, pxPerMm: number | null): Promise<TraitTable>;
  /** Address of the table of the whole folder, each image with its own scale; null if there is none. */
  traitsTable(): string | null;
}

/** A request that failed; the message is one sentence for the user. */
export class BackendError extends Error {
  constructor(
    message: string,
    /** HTTP status; 0 if the server did not answer. */
    readonly status: number,
  ) {
    super(message);
    this.name = "BackendError";
  }
}

/** The result on disk is newer than the one that was edited. Nothing was written. */
export class ConflictError extends BackendError {
  constructor(
    message: string,
    readonly revision: string | null,
    readonly document: SkeletonDocument,
  ) {
    super(message, 409);
    this.name = "ConflictError";
  }
}

type Query = Record<string, string | number | null | undefined>;

/** Client of the HTTP server of `treeformer edit`. */
export class HttpBackend implements Backend {
  constructor(
    private readonly base = "",
    private readonly fetcher: typeof fetch = (...args) => fetch(...args),
  ) {}

  session(): Promise<SessionInfo> {
    return this.json("GET", "/api/session");
  }

  async images(): Promise<ImageEntry[]> {
    return (await this.json<{ images: ImageEntry[] }>("GET", "/api/images")).images;
  }

  async series(): Promise<SeriesDate[]> {
    return (await this.json<{ dates: SeriesDate[] }>("GET", "/api/series")).dates;
  }

  thumbnail(image: string): string {
    return this.address("/api/thumbnail", { image });
  }

  pyramid(image: string, shown?: { width: number; height: number }): Promise<Pyramid> {
    return this.json("GET", "/api/pyramid", { image, ...shown });
  }

  async tile(image: string, level: number, x: number, y: number, signal?: AbortSignal): Promise<ImageBitmap> {
    const answer = await this.request("GET", "/api/tile", { image, level, x, y }, undefined, signal);
    return createImageBitmap(await answer.blob());
  }

  async crop(image: string, region: Region, max: number): Promise<GrayCrop> {
    const [x0, y0, x1, y1] = region;
    const answer = await this.request("GET", "/api/crop", { image, x0, y0, x1, y1, max });
    const bitmap = await createImageBitmap(await answer.blob(), { colorSpaceConversion: "none" });
    const { width, height } = bitmap;
    const canvas = new OffscreenCanvas(width, height);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    if (!context) throw new BackendError("The browser gave no 2-D canvas to read the image.", 0);
    context.drawImage(bitmap, 0, 0);
    bitmap.close();
    const rgba = context.getImageData(0, 0, width, height).data;
    const data = new Float32Array(width * height);
    for (let i = 0; i < data.length; i++) {
      data[i] = (0.299 * rgba[4 * i]! + 0.587 * rgba[4 * i + 1]! + 0.114 * rgba[4 * i + 2]!) / 255;
    }
    return { width, height, data, x0, y0, scaleX: width / (x1 - x0), scaleY: height / (y1 - y0) };
  }

  skeleton(image: string): Promise<LoadedSkeleton> {
    return this.json("GET", "/api/skeleton", { image });
  }

  draft(image: string, window: string): Promise<{ document: SkeletonDocument; revision: string | null; time?: number }> {
    return this.json("GET", "/api/draft", { image, window });
  }

  save(request: SaveRequest): Promise<SavedSkeleton> {
    return this.json("PUT", "/api/skeleton", {}, request);
  }

  async saveDraft(request: DraftRequest): Promise<void> {
    await this.request("PUT", "/api/draft", {}, request);
  }

  async deleteDraft(image: string, window: string, time?: number): Promise<void> {
    await this.request("DELETE", "/api/draft", { image, window, time });
  }

  async predict(image: string, workingSize: WorkingSize, region: Region | null, views = 1): Promise<string> {
    const body = { image, working_size: workingSize, region, views };
    return (await this.json<{ job: string }>("POST", "/api/predict", {}, body)).job;
  }

  async predictMissing(): Promise<string> {
    return (await this.json<{ job: string }>("POST", "/api/predict-missing", {}, {})).job;
  }

  async predictAgain(): Promise<string> {
    return (await this.json<{ job: string }>("POST", "/api/predict-again", {}, {})).job;
  }

  async next(): Promise<string[]> {
    return (await this.json<{ images: string[] }>("GET", "/api/next")).images;
  }

  training(): Promise<TrainingInfo> {
    return this.json("GET", "/api/training");
  }

  async hasGpu(): Promise<boolean> {
    return (await this.json<{ gpu: boolean }>("GET", "/api/gpu")).gpu;
  }

  startTraining(maxMinutes: number | null, unannotated: boolean, includeUnaccepted: boolean): Promise<TrainingInfo> {
    const options = { max_minutes: maxMinutes, unannotated, include_unaccepted: includeUnaccepted };
    return this.json("POST", "/api/training", {}, options);
  }

  stopTraining(): Promise<TrainingInfo> {
    return this.json("DELETE", "/api/training");
  }

  async jobs(): Promise<JobInfo[]> {
    return (await this.json<{ jobs: JobInfo[] }>("GET", "/api/jobs")).jobs;
  }

  async cancelJob(job: string): Promise<void> {
    await this.request("DELETE", "/api/jobs", { job });
  }

  traits(document: SkeletonDocument, pxPerMm: number | null): Promise<TraitTable> {
    return this.json("POST", "/api/traits", {}, { document, px_per_mm: pxPerMm });
  }

  traitsTable(): string {
    return this.address("/api/traits.csv", {});
  }

  private address(path: string, query: Query): string {
    const pairs = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
    const text = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString();
    return this.base + path + (text ? `?${text}` : "");
  }

  private async json<T>(method: string, path: string, query: Query = {}, body?: unknown): Promise<T> {
    return (await this.request(method, path, query, body)).json() as Promise<T>;
  }

  private async request(
    method: string,
    path: string,
    query: Query = {},
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<Response> {
    const options: RequestInit = { method, credentials: "same-origin" };
    if (signal) options.signal = signal;
    if (body !== undefined) {
      options.body = JSON.stringify(body);
      options.headers = { "Content-Type": "application/json" };
    }
    let answer: Response;
    try {
      answer = await this.fetcher(this.address(path, query), options);
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new BackendError("The server does not answer. Is `treeformer edit` still running?", 0);
    }
    if (answer.ok) return answer;
    const parsed = (await answer.json().catch(() => null)) as Record<string, unknown> | null;
    const message = typeof parsed?.error === "string" ? parsed.error : `The server answered ${answer.status}.`;
    if (answer.status === 409 && parsed && typeof parsed.document === "object" && parsed.document) {
      throw new ConflictError(message, (parsed.revision ?? null) as string | null, parsed.document as SkeletonDocument);
    }
    throw new BackendError(message, answer.status);
  }
}
