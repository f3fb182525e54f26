/** Connects the editor core with the canvas, the backend and the components. One per open image. */

import type { Backend, LoadedSkeleton, Region, SkeletonDocument } from "../api";
import { setScale } from "../core/actions";
import { loadDocument } from "../core/document";
import type { Graph } from "../core/graph";
import { scaleOf } from "../core/measures";
import { moveReason, moveRow, type OutlineRow } from "../core/outline";
import { Editor } from "../editor/editor";
import { bindingOf } from "../editor/keys";
import type { EditorState, Hint, Modifiers, Operation, OperationId, Point } from "../editor/types";
import type { GestureHandlers } from "./canvas/gestures";
import type { Marks } from "./canvas/overlay";
import { buildScene } from "./canvas/scene";
import { Stage } from "./canvas/stage";
import { View } from "./canvas/view";
import { runCommand } from "./commands";
import { marksOf, sceneNodes } from "./drawn";
import { Flash } from "./flash.svelte";
import { axisMeasures, axisOf, imageMeasures } from "./live";
import { MODE_LABELS, PANEL } from "./modes";
import { Offers } from "./offers";
import { Pointing, type Surface } from "./pointing";
import { Predictions } from "./predictions.svelte";
import type { ReviewRow } from "./rows";
import { scaleBar } from "./scalebar";
import { messageOf, type SaveState, Session, windowName } from "./session";
import { type Adjustments, NO_ADJUSTMENTS } from "./settings";
import type { DialogName, Notice, Surroundings } from "./surroundings";
import { imageTracer } from "./tracer";
import type { Measure } from "./traits";
import { LiveTable } from "./traittable.svelte";
import { Versions } from "./versions";
import { revealReview, revealSelection } from "./viewport";

const NO_MODIFIERS: Modifiers = { shift: false, ctrl: false, alt: false };
const DEFAULT_LOW_CONFIDENCE = 0.5;

/** Holds what the components show. Its parts are called directly: `session`, `versions`, `predictions`, `table`, `offers`. */
export class EditorController {
  state = $state.raw<EditorState | null>(null);
  ready = $state(false);
  loading = $state(true);
  overlay = $state(true);
  adjustments = $state<Adjustments>({ ...NO_ADJUSTMENTS });
  dialog = $state<DialogName | null>(null);
  notice = $state.raw<Notice | null>(null);
  save = $state<SaveState>("saved");
  saveMessage = $state("");
  pointer = $state.raw<Point | null>(null);
  view = $state.raw<View>(new View(1, 0, 0, 1, 1));
  modifiers = $state.raw<Modifiers>(NO_MODIFIERS);
  region = $state.raw<Region | null>(null);

  private readonly flash = new Flash();
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
  readonly message = $derived(this.flash.text || (this.state?.message ?? ""));
  readonly zoom = $derived(this.view.scale);
  readonly pxPerMm = $derived(this.state ? scaleOf(this.state.graph) : null);
  readonly scaleBar = $derived(this.state ? scaleBar(this.view.scale, this.pxPerMm) : null);
  readonly cursor = $derived.by(() => {
    const state = this.state;
    if (!state) return "default";
    if (state.mode === "drag") return "grabbing";
    if (state.mode !== "browse" && state.mode !== "select") return "crosshair";
    return state.hover ? "pointer" : "grab";
  });

  stage: Stage | null = null;
  readonly session: Session;
  readonly versions: Versions;
  readonly predictions: Predictions;
  readonly table: LiveTable;
  readonly offers: Offers;
  readonly gestures: GestureHandlers;
  private readonly pointing: Pointing;
  private drawn: Graph | null = null;
  /** The last graph that came from the file or was reported as a change. */
  private noted: Graph | null = null;
  private reviewKey: string | null = null;
  private destroyed = false;
  private accepting = false;
  /** The question before work is lost. It goes away as soon as the work is stored. */
  private leaving: Notice | null = null;

