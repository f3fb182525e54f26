import { beforeEach, describe, expect, it, vi } from "vitest";
import { type Backend, BackendError } from "../../src/api";
import { EditorController } from "../../src/ui/controller.svelte";
import { DEFAULT_SETTINGS } from "../../src/ui/settings";

// The canvas needs a browser; what is drawn is no part of these tests.
vi.mock("../../src/ui/canvas/stage", () => ({
  Stage: class {
    imageSize = { width: 400, height: 400 };
    shownSize = { width: 400, height: 400 };
    constructor() {
      return new Proxy(this, { get: (stage, key) => Reflect.get(stage, key) ?? (() => undefined) });
    }
  },
}));

/** A path of three nodes. */
const DOCUMENT = {
  format: "treeformer-skeleton", version: 1, roots: [0],
  nodes: [[100, 100], [100, 200], [100, 300]], edges: [[0, 1], [1, 2]],
};
type Written = { nodes: number[][] };

class FakeBackend {
  saves: Written[] = [];
  drafts: Written[] = [];
  showPicture: (value: object) => void = () => undefined;
  failPicture: (error: Error) => void = () => undefined;
  /** Thrown by requests that write. */
  broken: Error | null = null;

  pyramid() {
    return new Promise((resolve, reject) => ([this.showPicture, this.failPicture] = [resolve, reject]));
  }
  async skeleton() {
    return { document: DOCUMENT, revision: "r1", origin: "result", result_revision: "r1", file: "a.json" };
  }
  async saveDraft({ document }: { document: unknown }) {
    if (this.broken) throw this.broken;
    this.drafts.push(document as Written);
  }
  async deleteDraft() {}
  async save({ document }: { document: unknown }) {
    if (this.broken) throw this.broken;
    this.saves.push(document as Written);
    return { revision: `r${this.saves.length + 1}`, files: ["a.json"] };
  }
}

let backend: FakeBackend;
let c: EditorController;
let next: number;

beforeEach(() => {
  backend = new FakeBackend();
  next = 0;
  c = new EditorController(backend as unknown as Backend, "a.jpg", {
    settings: () => DEFAULT_SETTINGS,
    change: () => undefined,
    session: () => null,
    step: () => undefined,
    next: () => ++next > 0,
    saved: () => undefined,
    job: () => undefined,
    changed: () => undefined,
  });
  c.attach({} as HTMLElement, {} as HTMLCanvasElement, {} as HTMLCanvasElement);
});

const settled = (): Promise<unknown> => new Promise((resolve) => setTimeout(resolve));
const opened = async (): Promise<void> => {
  backend.showPicture({});
  await settled();
  expect(c.ready).toBe(true);
};
const key = (text: string, more: object = {}): boolean => {
  const event = { key: text, ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, repeat: false, ...more };
  return c.key(event as KeyboardEvent);
};

describe("an image that is not shown", () => {
  it("is not saved while it is loaded, whatever is pressed", async () => {
    await settled();
    expect(await c.saveNow(false)).toBe(false);
    await c.acceptAndNext();
    key("s", { ctrlKey: true });
    key("Enter", { ctrlKey: true });
    key("b");
    c.run("draw-branch");
    c.askPredict();
    await c.session.flush();
    expect([backend.saves, backend.drafts, next, c.dialog]).toEqual([[], [], 0, null]);
    await opened();
    expect(c.state?.graph.size).toBe(3);
    expect(await c.saveNow(false)).toBe(true);
    expect(backend.saves.map(({ nodes }) => nodes.length)).toEqual([3]);
  });

  it("is not saved if it cannot be read", async () => {
    backend.failPicture(new BackendError("a.jpg cannot be read", 422));
    await settled();
    expect(await c.saveNow(true)).toBe(false);
    await c.acceptAndNext();
    expect([backend.saves, next, c.notice?.text]).toEqual([[], 0, "a.jpg cannot be read"]);
  });
});

describe("Accept", () => {
  it("saves once and goes one image on, also if its key is held down", async () => {
    await opened();
    key("Enter", { ctrlKey: true });
    key("Enter", { ctrlKey: true });
    await settled();
    expect([backend.saves.length, next]).toEqual([1, 1]);
    key("Enter", { ctrlKey: true, repeat: true });
    await settled();
    expect([backend.saves.length, next]).toEqual([1, 1]);
  });
});

describe("a branch that is being drawn", () => {
  const click = (x: number, y: number): void => {
    const info = { point: { x, y }, modifiers: { shift: false, ctrl: false, alt: false }, reach: 4, kind: "mouse" as const };
    c.gestures.press(info);
    c.gestures.click(info);
  };
  const draw = async (): Promise<void> => {
    await opened();
    key("b");
    for (const y of [50, 100, 150]) click(300, y);
    expect(c.state?.graph.size).toBe(3);
  };

  it("is saved", async () => {
    await draw();
    expect(await c.saveNow(false)).toBe(true);
    expect(backend.saves.map(({ nodes }) => nodes.length)).toEqual([6]);
  });

  it("is in the draft when the image is left", async () => {
    await draw();
    expect(await c.leave(() => undefined)).toBe(true);
    expect(backend.drafts.map(({ nodes }) => nodes.length)).toEqual([6]);
  });

  it("stays if another tool is chosen, and is discarded by Escape", async () => {
    await draw();
    c.run("cancel");
    expect([c.state?.graph.size, c.state?.mode]).toEqual([6, "select"]);
    key("b");
    for (const y of [50, 100]) click(350, y);
    key("Escape");
    expect([c.state?.graph.size, c.state?.mode]).toEqual([6, "select"]);
  });
});

describe("work that cannot be stored", () => {
  it("keeps the image open until it is stored, unless somebody decides to lose it", async () => {
    await opened();
    backend.broken = new BackendError("No space left on device", 507);
    c.run("select-all");
    c.run("delete");
    let lost = 0;
    expect(await c.leave(() => lost++)).toBe(false);
    expect(c.notice?.text).toContain("Draft not written: No space left on device");
    expect(c.notice?.actions.map(({ label }) => label)).toEqual(["Save a copy", "Leave and lose them"]);
    c.notice?.actions[1]?.run();
    expect(lost).toBe(1);
    backend.broken = null;
    expect(await c.leave(() => lost++)).toBe(true);
    expect([backend.drafts.length, c.notice]).toEqual([1, null]);
  });
});
