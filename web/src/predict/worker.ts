// The worker of the static page: downloads the model, runs it with onnxruntime-web, decodes.

import * as ort from "onnxruntime-web/wasm";
import { forestDocument, predictionMetadata } from "./document.ts";
import { BitmapReader, openImage } from "./image/open.ts";
import { fetchOk, keep } from "./keep.ts";
import type { FromWorker, ModelFiles, ToWorker } from "./messages.ts";
import type { RawOutput } from "./output.ts";
import { predictImage } from "./pipeline.ts";
import { moved, pixelRegion } from "./region.ts";
import type { ModelSettings } from "./settings.ts";

/** More threads do not help one image of 512×512 px. */
const MAX_THREADS = 4;

interface Loaded {
  readonly session: ort.InferenceSession;
  readonly settings: ModelSettings;
  readonly engineName: string;
  readonly version: string;
}

class Cancelled extends Error {}

const say = (message: FromWorker): void => postMessage(message);
const cancelled = new Set<string>();
// Images may be dropped before the page asks to load the model: they wait for it.
let begin: (model: Promise<Loaded>) => void = () => undefined;
const loaded = new Promise<Loaded>((resolve) => (begin = resolve));
let queue: Promise<void> = Promise.resolve();

// The threads of the runtime load this file, too, and have messages of their own.
const isThread = self.name.startsWith("em-pthread");

function hear({ data }: MessageEvent<ToWorker>): void {
  if (data.kind === "load") {
    begin(load(data.files, data.version));
    loaded.catch((error: unknown) => say({ kind: "unusable", message: messageOf(error) }));
  } else if (data.kind === "cancel") {
    cancelled.add(data.job);
  } else {
    queue = queue.then(() => predict(data));
  }
}

if (!isThread) self.onmessage = hear;

async function load(files: ModelFiles, version: string): Promise<Loaded> {
  const start = performance.now();
  const total = files.weights.bytes + files.runtime.bytes;
  let done = 0;
  const count = (bytes: number): void => say({ kind: "download", loaded: (done += bytes), total });
  const [text, weights, runtime] = await Promise.all([
    fetchOk(files.settings, self.caches).then((answer) => answer.text()),
    download(files.weights.address, count),
    download(files.runtime.address, count),
  ]);
  const settings = JSON.parse(text) as ModelSettings;
  const stored = new Map<string, BodyInit>([
    [files.settings, text], [files.weights.address, weights], [files.runtime.address, runtime],
  ]);
  void keep(stored, self.caches).then((done) => done && say({ kind: "kept" }));
  // Threads share memory, which browsers allow only to pages that are isolated from other origins.
  const threads = self.crossOriginIsolated ? Math.min(MAX_THREADS, navigator.hardwareConcurrency) : 1;
  ort.env.wasm.numThreads = threads;
  ort.env.wasm.wasmBinary = runtime;
  ort.env.wasm.proxy = false;
  const session = await ort.InferenceSession.create(weights, { executionProviders: ["wasm"], logSeverityLevel: 3 });
  say({ kind: "ready", settings, threads, seconds: (performance.now() - start) / 1000 });
  const engineName = `onnxruntime-web int8, ${threads} ${threads === 1 ? "thread" : "threads"}`;
  return { session, settings, engineName, version };
}

async function download(address: string, count: (bytes: number) => void): Promise<ArrayBuffer> {
  const answer = await fetchOk(address, self.caches);
  const parts: Uint8Array[] = [];
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    count(value.length);
  }
  return new Blob(parts as BlobPart[]).arrayBuffer();
}

async function predict({ job, file, name, workingSize, region }: Extract<ToWorker, { kind: "predict" }>): Promise<void> {
  const check = async (): Promise<void> => {
    // A turn of the event loop, so that a request to cancel can arrive.
    await new Promise((resolve) => setTimeout(resolve));
    if (cancelled.has(job)) throw new Cancelled();
  };
  let bitmap: ImageBitmap | null = null;
  try {
    const { session, settings, engineName, version } = await loaded;
    await check();
    const start = performance.now();
    const image = await openImage(file, name);
    bitmap = image.bitmap;
    const size = [bitmap.width, bitmap.height] as const;
    const box = region === null ? null : pixelRegion(region, size);
    if (region !== null && box === null) throw new Error("The region is too small.");
    const side = settings.input_size;
    let networkMs = 0;
    const engine = async (rgb: Uint8Array): Promise<RawOutput> => {
      await check();
      const before = performance.now();
      const results = await session.run({ images: new ort.Tensor("uint8", rgb, [1, side, side, 3]) });
      networkMs += performance.now() - before;
      return output(results);
    };
    const progress = (done: number, total: number): void => say({ kind: "progress", job, done, total });
    const reader = new BitmapReader(image, box);
    const { forest, options } = await predictImage(reader, settings, workingSize, engine, engineName, progress);
    const whole = box === null ? forest : moved(forest, box, size);
    const document = forestDocument(whole, name, predictionMetadata(settings, options, version));
    const seconds = (performance.now() - start) / 1000;
    say({ kind: "done", job, document, seconds, networkSeconds: networkMs / 1000 });
  } catch (error) {
    if (error instanceof Cancelled) say({ kind: "cancelled", job });
    else say({ kind: "failed", job, message: messageOf(error) });
  } finally {
    bitmap?.close();
    cancelled.delete(job);
  }
}

function output(results: ort.InferenceSession.OnnxValueMapType): RawOutput {
  const values = (name: string): Float32Array => (results[name] as ort.Tensor).data as Float32Array;
  return {
    nodeScore: values("node_score"),
    points: values("points"),
    edgeCost: values("edge_cost"),
    rootLogit: values("root_logit"),
    attributes: results.attributes === undefined ? null : values("attributes"),
  };
}

function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.split("\n")[0] ?? text;
}
