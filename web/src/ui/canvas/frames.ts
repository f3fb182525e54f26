/** At most one redraw per animation frame, and how long the frames took. */

/** Calls a function in the next animation frame after a request. */
export class FrameLoop {
  private requested = 0;
  private last = 0;
  /** Milliseconds between the last consecutive frames, newest last. */
  readonly intervals: number[] = [];
  /** Milliseconds that drawing took in each of those frames. */
  readonly costs: number[] = [];

  constructor(private readonly draw: () => void) {}

  request(): void {
    if (!this.requested) this.requested = requestAnimationFrame(this.frame);
  }

  stop(): void {
    cancelAnimationFrame(this.requested);
    this.requested = 0;
  }

  private readonly frame = (time: number): void => {
    this.requested = 0;
    const begin = performance.now();
    this.draw();
    this.note(this.costs, performance.now() - begin);
    if (time - this.last < 500) this.note(this.intervals, time - this.last);
    this.last = time;
  };

  private note(list: number[], value: number): void {
    list.push(value);
    if (list.length > 1000) list.shift();
  }
}
