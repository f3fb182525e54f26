// Images, results and drafts in IndexedDB: everything stays in this browser.

import type { SkeletonDocument } from "../api";

export interface StoredImage {
  readonly image: string;
  readonly file: Blob;
  readonly added: number;
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

  addImage(value: StoredImage): Promise<void> {
    return this.put("images", value);
  }

  putDraft(value: StoredDraft): Promise<void> {
    return this.put("drafts", value);
  }

  /** Store a result if the one that is there has the expected revision; return the one that is there otherwise. */
  async replaceResult(value: StoredResult, expected: string | null): Promise<StoredResult | null> {
    const transaction = this.database.transaction("results", "readwrite");
    const results = transaction.objectStore("results");
    const known = (await done(results.get(value.image))) as StoredResult | undefined;
    if ((known?.revision ?? null) !== expected) return known ?? null;
    await done(results.put(value));
    return null;
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

  private async put(name: string, value: unknown): Promise<void> {
    try {
      await done(this.database.transaction(name, "readwrite").objectStore(name).put(value));
    } catch (error) {
      if (error instanceof DOMException && error.name === "QuotaExceededError") {
        throw new Error("The browser's storage is full: remove images from the list.");
      }
      throw error;
    }
  }
}
