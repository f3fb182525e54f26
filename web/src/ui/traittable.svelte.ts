/** The table of all traits, which the backend computes. It follows the document with a delay. */

import type { Backend, SkeletonDocument } from "../api";
import type { Graph } from "../core/graph";
import { messageOf } from "./session";
import { type TraitRows, transposed } from "./traits";

const DELAY_MS = 400;

/** What the table needs of the page. */
export interface TableSource {
  /** The current graph; null until a document is loaded. */
  graph(): Graph | null;
  document(): SkeletonDocument;
  tell(text: string): void;
}

/** Requests the table and keeps the last one. */
export class LiveTable {
  /** The last table; null until one was requested. */
  current = $state.raw<TraitRows | null>(null);
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly backend: Backend,
    private readonly source: TableSource,
  ) {}

  /** Compute the table soon. Requests in quick succession are one. */
  request(): void {
    this.stop();
    this.timer = setTimeout(() => void this.fetch(), DELAY_MS);
  }

  /** Drop a request that has not begun. */
  stop(): void {
    if (this.timer) clearTimeout(this.timer);
  }

  private async fetch(): Promise<void> {
    const { source } = this;
    const graph = source.graph();
    if (!graph) return;
    try {
      const table = transposed(await this.backend.traits(source.document(), graph.pxPerMm));
      if (source.graph() === graph) this.current = table;
    } catch (error) {
      source.tell(messageOf(error));
    }
  }
}
