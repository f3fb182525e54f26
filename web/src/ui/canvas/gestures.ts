/**
 * Pointer, wheel and pinch events of the canvas as a few gestures.
 *
 * A press is offered to `press`. If it answers "take", moves and the release go to the tool (drag a node, draw a
 * lasso). Otherwise a press without movement is a click, and one with movement pans. Two fingers pan and zoom. Middle
 * and right button always pan. A mouse wheel zooms; a trackpad scrolls, and zooms with two fingers (Ctrl + wheel).
 */

import type { Point } from "./view";

export interface Modifiers {
  shift: boolean;
  ctrl: boolean;
  alt: boolean;
}

export interface PointerInfo {
  /** CSS px inside the canvas. */
  point: Point;
  modifiers: Modifiers;
  /** CSS px within which something counts as hit: larger for fingers than for a mouse or a pen. */
  reach: number;
  kind: "mouse" | "pen" | "touch";
}

export interface GestureHandlers {
  hover(info: PointerInfo): void;
  leave(): void;
  press(info: PointerInfo): "take" | "pan";
  drag(info: PointerInfo): void;
  release(info: PointerInfo): void;
  /** The drag was interrupted, as by a second finger. */
  cancel(): void;
  click(info: PointerInfo): void;
  doubleClick(info: PointerInfo): void;
  pan(dx: number, dy: number): void;
  zoom(factor: number, anchor: Point): void;
}

const MOVE_PX = { mouse: 4, pen: 6, touch: 10 };
const REACH_PX = { mouse: 9, pen: 11, touch: 22 };
const DOUBLE_MS = 400;

/** The modifier keys of an event. Command counts as Ctrl. */
export function modifiersOf(event: { shiftKey: boolean; ctrlKey: boolean; metaKey: boolean; altKey: boolean }): Modifiers {
  return { shift: event.shiftKey, ctrl: event.ctrlKey || event.metaKey, alt: event.altKey };
}

/** True for the steps of a wheel with detents, false for the fine deltas of a trackpad. */
export function isMouseWheel(event: { deltaX: number; deltaY: number; deltaMode: number }): boolean {
  if (event.deltaMode !== 0) return true;
  return event.deltaX === 0 && Math.abs(event.deltaY) >= 60 && Number.isInteger(event.deltaY);
}

/** The factor by which a step of the wheel zooms; above 1 for a step away from the person. */
export function wheelZoomFactor(event: { deltaY: number; deltaMode: number; ctrlKey: boolean }): number {
  const px = event.deltaMode === 1 ? event.deltaY * 30 : event.deltaMode === 2 ? event.deltaY * 300 : event.deltaY;
  const bounded = Math.max(-150, Math.min(150, px));
  const pinch = event.ctrlKey && event.deltaMode === 0 && Math.abs(event.deltaY) < 60;
  return Math.exp(-bounded * (pinch ? 0.012 : 0.0025));
}

