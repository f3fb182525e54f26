import { expect, test } from "vitest";
import { CACHE, fetchOk, keep } from "../../src/predict/keep.ts";

/** A storage with one cache; `full` makes writing fail. */
function storage(full = false) {
  const files = new Map<string, Response>();
  const opened: string[] = [];
  const cache = {
    match: async (address: string) => files.get(address)?.clone(),
    put: async (address: string, answer: Response) => {
      if (full) throw new DOMException("no room", "QuotaExceededError");
      files.set(address, answer);
    },
  };
  const open = async (name: string) => (opened.push(name), cache);
  return { files, opened, caches: { open } as unknown as CacheStorage };
}

test("what is missing is stored, what is there stays", async () => {
  const { files, opened, caches } = storage();
  files.set("/b", new Response("old"));
  expect(await keep(new Map([["/a", "new"], ["/b", "new"]]), caches)).toBe(true);
  expect(await files.get("/a")!.text()).toBe("new");
  expect(await files.get("/b")!.text()).toBe("old");
  expect(opened).toEqual([CACHE]);
});

test("a browser without room or storage does not promise to work offline", async () => {
  expect(await keep(new Map([["/a", "new"]]), storage(true).caches)).toBe(false);
  expect(await keep(new Map([["/a", "new"]]), undefined)).toBe(false);
});

test("without a connection the stored file is used, otherwise the error is one sentence", async () => {
  const { files, caches } = storage();
  const lost = (() => Promise.reject(new TypeError("no network"))) as typeof fetch;
  const missing = (async () => new Response("", { status: 404 })) as typeof fetch;
  files.set("/a", new Response("stored"));
  expect(await (await fetchOk("/a", caches, lost)).text()).toBe("stored");
  await expect(fetchOk("/b", caches, missing)).rejects.toThrow("The model cannot be downloaded");
  await expect(fetchOk("/b", undefined, lost)).rejects.toThrow("The model cannot be downloaded");
  const there = (async () => new Response("fresh")) as typeof fetch;
  expect(await (await fetchOk("/a", caches, there)).text()).toBe("fresh");
});
