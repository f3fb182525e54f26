/**
 * The pointer of the canvas as input of the editor: px of the image, and which presses belong to a tool.
 *
 * Without a pointer over the canvas, the keyboard has a cursor of its own.
 */

import type { Editor } from "../editor/editor";
import type { Point, PointerInput } from "../editor/types";
import type { GestureHandlers, PointerInfo } from "./canvas/gestures";
import type { Stage } from "./canvas/stage";
import type { View } from "./canvas/view";
import { DRAG_MODES } from "./modes";

/** Nodes and edges within this distance of the cursor of the keyboard are hit, CSS px. */
const KEY_REACH_PX = 9;

/** What the pointer needs of the page. */
export interface Surface {
  readonly view: View;
  readonly stage: Stage | null;
  /** False if the skeleton is hidden: nothing can be hit then. */
  readonly overlay: boolean;
  readonly snapping: boolean;
  /** The pointer moved, px of the image; null if it left. */
  moved(to: Point | null): void;
  /** Somebody began to do something. */
  began(): void;
}

/** Translates gestures on the canvas for the editor. */
export class Pointing {
  /** Where the pointer is; null if it is not over the canvas. */
  last: PointerInput | null = null;
  private taken = false;

  constructor(
    private readonly editor: Editor,
    private readonly surface: Surface,
  ) {}

  private input({ point, modifiers, reach }: PointerInfo): PointerInput {
    const scale = this.surface.view.scale;
    const p = this.surface.view.toImage(point);
    const input = { ...p, ...modifiers, tolerance: reach / scale, button: 0 };
    if (!this.surface.snapping) {
      const { mode, preview } = this.editor.state;
      if (mode === "drag") input.alt = true;
      if ((mode === "draw" || mode === "trace") && preview.line.length > 0) input.tolerance = 1 / scale;
    }
    this.last = input;
    return input;
  }

  /** Without a pointer over the canvas, keys begin in the middle of the view, or at the selected node. */
  placeKeyCursor(): void {
    const { view } = this.surface;
    const { mode, selection, graph } = this.editor.state;
    if (this.last || !(mode === "browse" || mode === "select")) return;
    const [only] = selection.size === 1 ? selection : [];
    const node = only === undefined ? undefined : graph.get(only);
    const { x, y } = node ?? view.toImage({ x: view.width / 2, y: view.height / 2 });
    this.editor.placeCursor({ x, y, tolerance: KEY_REACH_PX / view.scale });
  }

  /** The cross of the keyboard; null if no tool is used or the pointer shows the place. */
  get keyCursor(): Point | null {
    const { mode } = this.editor.state;
    const isTool = mode !== "browse" && mode !== "select" && mode !== "drag";
    return isTool && !this.last ? this.editor.cursorAt : null;
  }

  /** What the canvas reports. */
  gestures(): GestureHandlers {
    const { editor, surface } = this;
    return {
      hover: (info) => {
        const input = this.input(info);
        surface.moved({ x: input.x, y: input.y });
        if (surface.overlay) editor.pointerMove(input);
      },
      leave: () => {
        surface.moved(null);
        this.last = null;
        editor.pointerLeave();
      },
      press: (info) => {
        surface.began();
        if (!surface.overlay) return "pan";
        const input = this.input(info);
        editor.pointerMove(input);
        const { mode, hover } = editor.state;
        const movable = (mode === "browse" || mode === "select") && hover?.kind === "node";
        this.taken = movable || DRAG_MODES.has(mode);
        if (this.taken) editor.pointerDown(input);
        return this.taken ? "take" : "pan";
      },
      drag: (info) => {
        const input = this.input(info);
        surface.moved({ x: input.x, y: input.y });
        editor.pointerMove(input);
      },
      release: (info) => editor.pointerUp(this.input(info)),
      cancel: () => void editor.run("cancel"),
      click: (info) => {
        if (this.taken || !surface.overlay) return;
        const input = this.input(info);
        editor.pointerDown(input);
        editor.pointerUp(input);
      },
      doubleClick: (info) => {
        if (surface.overlay) editor.doubleClick(this.input(info));
      },
      pan: (dx, dy) => surface.stage?.pan(dx, dy),
      zoom: (factor, anchor) => surface.stage?.zoom(factor, anchor),
    };
  }
}
