// Key bindings. Keys are those of KeyboardEvent.key; letters are compared without regard to case unless Shift counts.

import type { Command, KeyInput, OperationId } from "./types.ts";

export type Binding =
  | { readonly keys: string; readonly operation: OperationId }
  | { readonly keys: string; readonly command: Command };

/** All bindings, as they are shown: "Shift+Delete", "Ctrl+Z". */
export const BINDINGS: readonly Binding[] = [
  { keys: "A", operation: "add-child" },
  { keys: "B", operation: "draw-branch" },
  { keys: "T", operation: "trace" },
  { keys: "Delete", operation: "delete" },
  { keys: "Backspace", operation: "delete" },
  { keys: "Shift+Delete", operation: "delete-subtree" },
  { keys: "Shift+Backspace", operation: "delete-subtree" },
  { keys: "Ctrl+Delete", operation: "delete-cut" },
  { keys: "X", operation: "cut-edge" },
  { keys: "C", operation: "connect" },
  { keys: "R", operation: "re-root" },
  { keys: "P", operation: "set-plant" },
  { keys: "Shift+P", operation: "new-plant" },
  { keys: "M", operation: "continue-axis" },
  { keys: "Shift+M", operation: "start-axis" },
  { keys: "L", operation: "lasso" },
  { keys: "S", operation: "set-scale" },
  { keys: "G", operation: "select-region" },
  { keys: "I", command: "invert" },
  { keys: "D", operation: "insert-node" },
  { keys: "[", operation: "select-parent" },
  { keys: "]", operation: "select-child" },
  { keys: "N", operation: "next-branch" },
  { keys: "Shift+N", operation: "previous-tip" },
  { keys: "Ctrl+A", operation: "select-all" },
  { keys: "E", operation: "select-subtree" },
  { keys: "Space", operation: "review-next" },
  { keys: "Shift+Space", operation: "review-previous" },
  { keys: "Enter", operation: "accept" },
  { keys: "Shift+Enter", operation: "accept-all" },
  { keys: "Escape", operation: "cancel" },
  { keys: "Ctrl+Z", operation: "undo" },
  { keys: "Ctrl+Shift+Z", operation: "redo" },
  { keys: "Ctrl+Y", operation: "redo" },
  { keys: "Ctrl+S", command: "save" },
  { keys: ",", command: "previous-image" },
  { keys: ".", command: "next-image" },
  { keys: "F", command: "fit" },
  { keys: "Shift+F", command: "fit-selection" },
  { keys: "+", command: "zoom-in" },
  { keys: "=", command: "zoom-in" },
  { keys: "-", command: "zoom-out" },
  { keys: "ArrowLeft", command: "pan-left" },
  { keys: "ArrowRight", command: "pan-right" },
  { keys: "ArrowUp", command: "pan-up" },
  { keys: "ArrowDown", command: "pan-down" },
  { keys: "1", command: "color-confidence" },
  { keys: "2", command: "color-plant" },
  { keys: "3", command: "color-order" },
  { keys: "4", command: "color-axis" },
  { keys: "H", command: "toggle-overlay" },
  { keys: "?", command: "help" },
];

/**
 * A key press as text: "Ctrl+Shift+Z", "Space", "[". Shift is left out if it only makes another character, and Alt for
 * brackets, which are Option+5 and Option+6 on a German keyboard of macOS.
 */
export function keyText({ key, shift = false, ctrl = false, alt = false }: KeyInput): string {
  const isLetter = /^\p{L}$/u.test(key);
  const name = key === " " ? "Space" : isLetter ? key.toUpperCase() : key;
  const withShift = shift && (isLetter || name.length > 1);
  const withAlt = alt && name !== "[" && name !== "]";
  return [ctrl ? "Ctrl" : "", withAlt ? "Alt" : "", withShift ? "Shift" : "", name].filter((part) => part !== "").join("+");
}

const byKeys = new Map(BINDINGS.map((binding) => [binding.keys, binding]));

/** The binding of a key press, null if there is none. */
export function bindingOf(input: KeyInput): Binding | null {
  return byKeys.get(keyText(input)) ?? null;
}

/** The first key of an operation or a command, empty if it has none. */
export function shortcutOf(id: OperationId | Command): string {
  return BINDINGS.find((one) => ("operation" in one ? one.operation : one.command) === id)?.keys ?? "";
}
