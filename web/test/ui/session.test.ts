import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Backend, BackendError, ConflictError, type DraftRequest, type SaveRequest } from "../../src/api";
import { DRAFT_AFTER_MS, DRAFT_AT_LEAST_EVERY_MS, Session, claimWindow } from "../../src/ui/session";

class FakeBackend {
  drafts: DraftRequest[] = [];
  saves: SaveRequest[] = [];
  deleted: string[] = [];
  draftOf: { window: string; time: number } | null = null;
  revision = "r1";
  down = false;
  /** The server answers, but cannot write. */
  full = false;
  origin = "result";
  onDisk = "r1";

  async skeleton() {
    const loaded = { document: { nodes: [] }, revision: this.onDisk, origin: this.origin, file: "a.json" };
    return { ...loaded, result_revision: this.revision, ...this.draftOf };
  }
  async saveDraft(request: DraftRequest) {
    if (this.down) throw new BackendError("no answer", 0);
    if (this.full) throw new BackendError("No space left", 507);
    this.drafts.push(request);
  }
  async deleteDraft(_: string, window: string, time?: number) {
    this.deleted.push(time === undefined ? window : `${window} of ${time}`);
  }
  async save(request: SaveRequest) {
    if (this.down) throw new BackendError("no answer", 0);
    if (this.full) throw new BackendError("No space left", 507);
    if (request.revision !== this.revision) throw new ConflictError("changed", this.revision, { theirs: true });
    this.saves.push(request);
    this.revision += "+";
    return { revision: this.revision, files: ["a.json", "a.rsml"] };
  }
}

let backend: FakeBackend;
let session: Session;
let count = 0;
let messages: string[] = [];

beforeEach(async () => {
  vi.useFakeTimers();
  backend = new FakeBackend();
  count = 0;
  messages = [];
  session = new Session(backend as unknown as Backend, "a.jpg", "w1", {
    document: () => ({ count }),
    status: (_, message) => messages.push(message),
  });
  await session.load();
});
afterEach(() => vi.useRealTimers());

const change = () => {
  count++;
  session.changed();
};

describe("a file that changes on disk", () => {
  it("is taken over if it is new and nothing was changed here", async () => {
    expect(await session.reload()).toBeNull();
    backend.onDisk = "r2";
    expect((await session.reload())?.revision).toBe("r2");
    expect(session.revision).toBe("r2");
    expect(session.state).toBe("saved");
  });

  it("is not taken over after a change, also while it is loaded, nor as a draft", async () => {
    backend.onDisk = "r2";
    backend.origin = "draft";
    expect(await session.reload()).toBeNull();
    backend.origin = "result";
    const loading = session.reload();
    change();
    expect(await loading).toBeNull();
    expect(await session.reload()).toBeNull();
    expect(session.revision).toBe("r1");
  });
});

describe("autosave", () => {
  it("writes one draft after a pause", async () => {
    change();
    change();
    expect(session.state).toBe("unsaved");
    await vi.advanceTimersByTimeAsync(DRAFT_AFTER_MS + 1);
    expect(backend.drafts).toEqual([{ image: "a.jpg", window: "w1", revision: "r1", document: { count: 2 } }]);
    expect(session.state).toBe("draft");
  });

  it("does not wait forever while someone works without a pause", async () => {
    for (let t = 0; t < DRAFT_AT_LEAST_EVERY_MS + 1000; t += 500) {
      change();
      await vi.advanceTimersByTimeAsync(500);
    }
    expect(backend.drafts.length).toBeGreaterThan(0);
  });

  it("tries again until the server is back", async () => {
    backend.down = true;
    change();
    await vi.advanceTimersByTimeAsync(DRAFT_AFTER_MS + 1);
    expect(session.state).toBe("offline");
    backend.down = false;
    await vi.advanceTimersByTimeAsync(10000);
    expect(session.state).toBe("draft");
    expect(backend.drafts.at(-1)?.document).toEqual({ count: 1 });
  });

  it("says that a draft was not written if the server answers, and tries again", async () => {
    backend.full = true;
    change();
    await session.flush();
    expect([session.state, session.atRisk, messages.at(-1)]).toEqual(["unsaved", true, "Draft not written: No space left"]);
    backend.full = false;
    await vi.advanceTimersByTimeAsync(10000);
    expect([session.state, session.atRisk]).toEqual(["draft", false]);
  });

  it("goes on after a save that failed", async () => {
    backend.full = true;
    change();
    expect(await session.save(false)).toBe(false);
    expect([session.state, session.atRisk]).toEqual(["unsaved", true]);
    backend.full = false;
    await vi.advanceTimersByTimeAsync(10000);
    expect(backend.drafts.map(({ document }) => document)).toEqual([{ count: 1 }]);
    expect([session.state, session.atRisk]).toEqual(["draft", false]);
  });

  it("keeps work in a draft while a conflict waits", async () => {
    backend.revision = "other";
    change();
    await session.save(false);
    await session.flush();
    expect([backend.drafts.length, session.state, session.atRisk]).toEqual([1, "conflict", false]);
  });

  it("writes what is open when the image is left", async () => {
    change();
    await session.close();
    expect(backend.drafts).toHaveLength(1);
  });
});

