/** Keys: navigation, commands of the page, bindings and hints. */

import { beforeEach, expect, test } from "vitest";
import { Graph } from "../../src/core/graph.ts";
import { Editor } from "../../src/editor/editor.ts";
import { BINDINGS, bindingOf, keyText } from "../../src/editor/keys.ts";
import { DEFINITIONS } from "../../src/editor/operations.ts";
import type { ModeName } from "../../src/editor/types.ts";
import { click, editor, open, press, selected } from "./opened.ts";

beforeEach(() => open());

test("navigation: parent, child, next branch point, previous tip", () => {
  click(100, 200);
  press("[");
  expect(selected()).toEqual([0]);
  press("]");
  press("]");
  expect(selected()).toEqual([2]);
  press("n");
  expect(selected()).toEqual([3]);
  press("n");
  expect(selected()).toEqual([4]);
  press("Shift+n");
  expect(selected()).toEqual([3]);
});

test("commands go to the page, keys without a meaning are left to the browser", () => {
  expect(press("Ctrl+s")).toEqual({ handled: true, command: "save" });
  expect(press("?").command).toBe("help");
  expect(editor.key({ key: "?", shift: true }).command).toBe("help");
  expect(press("Ctrl+r")).toEqual({ handled: false, command: null });
  expect(press("F5").handled).toBe(false);
});

test("brackets may need Alt or Shift", () => {
  for (const key of ["[", "]"]) {
    expect(bindingOf({ key, alt: true, shift: true })).toBe(bindingOf({ key }));
    expect(bindingOf({ key })).not.toBeNull();
  }
  expect(bindingOf({ key: "d", alt: true })).toBeNull();
});

test("no key is bound twice, and each operation has a key or a reason to have none", () => {
  const keys = BINDINGS.map(({ keys: text }) => text);
  expect(new Set(keys).size).toBe(keys.length);
  for (const { keys: text } of BINDINGS) {
    const parts = text.length > 1 ? text.split("+") : [text];
    const key = parts.pop() as string;
    const input = { key: key === "Space" ? " " : key, ctrl: parts.includes("Ctrl"), shift: parts.includes("Shift"), alt: parts.includes("Alt") };
    expect(keyText(input)).toBe(text);
    expect(bindingOf(input)?.keys).toBe(text);
  }
  const bound = new Set(BINDINGS.flatMap((one) => ("operation" in one ? [one.operation] : [])));
  expect(DEFINITIONS.filter(({ id }) => !bound.has(id))).toEqual([]);
});

test("every mode and every modifier has hints", () => {
  const modes: ModeName[] = ["browse", "draw", "lasso", "scale", "region"];
  for (const mode of modes) {
    const fresh = new Editor(Graph.empty());
    const id = { draw: "draw-branch", lasso: "lasso", scale: "set-scale", region: "select-region" }[mode as string];
    if (id !== undefined) fresh.run(id as "lasso");
    expect(fresh.state.mode).toBe(mode);
    for (const bits of [0, 1, 2, 3, 4]) {
      expect(fresh.hints({ shift: (bits & 1) > 0, ctrl: (bits & 2) > 0, alt: (bits & 4) > 0 }).length).toBeGreaterThan(0);
    }
  }
  click(100, 200);
  expect(editor.hints().map(({ keys }) => keys)).toContain("R");
  expect(editor.hints({ shift: true }).map(({ keys }) => keys)).toContain("Shift+Delete");
});
