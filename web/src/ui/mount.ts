/** Entry points: the whole page, or the editor of one image inside any element (notebook widget, static page). */

import { mount, unmount } from "svelte";
import type { Backend, SkeletonDocument } from "../api";
import App from "./App.svelte";
import EditorView from "./EditorView.svelte";
import type { EditorController } from "./controller.svelte";
import "./theme.css";

export interface Mounted {
  /** The editor of the image that is open; null while none is. */
  readonly controller: EditorController | null;
  destroy(): void;
}

/** Mount folder list and editor. */
export function mountApp(target: HTMLElement, backend: Backend): Mounted {
  let controller: EditorController | null = null;
  const app = mount(App, { target, props: { backend, oncontroller: (c: EditorController | null) => (controller = c) } });
  const mounted: Mounted = {
    get controller() {
      return controller;
    },
    destroy: () => void unmount(app),
  };
  // For people who script the page, and for its tests.
  Object.assign(window, { treeformer: mounted });
  return mounted;
}

export interface EditorOptions {
  image: string;
  /** Called after each change with the current document. */
  onchange?: (document: SkeletonDocument) => void;
}

/** Mount the editor of one image. It listens to keys only while it has the focus. */
export function mountEditor(target: HTMLElement, backend: Backend, options: EditorOptions): Mounted {
  let controller: EditorController | null = null;
  const view = mount(EditorView, {
    target,
    props: {
      backend,
      image: options.image,
      keys: "element",
      oncontroller: (c: EditorController | null) => (controller = c),
      ...(options.onchange ? { onchange: options.onchange } : {}),
    },
  });
  return {
    get controller() {
      return controller;
    },
    destroy: () => void unmount(view),
  };
}
