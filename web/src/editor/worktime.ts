// The time that somebody worked on a document.

/** Pauses longer than this do not count as work, s. */
const LONGEST_PAUSE_S = 30;

/** Adds the times between signs of activity. */
export class WorkTime {
  seconds = 0;
  private last: number | null = null;

  /** Note activity at a time, s. */
  touch(now: number): void {
    if (this.last !== null) this.seconds += Math.max(0, Math.min(LONGEST_PAUSE_S, now - this.last));
    this.last = now;
  }
}
