// As much of IndexedDB as the page uses. A full storage is noticed when a transaction ends, as in browsers.

type Records = Map<string, unknown>;

/** A database in memory. */
export class FakeDatabase {
  readonly stores = new Map<string, Records>();
  private readonly keyPaths = new Map<string, string | string[]>();
  /** No transaction that writes can be completed. */
  isFull = false;
  /** Transactions follow one another. */
  private last: Promise<void> = Promise.resolve();

  /** What the page opens the database with. */
  readonly factory = {
    open: () => {
      const request = { result: this.database } as unknown as IDBOpenDBRequest;
      setTimeout(() => {
        request.onupgradeneeded?.({} as IDBVersionChangeEvent);
        request.onsuccess?.({} as Event);
      });
      return request;
    },
  } as unknown as IDBFactory;

  private readonly database = {
    createObjectStore: (name: string, { keyPath }: { keyPath: string | string[] }) => {
      this.stores.set(name, new Map());
      this.keyPaths.set(name, keyPath);
    },
    transaction: () => this.transaction(),
  };

  private keyOf(name: string, value: Record<string, unknown>): string {
    const path = this.keyPaths.get(name) as string | string[];
    return JSON.stringify(typeof path === "string" ? value[path] : path.map((one) => value[one]));
  }

  private transaction(): IDBTransaction {
    let before = new Map<string, Records>();
    const turn = this.last.then(() => {
      before = new Map([...this.stores].map(([name, records]) => [name, new Map(records)]));
    });
    let ended = (): void => undefined;
    this.last = new Promise((resolve) => (ended = resolve));
    const transaction = { error: null as DOMException | null, oncomplete: () => undefined, onabort: () => undefined };
    let [open, writes] = [0, 0];
    const end = (): void => {
      if (open > 0) return;
      ended();
      if (!this.isFull || writes === 0) return transaction.oncomplete();
      for (const [name, records] of before) this.stores.set(name, records);
      transaction.error = new DOMException("full", "QuotaExceededError");
      transaction.onabort();
    };
    const request = (work: () => unknown): IDBRequest => {
      open++;
      const made = {} as { result: unknown; onsuccess?: () => void };
      void turn.then(() => {
        made.result = work();
        made.onsuccess?.();
        setTimeout(() => (open--, end()));
      });
      return made as unknown as IDBRequest;
    };
    const objectStore = (name: string) => {
      const records = (): Records => this.stores.get(name) as Records;
      const put = (value: Record<string, unknown>) => (writes++, request(() => records().set(this.keyOf(name, value), value)));
      return {
        get: (key: unknown) => request(() => records().get(JSON.stringify(key))),
        getKey: (key: unknown) => request(() => (records().has(JSON.stringify(key)) ? key : undefined)),
        getAll: () => request(() => [...records().values()]),
        delete: (key: unknown) => (writes++, request(() => records().delete(JSON.stringify(key)))),
        put,
        add: put,
      };
    };
    return Object.assign(transaction, { objectStore }) as unknown as IDBTransaction;
  }
}
