/** What is written into the document, and who is told of changes. */

import { beforeEach, expect, test } from "vitest";
import { click, editor, open, press } from "./opened.ts";

beforeEach(() => open());

test("counts actions and seconds of work, without long pauses", () => {
  for (const now of [100, 105, 105.5, 1000]) editor.touch(now);
  click(100, 400);
  press("Delete");
  const { editor: info } = editor.document(true).metadata as unknown as { editor: Record<string, unknown> };
  expect(info).toMatchObject({ seconds: 35.5, actions: 1, accepted: true });
  editor.markSaved();
  expect(editor.state.dirty).toBe(false);
  press("Ctrl+z");
  expect(editor.state.dirty).toBe(true);
});

test("listeners are told, until they unsubscribe", () => {
  let calls = 0;
  const stop = editor.subscribe(() => calls++);
  click(100, 400);
  stop();
  const before = calls;
  click(100, 300);
  expect(before).toBeGreaterThan(0);
  expect(calls).toBe(before);
});
