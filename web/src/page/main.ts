/** The static page: the editor with images, drafts and predictions in this browser. */

import { mount } from "svelte";
import { example, files, version } from "virtual:page-files";
import "../page.css";
import "../ui/theme.css";
import { LocalBackend } from "./backend.ts";
import { serviceWorkerReady } from "./offline.ts";
import Page from "./Page.svelte";
import { Predictor } from "./predictor.ts";
import { status } from "./status.svelte.ts";
import { Store } from "./store.ts";
import { missingFeature } from "./support.ts";

const absolute = (address: string): string => new URL(address, document.baseURI).href;

async function start(target: HTMLElement): Promise<void> {
  const missing = missingFeature(globalThis);
  const backend = new LocalBackend(await Store.open(), version);
  await backend.open();
  let predictor: Predictor | null = null;
  if (missing === null) {
    const worker = new Worker(new URL("../predict/worker.ts", import.meta.url), { type: "module" });
    const keep = backend.keepPrediction.bind(backend);
    predictor = new Predictor(worker, keep, () => {
      if (!predictor) return;
      status.model = predictor.state;
      status.seconds = predictor.seconds;
      status.networkSeconds = predictor.networkSeconds;
      status.kept = predictor.kept;
    });
    backend.use(predictor);
  } else status.model = { kind: "unusable", message: missing };
  mount(Page, { target, props: { backend, status, example: absolute(example) } });
  void serviceWorkerReady(navigator.serviceWorker).then((ready) => (status.served = ready));
  predictor?.load(
    {
      settings: absolute(files.settings),
      weights: { ...files.weights, address: absolute(files.weights.address) },
      runtime: { ...files.runtime, address: absolute(files.runtime.address) },
    },
    version,
  );
}

const target = document.getElementById("app");
if (target) {
  start(target).catch((error: unknown) => {
    target.textContent = `The page cannot start: ${error instanceof Error ? error.message : String(error)}`;
  });
}
