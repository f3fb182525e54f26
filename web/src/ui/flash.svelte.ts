/** A message in the status bar that goes away by itself. */

const SHOWN_MS = 4000;

/** One message and its timer. */
export class Flash {
  text = $state("");
  private timer: ReturnType<typeof setTimeout> | null = null;

  /** Show a message for a few seconds. */
  show(text: string): void {
    this.text = text;
    this.stop();
    this.timer = setTimeout(() => this.clear(), SHOWN_MS);
  }

  /** Show nothing. */
  clear(): void {
    this.text = "";
  }

  /** Drop the timer; the message stays. */
  stop(): void {
    if (this.timer) clearTimeout(this.timer);
  }
}
