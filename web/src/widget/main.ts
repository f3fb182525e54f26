/** The editor as a widget of Jupyter notebooks, see https://anywidget.dev. */

import type { SkeletonDocument } from "../api";
import { type Mounted, mountEditor } from "../ui/mount";
import { WidgetBackend } from "./backend.ts";

/** The part of anywidget's model that is used: traits that Python and the page share. */
export interface Model {
  get(name: "_document" | "_name"): string;
  get(name: "_image"): DataView;
  get(name: "_size"): [number, number];
  get(name: "height"): number;
  set(name: "_document", value: string): void;
  save_changes(): void;
  on(event: string, callback: () => void): void;
  off(event: string, callback: () => void): void;
}

const SEND_AFTER_MS = 100;

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const image = model.get("_image");
  const bytes = new Uint8Array(image.buffer, image.byteOffset, image.byteLength) as Uint8Array<ArrayBuffer>;
  const photo = { bitmap: createImageBitmap(new Blob([bytes])), size: model.get("_size") };
  photo.bitmap.catch(() => undefined); // the editor shows the error
  // JupyterLab handles keys before the page does, unless an element asks it not to.
  el.setAttribute("data-lm-suppress-shortcuts", "true");
  const host = el.appendChild(document.createElement("div"));
  const resize = (): void => void (host.style.height = `${model.get("height")}px`);
  resize();

  /** The document as this view sent or read it last. */
  let known = "";
  let mounted: Mounted | null = null;
  let timer: ReturnType<typeof setTimeout> | null = null;
  /** Counts the editors of this view: one that was replaced must not send its last draft over the new document. */
  let turn = 0;

  function send(value: SkeletonDocument): void {
    const text = JSON.stringify(value);
    if (text === known) return;
    known = text;
    model.set("_document", text);
    model.save_changes();
  }

  function mountAgain(): void {
    if (timer !== null) clearTimeout(timer);
    const own = ++turn;
    mounted?.destroy();
    known = model.get("_document");
    const sendOwn = (value: SkeletonDocument): void => {
      if (own === turn) send(value);
    };
    const backend = new WidgetBackend(photo, () => JSON.parse(known) as SkeletonDocument, sendOwn);
    mounted = mountEditor(host, backend, {
      image: model.get("_name"),
      onchange: () => {
        if (timer !== null) clearTimeout(timer);
        timer = setTimeout(() => mounted?.controller && sendOwn(mounted.controller.document(false)), SEND_AFTER_MS);
      },
    });
    // For people who script the widget, and for its tests.
    Object.assign(host, { treeformer: mounted });
  }

  // Python or another view of the widget has set the skeleton.
  const changed = (): void => {
    if (model.get("_document") !== known) mountAgain();
  };

  mountAgain();
  model.on("change:_document", changed);
  model.on("change:height", resize);
  return () => {
    model.off("change:_document", changed);
    model.off("change:height", resize);
    mounted?.destroy();
    void photo.bitmap.then((bitmap) => bitmap.close()).catch(() => undefined);
  };
}

export default { render };
