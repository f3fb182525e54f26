// @vitest-environment happy-dom
import { beforeEach, describe, expect, it } from "vitest";
import { attachGestures, type GestureHandlers, isMouseWheel, wheelZoomFactor } from "../../src/ui/canvas/gestures";

let log: string[];
let element: HTMLElement;
let answer: "take" | "pan";

beforeEach(() => {
  log = [];
  answer = "pan";
  element = document.createElement("div");
  document.body.append(element);
  const at = ({ point }: { point: { x: number; y: number } }): string => `${point.x},${point.y}`;
  const handlers: GestureHandlers = {
    hover: (i) => void log.push(`hover ${at(i)}`),
    leave: () => void log.push("leave"),
    press: (i) => {
      log.push(`press ${at(i)}`);
      return answer;
    },
    drag: (i) => void log.push(`drag ${at(i)}`),
    release: (i) => void log.push(`release ${at(i)}`),
    cancel: () => void log.push("cancel"),
    click: (i) => void log.push(`click ${at(i)}`),
    doubleClick: (i) => void log.push(`double ${at(i)}`),
    pan: (dx, dy) => void log.push(`pan ${dx},${dy}`),
    zoom: (factor) => void log.push(`zoom ${factor.toFixed(2)}`),
  };
  attachGestures(element, handlers);
});

let clock = 0;
function send(type: string, x: number, y: number, more: Record<string, unknown> = {}): void {
  const event = new Event(type, { bubbles: true, cancelable: true });
  const fields = { clientX: x, clientY: y, pointerId: 1, pointerType: "mouse", button: 0, ...more };
  for (const [key, value] of Object.entries({ shiftKey: false, ctrlKey: false, metaKey: false, altKey: false, ...fields })) {
    Object.defineProperty(event, key, { value });
  }
  Object.defineProperty(event, "timeStamp", { value: (clock += 10) });
  element.dispatchEvent(event);
}

describe("pointer", () => {
  it("clicks without movement, pans with it", () => {
    send("pointerdown", 5, 5);
    send("pointerup", 6, 5);
    clock += 1000;
    send("pointerdown", 5, 5);
    send("pointermove", 25, 5);
    send("pointermove", 30, 9);
    send("pointerup", 30, 9);
    expect(log).toEqual(["press 5,5", "click 6,5", "press 5,5", "pan 20,0", "pan 5,4"]);
  });

  it("gives a drag to the tool that took the press", () => {
    answer = "take";
    send("pointerdown", 5, 5);
    send("pointermove", 6, 5);
    send("pointermove", 40, 5);
    send("pointerup", 40, 5);
    expect(log).toEqual(["press 5,5", "drag 6,5", "drag 40,5", "release 40,5"]);
  });

  it("sees a double click only in one place and in time", () => {
    clock += 1000;
    for (const x of [50, 51]) {
      send("pointerdown", x, 5);
      send("pointerup", x, 5);
    }
    clock += 1000;
    for (const x of [50, 90]) {
      send("pointerdown", x, 5);
      send("pointerup", x, 5);
    }
    expect(log.filter((l) => !l.startsWith("press"))).toEqual(["click 50,5", "double 51,5", "click 50,5", "click 90,5"]);
  });

  it("pans with the other buttons", () => {
    answer = "take";
    send("pointerdown", 5, 5, { button: 1 });
    send("pointermove", 15, 5, { button: 1 });
    send("pointerup", 15, 5, { button: 1 });
    expect(log).toEqual(["pan 10,0"]);
  });

  it("pinches with two fingers and drops the drag that one of them began", () => {
    answer = "take";
    const touch = (id: number) => ({ pointerId: id, pointerType: "touch" });
    send("pointerdown", 100, 100, touch(1));
    send("pointerdown", 200, 100, touch(2));
    send("pointermove", 300, 100, touch(2));
    send("pointerup", 300, 100, touch(2));
    send("pointerup", 100, 100, touch(1));
    expect(log).toEqual(["press 100,100", "cancel", "pan 50,0", "zoom 2.00"]);
  });
});

describe("wheel", () => {
  it("zooms with a mouse and with Ctrl, pans on a trackpad", () => {
    const wheel = (more: object): void => send("wheel", 10, 10, { deltaX: 0, deltaY: 0, deltaMode: 0, ...more });
    wheel({ deltaY: -120 });
    wheel({ deltaY: 3.5, deltaX: 2 });
    wheel({ deltaY: -10, ctrlKey: true });
    wheel({ deltaY: 120, shiftKey: true });
    expect(log).toEqual(["zoom 1.35", "pan -2,-3.5", "zoom 1.13", "pan -120,0"]);
  });

  it("is bounded", () => {
    expect(wheelZoomFactor({ deltaY: 1e6, deltaMode: 0, ctrlKey: false })).toBeGreaterThan(0.5);
    expect(isMouseWheel({ deltaX: 0, deltaY: 3, deltaMode: 1 })).toBe(true);
    expect(isMouseWheel({ deltaX: 0, deltaY: 7, deltaMode: 0 })).toBe(false);
  });
});
