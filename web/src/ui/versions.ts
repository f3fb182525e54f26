/**
 * Other versions of the open document: drafts of earlier sessions, and what another window has saved.
 *
 * A version that is taken over is a step of the history, so that undo returns to the one before.
 */

import type { Backend, DraftRef, LoadedSkeleton, SkeletonDocument } from "../api";
import { fromDocument, loadDocument } from "../core/document";
import type { Graph } from "../core/graph";
import type { Editor } from "../editor/editor";
import { messageOf, type Session } from "./session";
import type { Notice } from "./surroundings";

/** What versions need of the page. */
export interface VersionHooks {
  tell(text: string): void;
  /** Show a question; null removes it. */
  ask(notice: Notice | null): void;
  /** Open or close the dialog on a conflict. */
  showConflict(open: boolean): void;
  /** A graph is about to be shown that is already in the file: it is not a change. */
  inFile(graph: Graph): void;
  saved(): void;
}

/** Takes over drafts and settles conflicts. */
export class Versions {
  constructor(
    private readonly backend: Backend,
    private readonly session: Session,
    private readonly editor: Editor,
    private readonly hooks: VersionHooks,
  ) {}

  // ---- drafts -------------------------------------------------------------------------------

  /** The question about drafts after a document was loaded; null if there are none. */
  draftNotice({ origin, other_drafts }: LoadedSkeleton): Notice | null {
    const close = (): void => this.hooks.ask(null);
    if (origin === "draft") {
      return {
        text: "Unsaved work of an earlier session was recovered.",
        actions: [
          { label: "Keep it", run: close },
          { label: "Discard it", run: () => void this.discardDraft() },
        ],
      };
    }
    const [older] = other_drafts ?? [];
    if (!older) return null;
    return {
      text: "There is unsaved work that began from an older version of this file.",
      actions: [
        { label: "Load it", run: () => void this.loadDraft(older) },
        { label: "Delete it", run: () => void this.deleteDraft(older) },
      ],
    };
  }

  private async discardDraft(): Promise<void> {
    this.hooks.ask(null);
    try {
      const loaded = await this.session.discardDraft();
      if (loaded.origin === "draft") {
        // Another window that is open has written a newer draft meanwhile.
        this.replace("Discard draft", loaded.document);
        this.hooks.ask(this.draftNotice(loaded));
      } else this.returnToFile("Discard draft", loaded.document);
    } catch (error) {
      this.hooks.tell(messageOf(error));
    }
  }

  /** Delete a draft unless its window has written a newer one since it was listed. */
  private async deleteDraft({ window, time }: DraftRef): Promise<void> {
    this.hooks.ask(null);
    try {
      await this.backend.deleteDraft(this.session.image, window, time);
    } catch (error) {
      this.hooks.tell(messageOf(error));
    }
  }

  private async loadDraft({ window }: DraftRef): Promise<void> {
    this.hooks.ask(null);
    try {
      const { document, revision, time } = await this.backend.draft(this.session.image, window);
      this.session.revision = revision;
      this.session.recover(window, time);
      this.replace("Load draft", document);
    } catch (error) {
      this.hooks.tell(messageOf(error));
    }
  }

  private replace(annotation: string, document: SkeletonDocument): void {
    this.editor.replaceGraph(annotation, fromDocument(document));
  }

  /** Show what is in the file: it is no change, and needs no draft. */
  private returnToFile(annotation: string, document: SkeletonDocument): void {
    this.editor.replaceGraph(annotation, fromDocument(document), (graph) => this.hooks.inFile(graph));
    this.editor.markSaved();
  }

  // ---- conflicts ----------------------------------------------------------------------------

  /** Save my version over the one of the other window. */
  async keepMine(): Promise<void> {
    const conflict = this.session.conflict;
    if (!conflict) return;
    this.editor.finish();
    const mine = this.editor.version;
    this.hooks.showConflict(false);
    // Their version becomes a step below mine: undo reaches it.
    this.replace("Version of the other window", conflict.document);
    this.editor.returnTo("My version", mine);
    if (await this.session.keepMine()) this.hooks.saved();
    else if (this.session.conflict) this.hooks.showConflict(true);
  }

  /** Continue with the version of the other window. */
  async takeTheirs(): Promise<void> {
    this.editor.finish();
    const document = await this.session.takeTheirs();
    this.hooks.showConflict(false);
    if (!document) return;
    this.returnToFile("Version of the other window", document);
    this.hooks.saved();
  }

  /** Download my version, then continue with theirs. */
  downloadCopy(): void {
    this.download();
    void this.takeTheirs();
  }

  /** Download my version as a file. */
  download(): void {
    const text = JSON.stringify(this.editor.document(false));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = `${this.session.image.split("/").at(-1)!.replace(/\.[^.]*$/, "")}.copy.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  /** One line about a document; null describes mine. */
  describe(other: SkeletonDocument | null): string {
    try {
      const { graph, info } = loadDocument(other ?? this.editor.document(false));
      return `${graph.size} nodes, ${graph.roots.length} trees, ${info.actions} actions, ${Math.round(info.seconds)} s of work`;
    } catch (error) {
      return messageOf(error);
    }
  }
}
