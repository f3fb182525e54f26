/** The queue of doubtful places. */

import { beforeEach, expect, test } from "vitest";
import { editor, node, open, press } from "./opened.ts";

beforeEach(() => open());

test("Space walks the queue, Enter accepts and goes on, X cuts; the queue survives both", () => {
  expect(editor.state.review.map(({ key }) => key)).toEqual(["low-score:4", "low-score:2"]);
  press("Space");
  expect([editor.state.reviewItem?.key, editor.state.edge]).toEqual(["low-score:4", 4]);
  press("x");
  expect(node(4).parent).toBeNull();
  press("Space");
  expect(editor.state.reviewItem?.key).toBe("low-score:2");
  press("Enter");
  expect(node(2).source.edge).toBe("accepted");
  expect(editor.state.review.some(({ key }) => key === "low-score:2")).toBe(false);
});

test("Shift+Space goes back, around the start", () => {
  press("Shift+Space");
  expect(editor.state.reviewItem?.key).toBe("low-score:2");
  press("Shift+Space");
  expect(editor.state.reviewItem?.key).toBe("low-score:4");
});

test("an empty queue says so", () => {
  press("Shift+Enter");
  press("Space");
  expect(editor.state.message).toBe("Nothing is left to review.");
});
