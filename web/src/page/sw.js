// Service worker: keeps the page, the runtime and the weights, so that the page works offline.
// The build replaces the two lists. Names of large files contain their hash, so they never change.

const CACHE = "treeformer-page";
const SMALL = __SMALL__;
const LARGE = __LARGE__;
const known = new Set([...SMALL, ...LARGE].map(address));

function address(path) {
  return new URL(path, self.registration.scope).href;
}

self.addEventListener("install", (event) => {
  const keep = async () => {
    const cache = await caches.open(CACHE);
    await cache.addAll(SMALL.map((path) => new Request(address(path), { cache: "reload" })));
    await self.skipWaiting();
  };
  event.waitUntil(keep());
});

self.addEventListener("activate", (event) => {
  const clean = async () => {
    const cache = await caches.open(CACHE);
    for (const request of await cache.keys()) if (!known.has(request.url)) await cache.delete(request);
    await self.clients.claim();
  };
  event.waitUntil(clean());
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  url.search = "";
  url.hash = "";
  if (url.href === self.registration.scope) url.pathname += "index.html";
  if (request.method === "GET" && known.has(url.href)) event.respondWith(answer(url.href, event));
});

async function answer(href, event) {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(href);
  if (kept) return isolated(kept);
  const fresh = await fetch(href);
  if (fresh.ok) event.waitUntil(cache.put(href, fresh.clone()).catch(() => undefined));
  return isolated(fresh);
}

/** Threads share memory, which browsers allow only with these headers. Many hosts cannot be told to send them. */
function isolated(response) {
  const headers = new Headers(response.headers);
  headers.set("Cross-Origin-Opener-Policy", "same-origin");
  headers.set("Cross-Origin-Embedder-Policy", "require-corp");
  headers.set("Cross-Origin-Resource-Policy", "same-origin");
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}