describe("saving", () => {
  it("removes the draft and continues from the new revision", async () => {
    change();
    expect(await session.save(true)).toBe(true);
    expect(backend.saves[0]?.accepted).toBe(true);
    expect(backend.deleted).toEqual(["w1"]);
    expect(session.state).toBe("saved");
    expect(await session.save(false)).toBe(true);
  });

  it("stays unsaved if something changed meanwhile", async () => {
    change();
    const done = session.save(false);
    change();
    await vi.advanceTimersByTimeAsync(0);
    await done;
    expect(["unsaved", "saved"]).toContain(session.state);
    await vi.advanceTimersByTimeAsync(DRAFT_AFTER_MS + 1);
    const last = backend.drafts.at(-1)?.document ?? backend.saves.at(-1)?.document;
    expect(last).toEqual({ count: 2 });
  });

  it("reports a conflict and overwrites nothing", async () => {
    backend.revision = "other";
    change();
    expect(await session.save(false)).toBe(false);
    expect(session.state).toBe("conflict");
    expect(backend.saves).toHaveLength(0);
    expect(session.conflict?.document).toEqual({ theirs: true });
  });

  it("keeps mine if asked", async () => {
    backend.revision = "other";
    change();
    await session.save(false);
    expect(await session.keepMine()).toBe(true);
    expect(backend.saves[0]?.document).toEqual({ count: 1 });
  });

  it("takes theirs if asked", async () => {
    backend.revision = "other";
    change();
    await session.save(false);
    expect(await session.takeTheirs()).toEqual({ theirs: true });
    expect(session.revision).toBe("other");
    change();
    expect(await session.save(false)).toBe(true);
  });

  it("keeps the work in a draft if the decision waits", async () => {
    backend.revision = "other";
    change();
    await session.save(false);
    session.postpone();
    await vi.advanceTimersByTimeAsync(DRAFT_AFTER_MS + 1);
    expect(backend.drafts).toHaveLength(1);
    expect(await session.save(false)).toBe(false);
  });

  it("of a draft of an older result is a conflict", async () => {
    backend.origin = "draft";
    backend.revision = "newer";
    await session.load();
    expect(session.state).toBe("draft");
    expect(await session.save(false)).toBe(false);
    expect(session.conflict).not.toBeNull();
  });
});

describe("the draft of another window", () => {
  const theirs = { window: "w0", time: 5 };
  beforeEach(async () => {
    Object.assign(backend, { origin: "draft", draftOf: theirs });
    await session.load();
  });

  it("is deleted only as it was loaded", async () => {
    expect(await session.save(false)).toBe(true);
    expect(backend.saves[0]?.recovered).toEqual(theirs);
    expect(backend.deleted).toEqual(["w1", "w0 of 5"]);
    expect(await session.save(false)).toBe(true);
    expect(backend.saves[1]?.recovered).toBeNull();
  });

  it("is discarded only as it was loaded", async () => {
    await session.discardDraft();
    expect(backend.deleted).toEqual(["w1", "w0 of 5"]);
  });

  it("is none if this window wrote it", async () => {
    backend.draftOf = { window: "w1", time: 5 };
    await session.load();
    await session.discardDraft();
    expect(backend.deleted).toEqual(["w1"]);
  });
});

describe("the name of a window", () => {
  const storage = (map = new Map<string, string>()) => ({
    map, getItem: (k: string) => map.get(k) ?? null, setItem: (k: string, v: string) => void map.set(k, v),
  });
  /** The locks of a browser with several windows. */
  class Locks {
    held = new Set<string>();
    async request(name: string, _: unknown, work: (lock: unknown) => unknown): Promise<void> {
      if (this.held.has(name)) return void work(null);
      this.held.add(name);
      void work({ name });
    }
  }
  const claim = (tab: ReturnType<typeof storage>, locks: Locks | null): Promise<string> =>
    claimWindow(tab, locks as unknown as Pick<LockManager, "request"> | null);

  it("is kept by a tab that is reloaded, and not by one that is a copy of an open one", async () => {
    const [tab, locks] = [storage(), new Locks()];
    const name = await claim(tab, locks);
    const copy = storage(new Map(tab.map));
    const other = await claim(copy, locks);
    expect(other).not.toBe(name);
    locks.held.clear();
    expect(await claim(tab, locks)).toBe(name);
    expect(await claim(copy, locks)).toBe(other);
  });

  it("is new with each load of a page that has no locks", async () => {
    const tab = storage();
    expect(await claim(tab, null)).not.toBe(await claim(tab, null));
    expect(await claimWindow(null, null)).toMatch(/^[0-9a-f]{16}$/);
  });
});
