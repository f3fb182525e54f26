/** Corrections between the dates of a series: what was corrected here, and what other dates offer to this one. */

import { applyCorrection, type Correction, corrections } from "../core/corrections";
import type { Editor } from "../editor/editor";
import { toleranceFor } from "./series";

/** What offers need of the page. */
export interface OfferHooks {
  /** Width and height of this image, px; null as long as they are unknown. */
  size(): { width: number; height: number } | null;
  /** Show what is offered. */
  redraw(): void;
}

/** The corrections made on one image and offered to it. */
export class Offers {
  /** What another date offers, px of this image. */
  offered: readonly Correction[] = [];

  constructor(
    private readonly editor: Editor,
    private readonly hooks: OfferHooks,
  ) {}

  /** What was corrected since the image was opened, or since another graph replaced it. */
  made(): Correction[] {
    const { graph, base } = this.editor.version;
    return corrections(base, graph);
  }

  /** Offer those corrections that would change something here. Return their number. */
  offer(list: readonly Correction[]): number {
    const { graph } = this.editor.state;
    const size = this.hooks.size();
    if (!size) return 0;
    const tolerance = toleranceFor(size);
    this.offered = list.filter((one) => applyCorrection(one, tolerance)(graph) !== graph);
    this.hooks.redraw();
    return this.offered.length;
  }

  /** Apply what is offered as one step. */
  apply(): void {
    const size = this.hooks.size();
    const list = this.offered;
    if (!size || list.length === 0) return;
    const tolerance = toleranceFor(size);
    this.offered = [];
    this.editor.perform("Corrections of another date", ...list.map((one) => applyCorrection(one, tolerance)));
  }
}
