import { beforeEach, describe, expect, it } from "vitest";
import { type Backend, ConflictError, type LoadedSkeleton, type SaveRequest, type SkeletonDocument } from "../../src/api";
import { fromDocument, toDocument } from "../../src/core/document";
import type { Graph } from "../../src/core/graph";
import { Editor } from "../../src/editor/editor";
import { Offers } from "../../src/ui/offers";
import { Session } from "../../src/ui/session";
import type { Notice } from "../../src/ui/surroundings";
import { Versions } from "../../src/ui/versions";

/** A path with this many nodes. */
const path = (count: number): SkeletonDocument => ({
  format: "treeformer-skeleton", version: 1, roots: [0],
  nodes: Array.from({ length: count }, (_, k) => [10, 10 * k]),
  edges: Array.from({ length: count - 1 }, (_, k) => [k, k + 1]),
});
const MINE = 3;
const THEIRS = 5;

class FakeBackend {
  saves: SaveRequest[] = [];
  deleted: string[] = [];
  revision = "r1";
  onDisk = path(2);
  /** The other window saves again while this one saves. */
  restless = false;
  broken = false;
  origin = "result";

  async skeleton() {
    return { document: this.onDisk, revision: this.revision, origin: this.origin, file: "a.json" };
  }
  async draft() {
    if (this.broken) throw new Error("the draft is gone");
    return { document: path(4), revision: "r0" };
  }
  async saveDraft() {}
  async deleteDraft(_: string, window: string, time?: number) {
    this.deleted.push(time === undefined ? window : `${window} of ${time}`);
  }
  async save(request: SaveRequest) {
    if (this.restless) this.revision += "+";
    if (request.revision !== this.revision) throw new ConflictError("changed", this.revision, this.onDisk);
    this.saves.push(request);
    this.revision += "+";
    return { revision: this.revision, files: ["a.json"] };
  }
}

let backend: FakeBackend;
let session: Session;
let editor: Editor;
let versions: Versions;
let told: string[];
let asked: (Notice | null)[];
let dialogs: boolean[];
let inFile: Graph[];
let saved: number;

const size = (): number => editor.state.graph.size;

beforeEach(async () => {
  backend = new FakeBackend();
  editor = new Editor(fromDocument(path(2)));
  session = new Session(backend as unknown as Backend, "a.jpg", "w1", {
    document: () => toDocument(editor.state.graph),
    status: () => undefined,
  });
  await session.load();
  [told, asked, dialogs, inFile, saved] = [[], [], [], [], 0];
  versions = new Versions(backend as unknown as Backend, session, editor, {
    tell: (text) => told.push(text),
    ask: (notice) => asked.push(notice),
    showConflict: (open) => dialogs.push(open),
    inFile: (graph) => inFile.push(graph),
    saved: () => saved++,
  });
});

/** Change the document here and in another window, and try to save. */
async function conflict(): Promise<void> {
  editor.perform("My work", () => fromDocument(path(MINE)));
  session.changed();
  backend.revision = "r2";
  backend.onDisk = path(THEIRS);
  expect(await session.save(false)).toBe(false);
}

describe("a conflict with another window", () => {
  it("ends with my version in the file, and theirs below it in the history", async () => {
    await conflict();
    await versions.keepMine();
    expect(backend.saves.map((save) => (save.document as { nodes: unknown[] }).nodes.length)).toEqual([MINE]);
    expect([size(), saved, dialogs]).toEqual([MINE, 1, [false]]);
    editor.run("undo");
    expect(size()).toBe(THEIRS);
    editor.run("undo");
    expect(size()).toBe(MINE);
  });

  it("is shown again if the other window saved again", async () => {
    await conflict();
    backend.restless = true;
    await versions.keepMine();
    expect([backend.saves.length, saved, dialogs]).toEqual([0, 0, [false, true]]);
    expect(size()).toBe(MINE);
  });

  it("ends with their version, which is no change, and mine below it in the history", async () => {
    await conflict();
    await versions.takeTheirs();
    expect([size(), saved, dialogs, session.state]).toEqual([THEIRS, 1, [false], "saved"]);
    expect(inFile).toEqual([editor.state.graph]);
    editor.run("undo");
    expect(size()).toBe(MINE);
  });

  it("leaves nothing to offer to other dates of a series", async () => {
    const offers = new Offers(editor, { size: () => ({ width: 100, height: 100 }), redraw: () => undefined });
    await conflict();
    await versions.takeTheirs();
    expect(offers.made()).toEqual([]);
    editor.run("select-all");
    editor.run("delete");
    expect(offers.made().map(({ kind }) => kind)).toEqual(["remove"]);
  });

  it("cannot be settled if there is none", async () => {
    await versions.keepMine();
    await versions.takeTheirs();
    expect([size(), saved, backend.saves]).toEqual([2, 0, []]);
  });
});

describe("drafts", () => {
  const loaded = (changes: Partial<LoadedSkeleton>): LoadedSkeleton =>
    ({ document: path(2), revision: "r1", origin: "result", file: "a.json", ...changes }) as LoadedSkeleton;
  const older = { window: "w0", time: 3 } as NonNullable<LoadedSkeleton["other_drafts"]>[number];
  const press = (notice: Notice | null, label: string): void => {
    notice!.actions.find((action) => action.label === label)!.run();
  };

  it("are not asked for if there are none", () => {
    expect(versions.draftNotice(loaded({}))).toBeNull();
    expect(versions.draftNotice(loaded({ other_drafts: [] }))).toBeNull();
  });

  it("of this version can be discarded, and undo brings them back", async () => {
    editor.perform("Recovered", () => fromDocument(path(4)));
    press(versions.draftNotice(loaded({ origin: "draft" })), "Discard it");
    await new Promise((resolve) => setTimeout(resolve));
    expect([size(), backend.deleted, asked]).toEqual([2, ["w1"], [null]]);
    expect([inFile, editor.state.dirty], "no draft is needed").toEqual([[editor.state.graph], false]);
    editor.run("undo");
    expect([size(), editor.state.dirty]).toEqual([4, true]);
  });

  it("that another window has renewed meanwhile are asked for again", async () => {
    backend.origin = "draft";
    press(versions.draftNotice(loaded({ origin: "draft" })), "Discard it");
    await new Promise((resolve) => setTimeout(resolve));
    expect(asked.map((notice) => notice?.text)).toEqual([undefined, "Unsaved work of an earlier session was recovered."]);
  });

  it("of an older version can be loaded; saving them is a conflict", async () => {
    press(versions.draftNotice(loaded({ other_drafts: [older] })), "Load it");
    await new Promise((resolve) => setTimeout(resolve));
    expect(size()).toBe(4);
    expect(await session.save(false)).toBe(false);
    expect(session.conflict?.revision).toBe("r1");
  });

  it("of an older version can be deleted, and no others are", async () => {
    press(versions.draftNotice(loaded({ other_drafts: [older] })), "Delete it");
    await new Promise((resolve) => setTimeout(resolve));
    expect([size(), backend.deleted, asked]).toEqual([2, ["w0 of 3"], [null]]);
  });

  it("that cannot be read are told in one line", async () => {
    backend.broken = true;
    press(versions.draftNotice(loaded({ other_drafts: [older] })), "Load it");
    await new Promise((resolve) => setTimeout(resolve));
    expect([size(), told]).toEqual([2, ["the draft is gone"]]);
  });
});
