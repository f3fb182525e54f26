// Images, results and drafts in IndexedDB: everything stays in this browser.

import type { SkeletonDocument } from "../api";

export interface StoredImage {
  readonly image: string;
  readonly file: Blob;
  readonly added: number;
  /** A small preview; missing in images that an earlier version of the page stored. */
  readonly thumbnail?: Blob;
}

export interface StoredResult {
  readonly image: string;
  readonly document: SkeletonDocument;
  readonly revision: string;
  readonly state: "predicted" | "edited" | "accepted";
}

export interface StoredDraft {
  readonly image: string;
  readonly window: string;
  readonly document: SkeletonDocument;
  readonly revision: string | null;
  readonly time: number;
}

const NAME = "treeformer-page";
const VERSION = 1;

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("The browser's storage failed."));
  });
}

/** Resolves once everything is written: a full storage is noticed only then, after the requests have succeeded. */
function written(transaction: IDBTransaction): Promise<void> {
  const end = new Promise<void>((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(storageError(transaction.error));
  });
  end.catch(() => undefined); // whoever writes may fail before
  return end;
}

function storageError(error: DOMException | null): Error {
  if (error?.name === "QuotaExceededError") {
    return new Error("The browser's storage is full: remove images from the list.");
  }
  return error ?? new Error("The browser's storage failed.");
}

/** The database of the page. */
export class Store {
  private constructor(private readonly database: IDBDatabase) {}

  static async open(factory: IDBFactory = indexedDB): Promise<Store> {
    const request = factory.open(NAME, VERSION);
    request.onupgradeneeded = () => {
      const { result } = request;
      result.createObjectStore("images", { keyPath: "image" });
      result.createObjectStore("results", { keyPath: "image" });
      result.createObjectStore("drafts", { keyPath: ["image", "window"] });
    };
    return new Store(await done(request));
  }

  images(): Promise<StoredImage[]> {
    return this.all("images");
  }

  results(): Promise<StoredResult[]> {
    return this.all("results");
  }

  drafts(): Promise<StoredDraft[]> {
    return this.all("drafts");
  }

  image(image: string): Promise<StoredImage | undefined> {
    return this.get("images", image);
  }

  result(image: string): Promise<StoredResult | undefined> {
    return this.get("results", image);
  }

  /** Store an image. False if there is one of this name, which stays. */
  async addImage(value: StoredImage): Promise<boolean> {
    const transaction = this.database.transaction("images", "readwrite");
    const end = written(transaction);
    const images = transaction.objectStore("images");
    const isFree = (await done(images.getKey(value.image))) === undefined;
    if (isFree) images.add(value);
    await end;
    return isFree;
  }

  /** Store a draft of an image that is in the list. */
  putDraft(value: StoredDraft): Promise<void> {
    return this.putFor(value.image, ["drafts"], (transaction) => void transaction.objectStore("drafts").put(value));
  }

  /** Store a result if the one that is there has the expected revision; return the one that is there otherwise. */
  replaceResult(value: StoredResult, expected: string | null): Promise<StoredResult | null> {
    return this.putFor(value.image, ["results"], async (transaction) => {
      const results = transaction.objectStore("results");
      const known = (await done(results.get(value.image))) as StoredResult | undefined;
      if ((known?.revision ?? null) !== expected) return known ?? null;
      results.put(value);
      return null;
    });
  }

  /** Delete a draft; with `time`, only if it is still the one of that time. */
  async deleteDraft(image: string, window: string, time?: number): Promise<void> {
    const drafts = this.database.transaction("drafts", "readwrite").objectStore("drafts");
    const known = (await done(drafts.get([image, window]))) as StoredDraft | undefined;
    if (time === undefined || known?.time === time) await done(drafts.delete([image, window]));
  }

  /** Forget an image with its result and drafts. */
  async remove(image: string): Promise<void> {
    const transaction = this.database.transaction(["images", "results", "drafts"], "readwrite");
    const range = IDBKeyRange.bound([image], [image, []]);
    await Promise.all([
      done(transaction.objectStore("images").delete(image)),
      done(transaction.objectStore("results").delete(image)),
      done(transaction.objectStore("drafts").delete(range)),
    ]);
  }

  private all<T>(name: string): Promise<T[]> {
    return done(this.database.transaction(name).objectStore(name).getAll()) as Promise<T[]>;
  }

  private get<T>(name: string, key: string): Promise<T | undefined> {
    return done(this.database.transaction(name).objectStore(name).get(key)) as Promise<T | undefined>;
  }

  /** Write what belongs to an image. An error if it was removed, in this window or in another one. */
  private async putFor<T>(
    image: string,
    names: readonly string[],
    write: (transaction: IDBTransaction) => T | Promise<T>,
  ): Promise<T> {
    const transaction = this.database.transaction(["images", ...names], "readwrite");
    const end = written(transaction);
    const isThere = (await done(transaction.objectStore("images").getKey(image))) !== undefined;
    const result = isThere ? await write(transaction) : null;
    await end;
    if (!isThere) throw new Error(`${image} was removed from this browser.`);
    return result as T;
  }
}
