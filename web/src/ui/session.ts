/**
 * One image while it is edited: load, autosave to a draft, save, conflicts.
 *
 * The session knows nothing of the graph. It is told that something changed and asks for the document if it needs it.
 */

import { type Backend, BackendError, ConflictError, type DraftRef, type LoadedSkeleton, type SkeletonDocument } from "../api";

export type SaveState = "saved" | "unsaved" | "draft" | "saving" | "offline" | "conflict";

export interface SessionHooks {
  /** The current document, with editor metadata. */
  document(accepted: boolean): SkeletonDocument;
  /** The state or the message changed. */
  status(state: SaveState, message: string): void;
}

export interface Conflict {
  message: string;
  revision: string | null;
  document: SkeletonDocument;
  accepted: boolean;
}

export const DRAFT_AFTER_MS = 1200;
export const DRAFT_AT_LEAST_EVERY_MS = 5000;
const RETRY_MS = 4000;

/** Loads and saves one image. Requests wait for each other, so that an older document never replaces a newer one. */
export class Session {
  revision: string | null = null;
  state: SaveState = "saved";
  conflict: Conflict | null = null;
  /** The draft of another window that was loaded; its time tells whether it is still the same. */
  recovered: DraftRef | null = null;
  private window = "";
  private timer: ReturnType<typeof setTimeout> | null = null;
  private firstChange = 0;
  private changes = 0;
  /** The number of changes that are in a draft or in the file. */
  private stored = 0;
  private closed = false;
  private busy: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly backend: Backend,
    readonly image: string,
    private readonly claimed: string | Promise<string>,
    private readonly hooks: SessionHooks,
  ) {}

  async load(): Promise<LoadedSkeleton> {
    this.window = await this.claimed;
    const loaded = await this.backend.skeleton(this.image);
    // A draft knows the result that it began from: saving it over a newer one raises a conflict.
    this.revision = loaded.revision;
    this.stored = this.changes;
    this.recovered = loaded.origin === "draft" ? this.foreign(loaded.window, loaded.time) : null;
    this.set(loaded.origin === "draft" ? "draft" : "saved", "");
    return loaded;
  }

  /** Take over a file that has changed on disk, unless there is work on the old one. Null if nothing was taken over. */
  async reload(): Promise<LoadedSkeleton | null> {
    if (this.dirty) return null;
    const loaded = await this.backend.skeleton(this.image);
    const isNew = loaded.revision !== this.revision && loaded.origin !== "draft";
    if (this.dirty || this.closed || !isNew) return null;
    this.revision = loaded.revision;
    return loaded;
  }

  /** Note a change; a draft follows soon. */
  changed(): void {
    if (this.closed) return;
    this.changes++;
    if (this.state !== "conflict") this.set("unsaved", "");
    this.schedule();
  }

  get dirty(): boolean {
    return this.state !== "saved";
  }

  /** True if changes would be lost if the page was closed now. */
  get atRisk(): boolean {
    return this.stored !== this.changes;
  }

  /** Write the draft now if something is not yet in it. */
  flush(): Promise<void> {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    this.firstChange = 0;
    return this.queued(async () => {
      if (!this.atRisk && this.state !== "unsaved" && this.state !== "offline") return;
      const at = this.changes;
      const { image, window, revision } = this;
      try {
        await this.backend.saveDraft({ image, window, revision, document: this.hooks.document(false) });
        this.stored = at;
        // A conflict stays to be settled, with its work in a draft.
        if (at === this.changes && this.state !== "conflict") this.set("draft", "");
      } catch (error) {
        const isConflict = this.state === "conflict";
        if (isLost(error)) this.set(isConflict ? "conflict" : "offline", messageOf(error));
        else this.set(isConflict ? "conflict" : "unsaved", `Draft not written: ${messageOf(error)}`);
        this.schedule(RETRY_MS);
      }
    });
  }

  /** Save the result. Resolves to true if it is on disk, false if there is a conflict or an error. */
  save(accepted: boolean): Promise<boolean> {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    return this.queued(async () => {
      const at = this.changes;
      const before = this.state;
      this.set("saving", "");
      try {
        const { image, revision, window, recovered } = this;
        const document = this.hooks.document(accepted);
        const saved = await this.backend.save({ image, revision, window, accepted, document, recovered });
        this.revision = saved.revision;
        this.conflict = null;
        this.stored = at;
        await this.dropDrafts();
        this.set(at === this.changes ? "saved" : "unsaved", saved.warning ?? `Saved ${saved.files.join(", ")}`);
        if (at !== this.changes) this.schedule();
        return true;
      } catch (error) {
        if (error instanceof ConflictError) {
          this.conflict = { message: error.message, revision: error.revision, document: error.document, accepted };
          this.set("conflict", error.message);
        } else {
          this.set(isLost(error) ? "offline" : this.atRisk ? "unsaved" : before, messageOf(error));
        }
        // What could not be saved is still to be kept in a draft.
        if (this.atRisk || this.state === "offline") this.schedule(RETRY_MS);
        return false;
      }
    });
  }

  /** Save over the other version, which the caller has kept. */
  keepMine(): Promise<boolean> {
    const conflict = this.conflict;
    if (!conflict) return Promise.resolve(false);
    this.revision = conflict.revision;
    this.conflict = null;
    return this.save(conflict.accepted);
  }

  /** Continue from the other version; the caller loads `conflict.document`. */
  async takeTheirs(): Promise<SkeletonDocument | null> {
    const conflict = this.conflict;
    if (!conflict) return null;
    this.revision = conflict.revision;
    this.conflict = null;
    this.stored = this.changes;
    await this.dropDrafts();
    this.set("saved", "");
    return conflict.document;
  }

  /** Forget the recovered draft and load the result. */
  async discardDraft(): Promise<LoadedSkeleton> {
    await this.dropDrafts();
    return this.load();
  }

  /** Stay in the conflict for now; the draft keeps the work. */
  postpone(): void {
    this.conflict = null;
    this.set("unsaved", "Not saved: the file was changed elsewhere");
    this.schedule();
  }

  /** Stop; what is not in a draft yet is written first. */
  async close(): Promise<void> {
    await this.flush();
    this.closed = true;
    if (this.timer !== null) clearTimeout(this.timer);
  }

  /** Note that the draft of another window was loaded, which began from another result. */
  recover(window: string, time: number | null | undefined): void {
    this.recovered = this.foreign(window, time);
  }

  private foreign(window: string | null | undefined, time: number | null | undefined): DraftRef | null {
    return window && window !== this.window && typeof time === "number" ? { window, time } : null;
  }

  /** Delete the draft of this window, and the one that was loaded unless its window has written a newer one. */
  private async dropDrafts(): Promise<void> {
    const { image, recovered } = this;
    this.recovered = null;
    await this.backend.deleteDraft(image, this.window).catch(() => undefined);
    if (recovered) await this.backend.deleteDraft(image, recovered.window, recovered.time).catch(() => undefined);
  }

  private schedule(after = DRAFT_AFTER_MS): void {
    if (this.closed) return;
    const now = Date.now();
    if (!this.firstChange) this.firstChange = now;
    if (this.timer !== null) clearTimeout(this.timer);
    const latest = this.firstChange + DRAFT_AT_LEAST_EVERY_MS - now;
    this.timer = setTimeout(() => void this.flush(), Math.max(0, after === RETRY_MS ? after : Math.min(after, latest)));
  }

  private queued<T>(work: () => Promise<T>): Promise<T> {
    const next = this.busy.then(work, work);
    this.busy = next.catch(() => undefined);
    return next;
  }

  private set(state: SaveState, message: string): void {
    this.state = state;
    this.hooks.status(state, message);
  }
}

