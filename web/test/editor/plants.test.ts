/** Plants: chosen by a click, by number, or new. */

import { beforeEach, describe, expect, test } from "vitest";
import { click, editor, node, open, press } from "./opened.ts";

beforeEach(() => open());

test("plants: P and a click, a digit, or P again", () => {
  click(300, 100);
  press("p");
  click(100, 200);
  expect(node(6).plant).toBe(0);
  press("p");
  press("4");
  expect([node(5).plant, node(6).plant]).toEqual([4, 4]);
  press("p");
  press("p");
  expect(node(6).plant).toBe(5);
});

describe("numbers of plants", () => {
  /** Trees of two nodes, the root of each at x = 100 * (k + 1). */
  const trees = (count: number, numbered: boolean) => ({
    format: "treeformer-skeleton", version: 1,
    nodes: Array.from({ length: 2 * count }, (_, k) => [100 * (1 + Math.floor(k / 2)), k % 2 === 0 ? 100 : 200]),
    edges: Array.from({ length: count }, (_, k) => [2 * k, 2 * k + 1]),
    roots: Array.from({ length: count }, (_, k) => 2 * k),
    ...(numbered ? { plant: Array.from({ length: 2 * count }, (_, k) => Math.floor(k / 2)) } : {}),
  });
  const type = (...keys: string[]): number | null => {
    click(100, 100);
    press("p");
    keys.forEach(press);
    return node(0).plant;
  };

  test.each([true, false])("of two digits are typed like those of one (numbered in the file: %s)", (numbered) => {
    const begin = (): void => open(trees(13, numbered));
    begin();
    expect(type("1", "2")).toBe(12);
    begin();
    expect([type("1"), editor.state.mode]).toEqual([numbered ? 0 : null, "plant"]);
    expect(editor.state.message).toBe("Plant 1: press Enter, or type another digit.");
    press("Enter");
    expect([node(0).plant, editor.state.mode, editor.state.message]).toEqual([1, "select", ""]);
    begin();
    expect(type("1", "Backspace", "7")).toBe(7);
  });

  test("are forgotten by Escape and by another tool", () => {
    open(trees(13, true));
    expect(type("1", "Escape", "p", "1", "c", "p", "1", "1")).toBe(11);
  });
});
