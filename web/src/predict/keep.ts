// The files of the model in the cache from which the service worker answers. The worker fills it itself: on the first
// visit the service worker may begin to answer only after the download has begun.

/** The name of the cache in page/sw.js. */
export const CACHE = "treeformer-page";

/** Store files that are not in the cache yet, by address. Return true if all are there afterwards. */
export async function keep(files: ReadonlyMap<string, BodyInit>, storage: CacheStorage | undefined): Promise<boolean> {
  try {
    const cache = await storage?.open(CACHE);
    if (cache === undefined) return false;
    for (const [address, body] of files) {
      if ((await cache.match(address)) === undefined) await cache.put(address, new Response(body));
    }
    return true;
  } catch {
    return false; // no room, or a browser that forbids storage
  }
}

/** Fetch a file; without a connection take it from the cache. */
export async function fetchOk(address: string, storage: CacheStorage | undefined, fetcher: typeof fetch = fetch): Promise<Response> {
  const answer = await fetcher(address).catch(() => null);
  if (answer?.ok) return answer;
  const kept = await storage?.open(CACHE).then((cache) => cache.match(address), () => undefined);
  if (kept) return kept;
  throw new Error("The model cannot be downloaded: check the connection and reload the page.");
}
