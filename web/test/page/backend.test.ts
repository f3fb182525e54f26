import { beforeEach, describe, expect, it, vi } from "vitest";
import { LocalBackend } from "../../src/page/backend";
import { Store } from "../../src/page/store";
import { openImage } from "../../src/predict/image/open.ts";
import { FakeDatabase } from "./indexeddb";

// Decoding needs a browser.
vi.mock("../../src/predict/image/open.ts", () => ({
  ImageError: class extends Error {},
  openImage: vi.fn(async () => ({ bitmap: { close: () => undefined } })),
}));
vi.mock("../../src/page/pyramids.ts", () => ({
  Pyramids: class {},
  thumbnail: async () => new Blob([]),
}));

const document = (x: number) => ({
  format: "treeformer-skeleton", version: 1, roots: [0], nodes: [[x, 1], [x, 9], [x, 20]], edges: [[0, 1], [1, 2]],
  edge_score: [0.5, 0.75], metadata: { editor: { edge_source: ["accepted", "predicted"] } },
});
const file = (content: string): File => new File([content], "a.jpg", { type: "image/jpeg" });

let database: FakeDatabase;
let store: Store;
let page: LocalBackend;

beforeEach(async () => {
  database = new FakeDatabase();
  store = await Store.open(database.factory);
  page = new LocalBackend(store, "1");
});

const save = (revision: string | null, accepted = false) =>
  page.save({ image: "a.jpg", document: document(5), revision, window: "w1", accepted });

describe("previews", () => {
  it("are stored with their images, so that a page with many images starts at once", async () => {
    await page.add([file("")]);
    vi.mocked(openImage).mockClear();
    const reloaded = new LocalBackend(store, "1");
    await reloaded.open();
    expect(openImage).not.toHaveBeenCalled();
    expect(reloaded.thumbnail("a.jpg")).toMatch(/^blob:/);
  });

  it("are made for images that were stored without one", async () => {
    await store.addImage({ image: "old.jpg", file: new Blob([]), added: 0 });
    await page.open();
    expect(page.thumbnail("old.jpg")).toMatch(/^blob:/);
  });
});

describe("images of the same name", () => {
  it("are all kept if they are added at the same time", async () => {
    const [first, second] = await Promise.all([page.add([file("first")]), page.add([file("second")])]);
    expect([...first.added, ...second.added].sort()).toEqual(["a (2).jpg", "a.jpg"]);
    const stored = await Promise.all((await store.images()).map(({ file }) => file.text()));
    expect(stored.sort()).toEqual(["first", "second"]);
  });
});

describe("a full storage", () => {
  beforeEach(async () => {
    await page.add([file("")]);
    database.isFull = true;
  });

  it("is reported if an image is added", async () => {
    const { added, refused } = await page.add([file("")]);
    expect([added, refused]).toEqual([[], ["a.jpg: The browser's storage is full: remove images from the list."]]);
  });

  it("is reported if a result or a draft is stored", async () => {
    await expect(save(null)).rejects.toThrow("storage is full");
    const draft = { image: "a.jpg", document: document(5), revision: null, window: "w1" };
    await expect(page.saveDraft(draft)).rejects.toThrow("storage is full");
    expect([await store.results(), await store.drafts()]).toEqual([[], []]);
  });
});

describe("an image that was removed in another window", () => {
  it("takes no result and no draft any more", async () => {
    await page.add([file("")]);
    const { revision } = await save(null);
    for (const records of database.stores.values()) records.clear();
    await expect(save(revision)).rejects.toThrow("a.jpg was removed from this browser.");
    const draft = { image: "a.jpg", document: document(5), revision, window: "w1" };
    await expect(page.saveDraft(draft)).rejects.toThrow("a.jpg was removed from this browser.");
    expect([await store.results(), await store.drafts()]).toEqual([[], []]);
  });
});

describe("a draft that began from an older result", () => {
  it("is deleted as it was listed", async () => {
    await page.add([file("")]);
    await page.saveDraft({ image: "a.jpg", document: document(3), revision: null, window: "w2" });
    await save(null);
    const { other_drafts: drafts } = await page.skeleton("a.jpg");
    expect(drafts).toHaveLength(1);
    await page.deleteDraft("a.jpg", drafts![0]!.window, drafts![0]!.time);
    expect(await store.drafts()).toEqual([]);
  });
});

describe("expected errors", () => {
  it("are those of the edges that nobody has checked", async () => {
    await page.add([file("")]);
    const { revision } = await save(null);
    expect(await page.images()).toMatchObject([{ state: "edited", expected_errors: 0.25 }]);
    await save(revision, true);
    expect(await page.images()).toMatchObject([{ state: "accepted", expected_errors: 0 }]);
  });
});
