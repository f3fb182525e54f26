// The status bar: what keys and clicks do in each mode, depending on the modifier keys.

import type { Hint, ModeName, Modifiers } from "./types.ts";

export interface HintContext {
  readonly mode: ModeName;
  readonly selected: number;
  readonly hasEdge: boolean;
  readonly isReview: boolean;
}

const hint = (keys: string, text: string): Hint => ({ keys, text });

const BY_KEYS = [hint("Space", "begin, end"), hint("Alt+arrows", "move the cursor"), hint("Escape", "cancel")];

/** The entries of the status bar, the most useful first. */
export function hintsFor({ mode, selected, hasEdge, isReview }: HintContext, modifiers: Modifiers): Hint[] {
  const { shift, ctrl, alt } = modifiers;
  switch (mode) {
    case "drag":
      return [hint("release on a node", "merge with it"), hint("Alt", "do not snap"), hint("Escape", "put it back")];
    case "draw":
      return [
        hint("click", "add a point"), hint("click a node or an edge", "connect and end"), hint("Enter", "end the branch"),
        hint("Backspace", "remove the last point"), hint("Escape", "discard the branch"),
      ];
    case "trace":
      return [
        hint("click", "follow the image to here"), hint("click a node or an edge", "connect and end"),
        hint("Enter", "end the branch"), hint("Backspace", "remove the last part"), hint("Escape", "discard"),
      ];
    case "connect":
      return [hint("click a node or an edge", "connect to it"), hint("Escape", "cancel")];
    case "plant":
      return [
        hint("click a plant", "assign to it"), hint("0–9, Enter", "assign to this number"), hint("P", "make a new plant"),
        hint("Escape", "cancel"),
      ];
    case "lasso":
      return [hint("drag", "select inside"), hint("Shift+drag", "add to the selection"), ...BY_KEYS];
    case "scale":
      return [hint("drag", "along a known distance"), ...BY_KEYS];
    case "region":
      return [hint("drag", "a box to predict again"), ...BY_KEYS];
    case "browse":
    case "select":
      break;
  }
  if (ctrl && shift) return [hint("Ctrl+Shift+Z", "redo")];
  if (ctrl) {
    return [
      hint("Ctrl+click an edge", "cut it"), hint("Ctrl+Z", "undo"), hint("Ctrl+S", "save"), hint("Ctrl+A", "select all"),
      ...(selected > 0 ? [hint("Ctrl+Delete", "delete and cut")] : []),
    ];
  }
  if (alt) return [hint("Alt+click an edge", "cut it"), ...(selected > 0 ? [hint("Alt+arrows", "move by 1 px")] : [])];
  if (shift) {
    return [
      hint("Shift+click", "add to the selection"), hint("Shift+N", "previous tip"), hint("Shift+Space", "previous place to review"),
      ...(selected > 0 ? [hint("Shift+Delete", "delete the subtree"), hint("Shift+P", "new plant"), hint("Shift+M", "begin an axis")] : []),
      hint("Shift+Enter", "accept everything"),
    ];
  }
  if (isReview) {
    return [
      hint("Enter", "accept"), hint("X", "cut here"), hint("C", "connect"), hint("Delete", "delete"),
      hint("Space", "next"), hint("Shift+Space", "previous"), hint("Escape", "leave the review"),
    ];
  }
  if (hasEdge) {
    return [
      hint("X", "cut"), hint("D", "insert a node"), hint("double click", "insert a node"), hint("M", "continue the axis"),
      hint("Enter", "accept"), hint("[ ]", "parent, child"),
    ];
  }
  if (selected === 1) {
    return [
      hint("drag", "move"), hint("A", "add a node"), hint("B", "draw a branch"), hint("T", "trace"), hint("C", "connect"),
      hint("Delete", "delete"), hint("X", "cut"), hint("R", "make root"), hint("M", "continue the axis"), hint("P", "plant"),
      hint("[ ]", "parent, child"), hint("N", "next branch"),
    ];
  }
  if (selected > 1) {
    return [
      hint("drag", "move"), hint("Delete", "delete"), hint("Shift+Delete", "delete the subtrees"), hint("Enter", "accept"),
      hint("P", "plant"), hint("Escape", "select nothing"),
    ];
  }
  return [
    hint("click", "select"), hint("Space", "review"), hint("B", "draw a branch"), hint("T", "trace"), hint("L", "lasso"),
    hint("Ctrl+click an edge", "cut it"), hint("double click an edge", "insert a node"), hint("N", "next branch"),
    hint("F", "fit"), hint("?", "help"),
  ];
}
