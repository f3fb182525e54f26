import { describe, expect, it } from "vitest";
import { BackendError, ConflictError, HttpBackend } from "../../src/api";

function backend(status: number, body: unknown): { api: HttpBackend; calls: [string, RequestInit][] } {
  const calls: [string, RequestInit][] = [];
  const fetcher = async (url: unknown, init?: RequestInit): Promise<Response> => {
    calls.push([String(url), init ?? {}]);
    return new Response(typeof body === "string" ? body : JSON.stringify(body), { status });
  };
  return { api: new HttpBackend("", fetcher as typeof fetch), calls };
}

describe("HttpBackend", () => {
  it("encodes names of images", async () => {
    const { api, calls } = backend(200, { width: 1, height: 1, tile: 512, levels: 1 });
    await api.pyramid("a b/ü&x=1#.jpg");
    expect(calls[0]![0]).toBe("/api/pyramid?image=a+b%2F%C3%BC%26x%3D1%23.jpg");
    expect(new URL(calls[0]![0], "http://h").searchParams.get("image")).toBe("a b/ü&x=1#.jpg");
    expect(api.traitsTable()).toBe("/api/traits.csv");
  });

  it("sends JSON", async () => {
    const { api, calls } = backend(202, { job: "j" });
    expect(await api.predict("a.jpg", 512, [1, 2, 3, 4], 6)).toBe("j");
    const [url, init] = calls[0]!;
    expect([url, init.method]).toEqual(["/api/predict", "POST"]);
    expect(JSON.parse(String(init.body))).toEqual({ image: "a.jpg", working_size: 512, region: [1, 2, 3, 4], views: 6 });
  });

  it("asks for a GPU and for a training on images without corrections", async () => {
    const { api, calls } = backend(200, { gpu: true });
    expect(await api.hasGpu()).toBe(true);
    await api.startTraining(5, true, false);
    expect(calls.map(([url, init]) => [url, init.method])).toEqual([["/api/gpu", "GET"], ["/api/training", "POST"]]);
    expect(JSON.parse(String(calls[1]![1].body))).toEqual({
      max_minutes: 5, unannotated: true, include_unaccepted: false,
    });
  });

  it("passes on the sentence of the server", async () => {
    const { api } = backend(404, { error: "There is no such image in the folder." });
    await expect(api.skeleton("x")).rejects.toThrow("There is no such image in the folder.");
    await expect(backend(500, "<html>").api.images()).rejects.toThrow("The server answered 500.");
  });

  it("turns 409 into a conflict with the other document", async () => {
    const { api } = backend(409, { error: "changed", revision: "r2", document: { nodes: [] } });
    const error = await api.save({ image: "x", document: {}, revision: "r1", accepted: false, window: "w" }).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ConflictError);
    expect((error as ConflictError).revision).toBe("r2");
    expect((error as ConflictError).document).toEqual({ nodes: [] });
  });

  it("says so if there is no server", async () => {
    const api = new HttpBackend("", (async () => {
      throw new TypeError("network");
    }) as unknown as typeof fetch);
    const error = await api.images().catch((e: unknown) => e);
    expect(error).toBeInstanceOf(BackendError);
    expect((error as BackendError).status).toBe(0);
  });
});