/** True if the server did not answer. */
function isLost(error: unknown): boolean {
  return error instanceof BackendError && error.status === 0;
}

/** The text of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The storage of this tab; null if the browser refuses it. */
function tabStorage(): Storage | null {
  try {
    return sessionStorage;
  } catch {
    return null;
  }
}

const WINDOW_KEY = "treeformer-window";

/**
 * A random name that no other open window has; drafts are stored under it. A reloaded tab keeps its name. A duplicated
 * tab copies the storage with the name in it, but the lock on the name belongs to the first tab.
 */
export async function claimWindow(
  storage: Pick<Storage, "getItem" | "setItem"> | null,
  locks: Pick<LockManager, "request"> | null,
): Promise<string> {
  const known = storage?.getItem(WINDOW_KEY);
  if (known && (await claimed(locks, known))) return known;
  const name = [...crypto.getRandomValues(new Uint8Array(8))].map((b) => b.toString(16).padStart(2, "0")).join("");
  storage?.setItem(WINDOW_KEY, name);
  await claimed(locks, name);
  return name;
}

/** Take the lock on a name until the page is closed. False if another window has it, or if there are no locks. */
function claimed(locks: Pick<LockManager, "request"> | null, name: string): Promise<boolean> {
  if (!locks) return Promise.resolve(false);
  return new Promise((resolve) => {
    const hold = (lock: Lock | null): Promise<void> | undefined => {
      resolve(lock !== null);
      return lock === null ? undefined : new Promise(() => undefined);
    };
    locks.request(`${WINDOW_KEY}-${name}`, { ifAvailable: true }, hold).catch(() => resolve(false));
  });
}

let own: Promise<string> | null = null;

/** The name of this page. */
export function windowName(): Promise<string> {
  // Browsers offer locks only to pages of this machine and over HTTPS.
  own ??= claimWindow(tabStorage(), typeof navigator === "undefined" ? null : (navigator.locks ?? null));
  return own;
}