  constructor(
    private readonly backend: Backend,
    readonly image: string,
    private readonly around: Surroundings,
  ) {
    this.session = new Session(backend, image, windowName(), {
      document: (accepted) => this.document(accepted),
      status: (state, message) => {
        this.save = state;
        this.saveMessage = message;
        if (state === "saved" && this.state?.dirty) this.editor.markSaved();
        if (message) this.flash.show(message);
        if (this.leaving && this.notice === this.leaving && !this.session.atRisk) this.notice = null;
      },
    });
    const tell = (text: string): void => this.flash.show(text);
    const saved = (): void => around.saved();
    this.versions = new Versions(backend, this.session, this.editor, {
      tell,
      saved,
      ask: (notice) => (this.notice = notice),
      showConflict: (open) => (this.dialog = open ? "conflict" : null),
      inFile: (graph) => (this.noted = graph),
    });
    this.predictions = new Predictions(backend, this.session, this.editor, { tell, saved, job: () => around.job() });
    this.table = new LiveTable(backend, {
      tell,
      graph: () => this.state?.graph ?? null,
      document: () => this.document(false),
    });
    this.offers = new Offers(this.editor, {
      size: () => this.stage?.imageSize ?? null,
      redraw: () => this.redraw(),
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
    this.flash.clear();
  }

  // ---- life ---------------------------------------------------------------------------------

  /** Show the image on two canvases, which fill an element. */
  attach(host: HTMLElement, photo: HTMLCanvasElement, drawing: HTMLCanvasElement): void {
    this.stage = new Stage(host, photo, drawing, (view) => (this.view = view));
    void this.open();
  }

  /** The image is closed. What is not saved goes into a draft. */
  destroy(): void {
    this.destroyed = true;
    void this.session.close();
    this.stage?.destroy();
    this.stage = null;
    this.predictions.stop();
    this.table.stop();
    this.flash.stop();
  }

  /**
   * Before the image is closed: write the draft. Return false if that failed; then a question is shown, and `anyway` is
   * called if somebody decides to lose the changes.
   */
  async leave(anyway: () => void): Promise<boolean> {
    this.finish();
    await this.session.flush();
    if (!this.session.atRisk) return true;
    this.leaving = {
      text: `The last changes of ${this.image} could not be stored, so it stays open. ${this.saveMessage}`,
      actions: [
        { label: "Save a copy", run: () => this.versions.download() },
        { label: "Leave and lose them", run: anyway },
      ],
    };
    this.notice = this.leaving;
    return false;
  }

  /** Keep a branch that is being drawn. */
  finish(): void {
    this.editor.finish();
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
    this.drawn = null;
    this.editor.load(graph, { ...info, model: info.model ?? this.predictedBy(loaded.document) });
    const question = this.versions.draftNotice(loaded);
    if (question) {
      this.notice = question;
    } else if (loaded.origin === "import" && loaded.file) {
      this.flash.show(`Imported ${loaded.file}; the file is kept when you save.`);
    } else if (loaded.choice) {
      this.flash.show(loaded.choice);
    } else if (notes.length > 0) {
      this.flash.show(notes.join(" "));
    }
  }

  private predictedBy(document: SkeletonDocument): { name: string; version: string; hash: string } | null {
    const model = this.around.session()?.model;
    const metadata = document.metadata as Record<string, unknown> | undefined;
    if (!model || metadata?.model !== model.name) return null;
    return { name: model.name, version: String(model.version), hash: model.hash };
  }

  // ---- state --------------------------------------------------------------------------------

  /** The document as it is saved. */
  document(accepted: boolean): SkeletonDocument {
    return this.editor.document(accepted) as SkeletonDocument;
  }

  private onState(state: EditorState): void {
    const before = this.state;
    this.state = state;
    if (state.graph !== this.drawn) this.rebuild(state);
    this.stage?.setMarks(this.marks(state));
    // Before the document is shown, the graph of the editor is empty: it is not work.
    if (this.ready && state.graph !== this.noted && state.mode !== "drag") {
      this.noted = state.graph;
      this.session.changed();
      this.around.changed();
    }
    const key = state.reviewItem?.key ?? null;
    if (key !== this.reviewKey) {
      this.reviewKey = key;
      if (state.reviewItem && this.stage) revealReview(this.stage, state.reviewItem);
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
    if (this.state) this.rebuild(this.state);
    this.redraw();
  }

  /** The marks over the skeleton changed. */
  private redraw(): void {
    if (this.state) this.stage?.setMarks(this.marks(this.state));
  }

  /** Edges with a lower score are drawn as uncertain. */
  get lowThreshold(): number {
    return this.around.session()?.low_confidence_threshold ?? DEFAULT_LOW_CONFIDENCE;
  }

  /** Largest number of views that a prediction may use. */
  get maxViews(): number {
    return this.around.session()?.max_views ?? 1;
  }

  private marks(state: EditorState): Marks {
    const { axes } = this.around.settings();
    return marksOf(state, { offered: this.offers.offered, cursor: this.pointing.keyCursor, labels: axes });
  }

  // ---- keys and operations ------------------------------------------------------------------

  /** Shift, Ctrl or Alt changed: what a click would do is shown at once. */
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
      // A key that is held down accepts one image, not all that follow.
      if (!event.repeat) void this.acceptAndNext();
      return true;
    }
    const before = this.state;
    if (!this.ready) {
      // Nothing can be edited yet, but other images can be opened.
      const binding = bindingOf({ key: event.key, shift: event.shiftKey, ctrl, alt: event.altKey });
      if (!binding || !("command" in binding)) return false;
      runCommand(binding.command, this, this.around);
      return true;
    }
    this.pointing.placeKeyCursor();
    const { handled, command } = this.editor.key({ key: event.key, shift: event.shiftKey, ctrl, alt: event.altKey });
    if (command) {
      runCommand(command, this, this.around);
      return true;
    }
    // Steps along the skeleton are followed; edits leave the view where it is.
    const { state: after, stage } = this;
    const stepped = before?.graph === after?.graph && before?.selection !== after?.selection;
    if (handled && stage && stepped && after?.mode === "select" && !after.reviewItem) revealSelection(stage, after);
    const cursor = this.pointing.keyCursor;
    if (handled && cursor && event.key.startsWith("Arrow")) stage?.reveal(cursor);
    return handled;
  }

  /** Run an operation. An element may take the focus from the button. */
  run(id: OperationId, focus?: HTMLElement): void {
    this.began();
    // Another tool keeps the branch that is being drawn; Escape discards it.
    const isKept = id === "cancel" && this.editor.finish();
    if (this.ready && !isKept) this.editor.run(id);
    focus?.focus();
  }

  available(id: OperationId): boolean {
    return this.operations.some((operation) => operation.id === id && operation.available);
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
    if (reason !== null) this.flash.show(reason);
    else this.editor.perform(row.axis === null ? "Attach plant" : "Move axis", moveRow(row, target));
  }

  /** Go to a place to review. */
  selectReview(key: string): void {
    const item = this.state?.review.find((one) => one.key === key);
    if (!item) return;
    this.reviewKey = null;
    this.editor.review(item);
  }

  /** Set the CSS filter of the photograph. */
  setFilter(filter: string): void {
    this.stage?.setFilter(filter);
  }

  /** Change between light and dark, whichever is shown. */
  toggleTheme(root: HTMLElement): void {
    const now = root.closest("[data-theme]")?.getAttribute("data-theme");
    this.around.change({ theme: now === "dark" ? "light" : "dark" });
  }

  /** Close the dialog and give the focus to an element. */
  closeDialog(focus: HTMLElement): void {
    this.dialog = null;
    this.region = null;
    queueMicrotask(() => focus.focus());
  }

  // ---- scale --------------------------------------------------------------------------------

  /** Set the scale from the drawn line. */
  setScale(millimeters: number): void {
    this.editor.setScale(millimeters);
  }

  /** Remove the scale. */
  clearScale(): void {
    this.editor.perform("Remove scale", setScale(null));
  }

  // ---- files --------------------------------------------------------------------------------

  /** Save the result. Return false if the document is not shown yet, or if there is a conflict or an error. */
  async saveNow(accepted: boolean): Promise<boolean> {
    if (!this.ready) {
      this.flash.show("The image is not loaded; nothing was saved.");
      return false;
    }
    this.finish();
    const saved = await this.session.save(accepted);
    if (saved) this.around.saved();
    else if (this.session.conflict) this.dialog = "conflict";
    return saved;
  }

  /** Save the result as accepted and open the next image that is not. */
  async acceptAndNext(): Promise<void> {
    if (this.accepting) return;
    this.accepting = true;
    try {
      if ((await this.saveNow(true)) && !this.around.next()) this.flash.show("Saved. All images are accepted.");
    } finally {
      this.accepting = false;
    }
  }

  // ---- predictions --------------------------------------------------------------------------

  /** Ask at which size the image is predicted. */
  askPredict(): void {
    if (!this.ready) return;
    this.region = null;
    this.dialog = "predict";
  }

  /** The list says that the image was predicted in the background: show it if nothing was changed here. */
  async refresh(): Promise<void> {
    // Whoever draws or drags goes on with the skeleton that is shown; saving it is a conflict, which is asked about.
    const isDrawing = ["draw", "trace", "drag"].includes(this.state?.mode ?? "browse");
    if (this.predictions.running || !this.ready || isDrawing) return;
    const loaded = await this.session.reload();
    if (loaded && !this.destroyed) this.show(loaded);
  }
}
