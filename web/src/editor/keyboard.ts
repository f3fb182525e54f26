// A key press in each mode: keys of the tools first, then the bindings of operations and commands.

import { freshPlant, moveNodes } from "../core/actions.ts";
import type { Host } from "./host.ts";
import { bindingOf } from "./keys.ts";
import type { Pen } from "./pen.ts";
import { moveAnnotation } from "./pointer.ts";
import type { Pointer } from "./pointer.ts";
import type { KeyInput, KeyResult } from "./types.ts";

const UNUSED: KeyResult = { handled: false, command: null };
const USED: KeyResult = { handled: true, command: null };

/** Handle keys. Tools are driven through the pen and the pointer, so that keys and clicks do the same. */
export class Keyboard {
  /** The digits of a plant number that were typed so far. */
  private digits = "";

  constructor(
    private readonly host: Host,
    private readonly pen: Pen,
    private readonly pointer: Pointer,
  ) {}

  /** Forget a number that is being typed. */
  drop(): void {
    this.digits = "";
  }

  /** Handle a key press in the current mode. */
  press(input: KeyInput): KeyResult {
    const { mode } = this.host.state;
    if (mode === "draw" || mode === "trace") {
      if (input.key === "Enter") {
        this.pen.end(null);
        return USED;
      }
      if (input.key === "Backspace") {
        this.pen.back(true);
        return USED;
      }
    }
    if (mode === "plant" && !input.ctrl && !input.alt) {
      if (/^[0-9]$/.test(input.key)) return this.typePlant(this.digits + input.key);
      if (this.digits !== "" && input.key === "Enter") return this.assign(Number(this.digits));
      if (this.digits !== "" && input.key === "Backspace") return this.typePlant(this.digits.slice(0, -1));
      if (input.key === "p" || input.key === "P") {
        return this.assign("new");
      }
    }
    if (mode !== "browse" && mode !== "select" && mode !== "drag" && input.key === " ") {
      // In modes that need a drag, the first press begins it and the second one ends it.
      if (!this.pointer.isDown) this.pointer.down(this.pointer.cursor);
      else this.pointer.up(this.pointer.cursor);
      return USED;
    }
    if (this.pointer.isDown && mode !== "drag" && input.key === "Enter") {
      this.pointer.up(this.pointer.cursor);
      return USED;
    }
    if (input.alt && input.key.startsWith("Arrow")) return this.nudge(input);
    const binding = bindingOf(input);
    if (binding === null) return UNUSED;
    if ("command" in binding) return { handled: true, command: binding.command };
    if (mode === "drag" && binding.operation !== "cancel" && binding.operation !== "undo") return USED;
    if ((mode === "draw" || mode === "trace") && binding.operation === "undo" && this.pen.hasPoints) {
      this.pen.back(false);
      return USED;
    }
    this.host.run(binding.operation);
    return USED;
  }

  /** Wait for another digit as long as there may be a plant with a longer number; the next free number is one of them. */
  private typePlant(digits: string): KeyResult {
    const { graph } = this.host.state;
    const number = Number(digits);
    const largest = graph.explicitPlants ? freshPlant(graph) : graph.roots.length;
    const mayGoOn = digits === "" || (number > 0 && 10 * number <= largest);
    if (!mayGoOn) return this.assign(number);
    this.digits = digits;
    this.host.update({ message: digits === "" ? "" : `Plant ${digits}: press Enter, or type another digit.` });
    return USED;
  }

  private assign(plant: number | "new"): KeyResult {
    this.host.leave({ message: "" });
    this.host.setPlant(plant);
    return USED;
  }

  /** Alt and an arrow key move the selected nodes, or the point that is about to be placed. */
  private nudge(input: KeyInput): KeyResult {
    const { mode, selection, edge } = this.host.state;
    const isTool = mode !== "browse" && mode !== "select";
    // Large steps of the pointer are visible on large images too.
    const by = !input.shift ? 1 : isTool ? Math.max(10, 2 * this.pointer.cursor.tolerance) : 10;
    const [dx, dy] = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, -by], ArrowDown: [0, by] }[input.key] ?? [0, 0];
    if (!isTool) {
      if (selection.size === 0 || edge !== null) return UNUSED;
      this.host.perform(moveAnnotation(selection.size), moveNodes(selection, dx as number, dy as number));
    } else {
      const { cursor } = this.pointer;
      this.pointer.move({ ...cursor, x: cursor.x + (dx as number), y: cursor.y + (dy as number) });
      this.host.update();
    }
    return USED;
  }
}
