// The service worker, which makes the page work offline.

/** Register the service worker. True as soon as it can answer for the page without a connection. */
export async function serviceWorkerReady(container: ServiceWorkerContainer | undefined): Promise<boolean> {
  if (container === undefined) return false;
  try {
    await container.register("sw.js");
    return (await container.ready).active !== null;
  } catch {
    return false;
  }
}