/** Listen to an element; returns a function that stops. */
export function attachGestures(element: HTMLElement, handlers: GestureHandlers): () => void {
  const pointers = new Map<number, Point>();
  let action: { kind: "tool" | "pan" | "press"; start: Point; last: Point; id: number } | null = null;
  let pinched = false;
  let lastClick: { time: number; point: Point } | null = null;

  const info = (event: PointerEvent): PointerInfo => {
    const box = element.getBoundingClientRect();
    const kind = event.pointerType === "touch" || event.pointerType === "pen" ? event.pointerType : "mouse";
    const point = { x: event.clientX - box.left, y: event.clientY - box.top };
    return { point, modifiers: modifiersOf(event), reach: REACH_PX[kind], kind };
  };

  const down = (event: PointerEvent): void => {
    const at = info(event);
    pointers.set(event.pointerId, at.point);
    try {
      element.setPointerCapture(event.pointerId);
    } catch {
      // The pointer is already gone, as with synthetic events.
    }
    if (pointers.size === 2) {
      if (action?.kind === "tool") handlers.cancel();
      action = null;
      pinched = true;
      return;
    }
    if (pointers.size > 2) return;
    if (event.button === 0) {
      const taken = handlers.press(at) === "take";
      action = { kind: taken ? "tool" : "press", start: at.point, last: at.point, id: event.pointerId };
    } else {
      action = { kind: "pan", start: at.point, last: at.point, id: event.pointerId };
      event.preventDefault();
    }
  };

  const move = (event: PointerEvent): void => {
    const at = info(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      handlers.hover(at);
      return;
    }
    if (pointers.size === 2) {
      const [a, b] = [...pointers.entries()];
      const other = a![0] === event.pointerId ? b![1] : a![1];
      const length = (p: Point): number => Math.max(10, Math.hypot(p.x - other.x, p.y - other.y));
      const middle = { x: (at.point.x + other.x) / 2, y: (at.point.y + other.y) / 2 };
      handlers.pan((at.point.x - before.x) / 2, (at.point.y - before.y) / 2);
      handlers.zoom(length(at.point) / length(before), middle);
      pointers.set(event.pointerId, at.point);
      return;
    }
    pointers.set(event.pointerId, at.point);
    if (!action || action.id !== event.pointerId) return;
    const far = Math.hypot(at.point.x - action.start.x, at.point.y - action.start.y) > MOVE_PX[at.kind];
    if (action.kind === "press" && far) {
      action.kind = "pan";
      action.last = action.start;
    }
    if (action.kind === "pan") handlers.pan(at.point.x - action.last.x, at.point.y - action.last.y);
    if (action.kind === "tool") handlers.drag(at);
    if (action.kind === "press") handlers.hover(at);
    action.last = at.point;
  };

  const up = (event: PointerEvent): void => {
    const at = info(event);
    pointers.delete(event.pointerId);
    if (pointers.size === 0 && pinched) {
      pinched = false;
      action = null;
      return;
    }
    if (!action || action.id !== event.pointerId) return;
    const done = action;
    action = null;
    if (done.kind === "tool") handlers.release(at);
    if (done.kind === "pan") return;
    if (Math.hypot(at.point.x - done.start.x, at.point.y - done.start.y) > MOVE_PX[at.kind]) {
      lastClick = null;
      return;
    }
    const now = event.timeStamp;
    const near = lastClick && Math.hypot(at.point.x - lastClick.point.x, at.point.y - lastClick.point.y) < 2 * MOVE_PX[at.kind];
    if (lastClick && near && now - lastClick.time < DOUBLE_MS) {
      lastClick = null;
      handlers.doubleClick(at);
    } else {
      lastClick = { time: now, point: at.point };
      handlers.click(at);
    }
  };

  const cancel = (event: PointerEvent): void => {
    pointers.delete(event.pointerId);
    if (action?.id === event.pointerId) {
      if (action.kind === "tool") handlers.cancel();
      action = null;
    }
    if (pointers.size === 0) pinched = false;
  };

  const wheel = (event: WheelEvent): void => {
    event.preventDefault();
    const box = element.getBoundingClientRect();
    const anchor = { x: event.clientX - box.left, y: event.clientY - box.top };
    if (event.ctrlKey || event.metaKey || (isMouseWheel(event) && !event.shiftKey)) {
      handlers.zoom(wheelZoomFactor(event), anchor);
    } else {
      const [dx, dy] = event.shiftKey && event.deltaX === 0 ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
      handlers.pan(-dx, -dy);
    }
  };

  const leave = (): void => {
    if (pointers.size === 0) handlers.leave();
  };
  const noMenu = (event: Event): void => event.preventDefault();

  element.addEventListener("pointerdown", down);
  element.addEventListener("pointermove", move);
  element.addEventListener("pointerup", up);
  element.addEventListener("pointercancel", cancel);
  element.addEventListener("pointerleave", leave);
  element.addEventListener("wheel", wheel, { passive: false });
  element.addEventListener("contextmenu", noMenu);
  return () => {
    element.removeEventListener("pointerdown", down);
    element.removeEventListener("pointermove", move);
    element.removeEventListener("pointerup", up);
    element.removeEventListener("pointercancel", cancel);
    element.removeEventListener("pointerleave", leave);
    element.removeEventListener("wheel", wheel);
    element.removeEventListener("contextmenu", noMenu);
  };
}
