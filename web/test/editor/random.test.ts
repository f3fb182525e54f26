/** Random clicks, drags and keys. */

import fc from "fast-check";
import { expect, test } from "vitest";
import { documents } from "../arbitrary.ts";
import { checkGraph } from "../check.ts";
import { at, click, drag, editor, open, press } from "./opened.ts";

test("any sequence of clicks, drags and keys leaves a valid graph", () => {
  const coordinate = fc.integer({ min: 0, max: 400 });
  const keys = ["a", "b", "c", "d", "e", "g", "l", "m", "n", "p", "r", "s", "x", "[", "]", "Space", "Enter", "Escape", "Delete",
    "Shift+Delete", "Ctrl+Delete", "Backspace", "Shift+m", "Shift+p", "Ctrl+z", "Ctrl+Shift+z", "Alt+ArrowUp", "3", "Ctrl+a"];
  const event = fc.record({
    what: fc.constantFrom("click", "drag", "double", "move", "key", "key"), x: coordinate, y: coordinate, u: coordinate, v: coordinate,
    key: fc.constantFrom(...keys), shift: fc.boolean(), ctrl: fc.boolean(),
  });
  fc.assert(
    fc.property(documents(12), fc.array(event, { maxLength: 25 }), (document, events) => {
      open(document);
      for (const { what, x, y, u, v, key, shift, ctrl } of events) {
        const more = { shift, ctrl, tolerance: 30 };
        if (what === "click") click(x, y, more);
        else if (what === "drag") drag({ x, y }, { x: u, y: v }, more);
        else if (what === "double") editor.doubleClick(at(x, y, more));
        else if (what === "move") editor.pointerMove(at(x, y, more));
        else press(key);
        const { graph, selection, edge, hover } = editor.state;
        checkGraph(graph);
        for (const id of selection) expect(graph.has(id)).toBe(true);
        if (edge !== null) expect(graph.node(edge).parent).not.toBeNull();
        if (hover !== null) expect(graph.has(hover.id)).toBe(true);
      }
      editor.operations();
    }),
    { numRuns: 300 },
  );
});
