/** Connects the editor core with the canvas, the backend and the components. One per open image. */

import type { Backend, JobInfo, LoadedSkeleton, Region, SessionInfo, SkeletonDocument, WorkingSize } from "../api";
import { setScale } from "../core/actions";
import { applyCorrection, type Correction, corrections } from "../core/corrections";
import { fromDocument, loadDocument } from "../core/document";
import type { Graph, NodeId } from "../core/graph";
import { moveReason, moveRow, type OutlineRow } from "../core/outline";
import { Editor } from "../editor/editor";
import type { Command, EditorState, Hint, Modifiers, Operation, OperationId, Point } from "../editor/types";
import type { GestureHandlers } from "./canvas/gestures";
import type { Marks } from "./canvas/overlay";
import { buildScene } from "./canvas/scene";
import { Stage } from "./canvas/stage";
import { type Box, View } from "./canvas/view";
import { marksOf, sceneNodes } from "./drawn";
import { axisMeasures, axisOf, imageMeasures } from "./live";
import { MODE_LABELS, PANEL } from "./modes";
import { Pointing, type Surface } from "./pointing";
import type { ReviewRow } from "./rows";
import { scaleBar } from "./scalebar";
import { messageOf, type SaveState, Session, windowName } from "./session";
import { toleranceFor } from "./series";
import { type Adjustments, NO_ADJUSTMENTS, type Settings } from "./settings";
import { imageTracer } from "./tracer";
import { type Measure, type TraitRows, transposed } from "./traits";

/** What the component around the controller provides. */
export interface Surroundings {
  settings(): Settings;
  change(patch: Partial<Settings>): void;
  session(): SessionInfo | null;
  step(by: number): void;
  /** Open the next image that is not accepted; false if there is none. */
  next(): boolean;
  saved(): void;
  job(): void;
  scale(pxPerMm: number | null): void;
  changed(): void;
}

export interface Notice {
  text: string;
  actions: { label: string; run: () => void }[];
}

const NO_MODIFIERS: Modifiers = { shift: false, ctrl: false, alt: false };
const PAN_STEP_PX = 80;
const ZOOM_STEP = 1.4;
const TABLE_DELAY_MS = 400;
const JOB_POLL_MS = 400;
const DEFAULT_LOW_CONFIDENCE = 0.5;
/** Nodes and edges within this distance of the cursor of the keyboard are hit, CSS px. */
const KEY_REACH_PX = 9;

export class EditorController {
  state = $state.raw<EditorState | null>(null);
  ready = $state(false);
  loading = $state(true);
  overlay = $state(true);
  adjustments = $state<Adjustments>({ ...NO_ADJUSTMENTS });
  dialog = $state<"help" | "scale" | "predict" | "conflict" | null>(null);
  notice = $state.raw<Notice | null>(null);
  save = $state<SaveState>("saved");
  saveMessage = $state("");
  pointer = $state.raw<Point | null>(null);
  view = $state.raw<View>(new View(1, 0, 0, 1, 1));
  modifiers = $state.raw<Modifiers>(NO_MODIFIERS);
  predicting = $state<string | null>(null);
  table = $state.raw<TraitRows | null>(null);
  region = $state.raw<Region | null>(null);
  private flash = $state("");

  private readonly editor = new Editor();
  readonly operations: readonly Operation[] = $derived(this.state ? this.editor.operations() : []);
  readonly hints: readonly Hint[] = $derived(this.state ? this.editor.hints(this.modifiers) : []);
  readonly editOperations = $derived(
    PANEL.flatMap((id) => this.operations.find((operation) => operation.id === id) ?? []),
  );
  readonly reviewRows: ReviewRow[] = $derived(
    (this.state?.review ?? []).map(({ key, kind, text, severity }) => ({
      key,
      title: text || kind,
      detail: severity.toFixed(2),
    })),
  );
  readonly imageMeasures: Measure[] = $derived(this.state ? imageMeasures(this.state.graph) : []);
  private readonly axis = $derived(this.state ? axisOf(this.state) : null);
  readonly axisMeasures: Measure[] = $derived(
    this.state && this.axis !== null ? axisMeasures(this.state.graph, this.axis.id) : [],
  );
  readonly axisTitle = $derived(this.axis?.title ?? "");
  readonly modeLabel = $derived(MODE_LABELS[this.state?.mode ?? "browse"]);
  readonly message = $derived(this.flash || (this.state?.message ?? ""));
  readonly zoom = $derived(this.view.scale);
  readonly scaleBar = $derived(this.state ? scaleBar(this.view.scale, this.state.graph.pxPerMm) : null);
  readonly cursor = $derived.by(() => {
    const state = this.state;
    if (!state) return "default";
    if (state.mode === "drag") return "grabbing";
    if (state.mode !== "browse" && state.mode !== "select") return "crosshair";
    return state.hover ? "pointer" : "grab";
  });

