/** The scale line, the region and the lasso: what is given by two points or an outline. */

import { beforeEach, expect, test } from "vitest";
import { at, drag, editor, open, press, selected } from "./opened.ts";

beforeEach(() => open());

test("the scale follows from a line and its length", () => {
  press("s");
  drag({ x: 0, y: 0 }, { x: 30, y: 40 });
  expect(editor.state.scaleLine).toBe(50);
  expect(editor.setScale(10)).toBe(true);
  expect(editor.state.graph.pxPerMm).toBe(5);
});

test("a region is reported in any direction of the drag", () => {
  press("g");
  drag({ x: 50, y: 60 }, { x: 10, y: 20 });
  expect(editor.state.region).toEqual([10, 20, 50, 60]);
});

test("scale line, region and lasso by keyboard alone", () => {
  const go = (keys: string, times: number): void => {
    for (let k = 0; k < times; k++) press(keys);
  };
  editor.placeCursor(at(80, 80));
  press("s");
  press("Space");
  go("Alt+Shift+ArrowRight", 5);
  press("Space");
  expect(editor.state.scaleLine).toBe(80);
  press("Escape");
  press("g");
  press("Enter");
  expect(editor.state.region).toBe(null);
  press("Escape");
  editor.placeCursor(at(80, 80));
  press("g");
  press("Space");
  go("Alt+Shift+ArrowRight", 2);
  go("Alt+ArrowDown", 3);
  press("Enter");
  expect(editor.state.region).toEqual([80, 80, 112, 83]);
  press("Escape");
  editor.placeCursor(at(90, 90));
  press("l");
  press("Space");
  go("Alt+Shift+ArrowRight", 2);
  go("Alt+Shift+ArrowDown", 8);
  go("Alt+Shift+ArrowLeft", 2);
  press("Space");
  expect(selected()).toEqual([0, 1]);
});
