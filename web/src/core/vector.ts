// A sparse vector with structural sharing: setting one item copies one chunk, not the vector.

const BITS = 6;
const CHUNK = 1 << BITS;
const MASK = CHUNK - 1;

type Chunk<T> = ReadonlyArray<T | undefined>;

/** An immutable map from small non-negative integers to values. Iteration is in ascending order of the keys. */
export class Vector<T> {
  private constructor(
    private readonly chunks: ReadonlyArray<Chunk<T> | undefined>,
    readonly size: number,
  ) {}

  private static readonly none: Vector<never> = new Vector<never>([], 0);

  static empty<T>(): Vector<T> {
    return Vector.none as Vector<unknown> as Vector<T>;
  }

  get(key: number): T | undefined {
    return this.chunks[key >> BITS]?.[key & MASK];
  }

  has(key: number): boolean {
    return this.get(key) !== undefined;
  }

  set(key: number, value: T): Vector<T> {
    return this.update([[key, value]]);
  }

  delete(key: number): Vector<T> {
    return this.update([[key, undefined]]);
  }

  /** Set (or delete, if the value is undefined) several items; each chunk is copied at most once. */
  update(changes: Iterable<readonly [number, T | undefined]>): Vector<T> {
    let chunks: (Chunk<T> | undefined)[] | null = null;
    const fresh = new Map<number, (T | undefined)[]>();
    let size = this.size;
    for (const [key, value] of changes) {
      const at = key >> BITS;
      let chunk = fresh.get(at);
      if (chunk === undefined) {
        chunks ??= this.chunks.slice();
        const old = chunks[at];
        chunk = old === undefined ? new Array<T | undefined>(CHUNK).fill(undefined) : old.slice();
        fresh.set(at, chunk);
        while (chunks.length < at) chunks.push(undefined);
        chunks[at] = chunk;
      }
      const before = chunk[key & MASK];
      size += (value === undefined ? 0 : 1) - (before === undefined ? 0 : 1);
      chunk[key & MASK] = value;
    }
    return chunks === null ? this : new Vector(chunks, size);
  }

  *entries(): Generator<[number, T]> {
    for (let at = 0; at < this.chunks.length; at++) {
      const chunk = this.chunks[at];
      if (chunk === undefined) continue;
      for (let k = 0; k < CHUNK; k++) {
        const value = chunk[k];
        if (value !== undefined) yield [(at << BITS) | k, value];
      }
    }
  }

  forEach(visit: (value: T, key: number) => void): void {
    for (let at = 0; at < this.chunks.length; at++) {
      const chunk = this.chunks[at];
      if (chunk === undefined) continue;
      for (let k = 0; k < CHUNK; k++) {
        const value = chunk[k];
        if (value !== undefined) visit(value, (at << BITS) | k);
      }
    }
  }

  /** The values in ascending order of their keys. */
  values(): T[] {
    const list: T[] = [];
    this.forEach((value) => list.push(value));
    return list;
  }
}