  stage: Stage | null = null;
  readonly session: Session;
  readonly gestures: GestureHandlers;
  private readonly pointing: Pointing;
  /** What another date offers, px of this image. */
  private offered: readonly Correction[] = [];
  private loaded: Graph | null = null;
  private drawn: Graph | null = null;
  private noted: Graph | null = null;
  private reviewKey: string | null = null;
  private destroyed = false;
  private tableTimer: ReturnType<typeof setTimeout> | null = null;
  private flashTimer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly backend: Backend,
    readonly image: string,
    private readonly around: Surroundings,
  ) {
    this.session = new Session(backend, image, windowName(sessionStorageOrNull()), {
      document: (accepted) => this.document(accepted),
      status: (state, message) => {
        this.save = state;
        this.saveMessage = message;
        if (state === "saved" && this.state?.dirty) this.editor.markSaved();
        if (message) this.tell(message);
      },
    });
    this.pointing = new Pointing(this.editor, this.surface());
    this.gestures = this.pointing.gestures();
    this.editor.setTracer(imageTracer(backend, image, () => this.stage?.imageSize ?? null));
    this.editor.subscribe((state) => this.onState(state));
  }

  private surface(): Surface {
    const controller = this;
    return {
      get view() {
        return controller.view;
      },
      get stage() {
        return controller.stage;
      },
      get overlay() {
        return controller.overlay;
      },
      get snapping() {
        return controller.around.settings().snapping;
      },
      moved: (to) => (this.pointer = to),
      began: () => this.began(),
    };
  }

  /** Somebody began to do something: work counts, and the last message is old. */
  private began(): void {
    this.editor.touch(Date.now() / 1000);
    this.flash = "";
  }

  // ---- life ---------------------------------------------------------------------------------

  attach(host: HTMLElement, photo: HTMLCanvasElement, drawing: HTMLCanvasElement): void {
    this.stage = new Stage(host, photo, drawing, (view) => (this.view = view));
    void this.open();
  }

  destroy(): void {
    this.destroyed = true;
    void this.session.close();
    this.stage?.destroy();
    this.stage = null;
    if (this.tableTimer) clearTimeout(this.tableTimer);
    if (this.flashTimer) clearTimeout(this.flashTimer);
  }

  /** Before another image is opened: write the draft. */
  async leave(): Promise<void> {
    await this.session.flush();
  }

  private async open(): Promise<void> {
    // Image and skeleton arrive independently; the photograph is shown first.
    const picture = this.backend.pyramid(this.image, this.stage?.shownSize).then((pyramid) => {
      this.stage?.setImage(pyramid, (level, x, y, signal) => this.backend.tile(this.image, level, x, y, signal));
    });
    try {
      const [loaded] = await Promise.all([this.session.load(), picture]);
      if (this.destroyed) return;
      this.show(loaded);
      this.ready = true;
    } catch (error) {
      this.notice = {
        text: messageOf(error),
        actions: [{ label: "Try again", run: () => void (this.notice = null, this.open()) }],
      };
    } finally {
      this.loading = false;
    }
  }

  private show(loaded: LoadedSkeleton): void {
    const { graph, info, notes } = loadDocument(loaded.document);
    this.noted = graph;
    this.loaded = graph;
    this.drawn = null;
    this.editor.load(graph, { ...info, model: info.model ?? this.predictedBy(loaded.document) });
    this.around.scale(graph.pxPerMm);
    const [older] = loaded.other_drafts ?? [];
    if (loaded.origin === "draft") {
      this.notice = {
        text: "Unsaved work of an earlier session was recovered.",
        actions: [
          { label: "Keep it", run: () => (this.notice = null) },
          { label: "Discard it", run: () => void this.discardDraft() },
        ],
      };
    } else if (older) {
      this.notice = {
        text: "There is unsaved work that began from an older version of this file.",
        actions: [
          { label: "Load it", run: () => void this.loadDraft(older.window) },
          { label: "Delete it", run: () => void this.backend.deleteDraft(this.image, older.window).then(() => (this.notice = null)) },
        ],
      };
    } else if (loaded.origin === "import" && loaded.file) {
      this.tell(`Imported ${loaded.file}; the file is kept when you save.`);
    } else if (notes.length > 0) {
      this.tell(notes.join(" "));
    }
  }

  private predictedBy(document: SkeletonDocument): { name: string; version: string; hash: string } | null {
    const model = this.around.session()?.model;
    const metadata = document.metadata as Record<string, unknown> | undefined;
    if (!model || metadata?.model !== model.name) return null;
    return { name: model.name, version: String(model.version), hash: model.hash };
  }

  private async discardDraft(): Promise<void> {
    this.notice = null;
    try {
      const loaded = await this.session.discardDraft();
      // A step of the history, so that undo brings the draft back.
      this.replaceAll("Discard draft", loaded.document);
    } catch (error) {
      this.tell(messageOf(error));
    }
  }

  private async loadDraft(window: string): Promise<void> {
    this.notice = null;
    try {
      const { document, revision } = await this.backend.draft(this.image, window);
      this.session.revision = revision;
      this.replaceAll("Load draft", document);
    } catch (error) {
      this.tell(messageOf(error));
    }
  }

  private replaceAll(annotation: string, document: SkeletonDocument): void {
    const graph = fromDocument(document);
    this.editor.perform(annotation, () => graph);
  }

  // ---- state --------------------------------------------------------------------------------

  document(accepted: boolean): SkeletonDocument {
    return this.editor.document(accepted) as SkeletonDocument;
  }

  private onState(state: EditorState): void {
    const before = this.state;
    this.state = state;
    if (state.graph !== this.drawn) this.rebuild(state);
    this.stage?.setMarks(this.marks(state));
    if (state.graph !== this.noted && state.mode !== "drag") {
      this.noted = state.graph;
      this.session.changed();
      this.around.changed();
      if (before?.graph.pxPerMm !== state.graph.pxPerMm) this.around.scale(state.graph.pxPerMm);
    }
    const key = state.reviewItem?.key ?? null;
    if (key !== this.reviewKey) {
      this.reviewKey = key;
      if (state.reviewItem) this.revealReview(state.reviewItem);
    }
    if (state.scaleLine !== null && before?.scaleLine !== state.scaleLine) this.dialog = "scale";
    if (state.region && before?.region !== state.region) {
      this.region = [...state.region] as Region;
      this.dialog = "predict";
    }
  }

  private rebuild(state: EditorState): void {
    this.drawn = state.graph;
    const { colorBy, widthByRadius } = this.around.settings();
    const nodes = sceneNodes(state.graph, colorBy);
    this.stage?.setScene(buildScene(nodes, { colorBy, widthByRadius, lowThreshold: this.lowThreshold }));
  }

  /** Settings changed: build the scene again. */
  restyle(): void {
    const { nodes, axes } = this.around.settings();
    this.stage?.setOptions({ nodes, axes, overlay: this.overlay });
    if (this.state) {
      this.rebuild(this.state);
      this.stage?.setMarks(this.marks(this.state));
    }
  }

  get lowThreshold(): number {
    return this.around.session()?.low_confidence_threshold ?? DEFAULT_LOW_CONFIDENCE;
  }

  private marks(state: EditorState): Marks {
    const { axes } = this.around.settings();
    return marksOf(state, { offered: this.offered, cursor: this.cursorMark(state), labels: axes });
  }

  private revealReview(item: { x: number; y: number }): void {
    const size = this.stage?.imageSize;
    if (!this.stage || !size) return;
    const fit = Math.min(this.stage.view.width / size.width, this.stage.view.height / size.height);
    this.stage.reveal(item, Math.min(2, 3 * fit));
  }

  private revealSelection(): void {
    const state = this.state;
    if (!state || !this.stage) return;
    const id = state.edge ?? [...state.selection].at(-1);
    const node = id === undefined ? undefined : state.graph.get(id);
    if (node) this.stage.reveal(node);
  }

  private tell(text: string): void {
    this.flash = text;
    if (this.flashTimer) clearTimeout(this.flashTimer);
    this.flashTimer = setTimeout(() => (this.flash = ""), 4000);
  }

  // ---- keys and operations ------------------------------------------------------------------

  setModifiers(next: Modifiers): void {
    const { shift, ctrl, alt } = this.modifiers;
    if (next.shift !== shift || next.ctrl !== ctrl || next.alt !== alt) {
      this.modifiers = next;
      if (this.pointing.last) this.editor.pointerMove({ ...this.pointing.last, ...next });
    }
  }

  /** Handle a key; true if it was used. */
  key(event: KeyboardEvent): boolean {
    this.began();
    const ctrl = event.ctrlKey || event.metaKey;
    if (ctrl && event.key === "Enter") {
      void this.acceptAndNext();
      return true;
    }
    const before = this.state;
    this.placeCursor();
    const { handled, command } = this.editor.key({ key: event.key, shift: event.shiftKey, ctrl, alt: event.altKey });
    if (command) {
      this.command(command);
      return true;
    }
    // Steps along the skeleton are followed; edits leave the view where it is.
    const after = this.state;
    const stepped = before?.graph === after?.graph && before?.selection !== after?.selection;
    if (handled && stepped && after?.mode === "select" && !after.reviewItem) this.revealSelection();
    if (handled && this.cursorMark(after) && event.key.startsWith("Arrow")) this.stage?.reveal(this.editor.cursorAt);
    return handled;
  }

  /** Without a pointer over the canvas, keys begin in the middle of the view, or at the selected node. */
  private placeCursor(): void {
    const { view, state } = this;
    if (this.pointing.last || !state || !(state.mode === "browse" || state.mode === "select")) return;
    const [only] = state.selection.size === 1 ? state.selection : [];
    const node = only === undefined ? undefined : state.graph.get(only);
    const { x, y } = node ?? view.toImage({ x: view.width / 2, y: view.height / 2 });
    this.editor.placeCursor({ x, y, tolerance: KEY_REACH_PX / view.scale });
  }

  private cursorMark(state: EditorState | null): Point | null {
    const isTool = state && state.mode !== "browse" && state.mode !== "select" && state.mode !== "drag";
    return isTool && !this.pointing.last ? this.editor.cursorAt : null;
  }

  run(id: OperationId, focus?: HTMLElement): void {
    this.began();
    this.editor.run(id);
    focus?.focus();
  }

  available(id: OperationId): boolean {
    return this.operations.some((operation) => operation.id === id && operation.available);
  }

  private command(command: Command): void {
    const stage = this.stage;
    const settings = this.around.settings();
    const actions: Record<Command, () => void> = {
      save: () => void this.saveNow(false),
      "previous-image": () => this.around.step(-1),
      "next-image": () => this.around.step(1),
      fit: () => stage?.fit(),
      "fit-selection": () => this.fitSelection(),
      "zoom-in": () => stage?.zoom(ZOOM_STEP),
      "zoom-out": () => stage?.zoom(1 / ZOOM_STEP),
      "pan-left": () => stage?.pan(PAN_STEP_PX, 0),
      "pan-right": () => stage?.pan(-PAN_STEP_PX, 0),
      "pan-up": () => stage?.pan(0, PAN_STEP_PX),
      "pan-down": () => stage?.pan(0, -PAN_STEP_PX),
      "color-confidence": () => (settings.colorBy = "confidence"),
      "color-plant": () => (settings.colorBy = "plant"),
      "color-order": () => (settings.colorBy = "order"),
      "color-axis": () => (settings.colorBy = "axis"),
      "toggle-overlay": () => (this.overlay = !this.overlay),
      invert: () => (this.adjustments.invert = !this.adjustments.invert),
      help: () => (this.dialog = "help"),
    };
    actions[command]();
  }

  private fitSelection(): void {
    const state = this.state;
    if (!state) return;
    const ids: NodeId[] = state.edge !== null ? [state.edge, state.graph.node(state.edge).parent ?? state.edge] : [...state.selection];
    const nodes = ids.flatMap((id) => state.graph.get(id) ?? []);
    if (nodes.length === 0) {
      this.stage?.fit();
      return;
    }
    const box: Box = {
      x0: Math.min(...nodes.map((n) => n.x)),
      y0: Math.min(...nodes.map((n) => n.y)),
      x1: Math.max(...nodes.map((n) => n.x)),
      y1: Math.max(...nodes.map((n) => n.y)),
    };
    this.stage?.fitBox(box);
  }

  /** Select the nodes of a row of the outline and bring its first one into view. */
  selectRow(row: OutlineRow): void {
    this.editor.touch(Date.now() / 1000);
    this.editor.select(row.nodes);
    const node = this.state?.graph.get(row.nodes[0] ?? -1);
    if (node) this.stage?.reveal(node);
  }

  /** Attach a row of the outline to another one. */
  moveRow(row: OutlineRow, target: OutlineRow): void {
    const graph = this.state?.graph;
    if (!graph) return;
    this.editor.touch(Date.now() / 1000);
    const reason = moveReason(graph, row, target);
    if (reason !== null) this.tell(reason);
    else this.editor.perform(row.axis === null ? "Attach plant" : "Move axis", moveRow(row, target));
  }

  selectReview(key: string): void {
    const item = this.state?.review.find((one) => one.key === key);
    if (!item) return;
    this.reviewKey = null;
    this.editor.review(item);
  }

  setFilter(filter: string): void {
    this.stage?.setFilter(filter);
  }

  toggleTheme(root: HTMLElement): void {
    const now = root.closest("[data-theme]")?.getAttribute("data-theme");
    this.around.change({ theme: now === "dark" ? "light" : "dark" });
  }

  closeDialog(focus: HTMLElement): void {
    this.dialog = null;
    this.region = null;
    queueMicrotask(() => focus.focus());
  }

  // ---- scale and traits ---------------------------------------------------------------------

  /** Set the scale from the drawn line. */
  setScale(millimeters: number): void {
    this.editor.setScale(millimeters);
  }

  clearScale(): void {
    this.editor.perform("Remove scale", setScale(null));
  }

  requestTable(): void {
    if (this.tableTimer) clearTimeout(this.tableTimer);
    this.tableTimer = setTimeout(async () => {
      const graph = this.state?.graph;
      if (!graph) return;
      try {
        const table = transposed(await this.backend.traits(this.document(false), graph.pxPerMm));
        if (this.state?.graph === graph) this.table = table;
      } catch (error) {
        this.tell(messageOf(error));
      }
    }, TABLE_DELAY_MS);
  }

  // ---- files --------------------------------------------------------------------------------

  async saveNow(accepted: boolean): Promise<boolean> {
    const saved = await this.session.save(accepted);
    if (saved) this.around.saved();
    else if (this.session.conflict) this.dialog = "conflict";
    return saved;
  }

  async acceptAndNext(): Promise<void> {
    if ((await this.saveNow(true)) && !this.around.next()) this.tell("Saved. All images are accepted.");
  }

  async keepMine(): Promise<void> {
    const conflict = this.session.conflict;
    if (!conflict) return;
    const mine = this.state?.graph;
    this.dialog = null;
    if (mine) {
      // Their version becomes a step below mine: undo reaches it.
      this.replaceAll("Version of the other window", conflict.document);
      this.editor.perform("My version", () => mine);
    }
    if (await this.session.keepMine()) this.around.saved();
    else if (this.session.conflict) this.dialog = "conflict";
  }

  async takeTheirs(): Promise<void> {
    const document = await this.session.takeTheirs();
    this.dialog = null;
    if (!document) return;
    const graph = fromDocument(document);
    this.noted = graph;
    this.editor.perform("Version of the other window", () => graph);
    this.editor.markSaved();
    this.around.saved();
  }

  /** Download my version, then continue with theirs. */
  downloadCopy(): void {
    const text = JSON.stringify(this.document(false));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = `${this.image.split("/").at(-1)!.replace(/\.[^.]*$/, "")}.copy.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    void this.takeTheirs();
  }

  /** One line about a document; null describes mine. */
  describe(other: SkeletonDocument | null): string {
    try {
      const { graph, info } = other ? loadDocument(other) : loadDocument(this.document(false));
      return `${graph.size} nodes, ${graph.roots.length} trees, ${info.actions} actions, ${Math.round(info.seconds)} s of work`;
    } catch (error) {
      return messageOf(error);
    }
  }

  // ---- predictions --------------------------------------------------------------------------

  askPredict(): void {
    this.region = null;
    this.dialog = "predict";
  }

  async predict(size: WorkingSize, region: Region | null): Promise<void> {
    try {
      const job = await this.backend.predict(this.image, size, region);
      this.predicting = job;
      this.around.job();
      const done = await this.finished(job);
      if (this.destroyed || !done) return;
      if (done.state === "failed") this.tell(done.error ?? "The prediction failed.");
      if (done.state !== "done" || !done.document) return;
      if (region) this.editor.mergeRegion(done.document, region);
      else await this.takePrediction(done.document);
    } catch (error) {
      this.tell(messageOf(error));
    } finally {
      this.predicting = null;
    }
  }

  private async takePrediction(document: SkeletonDocument): Promise<void> {
    const fresh = fromDocument(document);
    this.editor.perform("Predict again", (graph) =>
      fresh.with({ pxPerMm: graph.pxPerMm, metadata: { ...graph.metadata, ...fresh.metadata } }),
    );
    if (this.session.revision === null) {
      // The first prediction of an image is saved by the server: continue from that file.
      this.session.revision = (await this.backend.skeleton(this.image)).result_revision;
      this.around.saved();
    }
  }

  private async finished(job: string): Promise<JobInfo | null> {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, JOB_POLL_MS));
      if (this.destroyed) return null;
      const found = (await this.backend.jobs()).find((one) => one.job === job);
      if (!found || (found.state !== "waiting" && found.state !== "running")) return found ?? null;
    }
  }

  /** The list says that the image was predicted in the background: show it if nothing was changed here. */
  async refresh(): Promise<void> {
    if (this.predicting || !this.ready) return;
    const loaded = await this.session.reload();
    if (loaded && !this.destroyed) this.show(loaded);
  }

  // ---- series -------------------------------------------------------------------------------

  /** What was corrected since the image was opened. */
  corrections(): Correction[] {
    const now = this.state?.graph;
    return this.loaded && now && this.ready ? corrections(this.loaded, now) : [];
  }

  /** Show those corrections that would change something here. Return their number. */
  offer(list: readonly Correction[]): number {
    const { state, stage } = this;
    if (!state || !stage?.imageSize) return 0;
    const tolerance = toleranceFor(stage.imageSize);
    this.offered = list.filter((one) => applyCorrection(one, tolerance)(state.graph) !== state.graph);
    stage.setMarks(this.marks(state));
    return this.offered.length;
  }

  /** Apply what is offered as one step. */
  applyOffered(): void {
    const size = this.stage?.imageSize;
    const list = this.offered;
    if (!size || list.length === 0) return;
    const tolerance = toleranceFor(size);
    this.offered = [];
    this.editor.perform("Corrections of another date", ...list.map((one) => applyCorrection(one, tolerance)));
  }

}

function sessionStorageOrNull(): Storage | null {
  try {
    return sessionStorage;
  } catch {
    return null;
  }
}
