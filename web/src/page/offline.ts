// The service worker, which makes the page work offline.

const WAIT_MS = 4000;

/** Register the service worker and wait, for a moment, until it answers for this page. True if it does. */
export async function keepOffline(container: ServiceWorkerContainer | undefined): Promise<boolean> {
  if (container === undefined) return false;
  try {
    await container.register("sw.js");
  } catch {
    return false;
  }
  if (container.controller) return true;
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), WAIT_MS);
    container.addEventListener(
      "controllerchange",
      () => {
        clearTimeout(timer);
        resolve(true);
      },
      { once: true },
    );
  });
}
