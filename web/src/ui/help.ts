/** The help overlay. Keys are separated by spaces. */

import type { HelpGroup } from "./rows";

export const HELP: readonly HelpGroup[] = [
  {
    title: "Look",
    rows: [
      { keys: "Wheel", text: "zoom; on a trackpad scroll to pan, pinch to zoom" },
      { keys: "Drag", text: "on empty ground: pan; middle or right button anywhere" },
      { keys: "Arrows", text: "pan" },
      { keys: "+ -", text: "zoom" },
      { keys: "F Shift+F", text: "fit the image, the selection" },
      { keys: "1 2 3 4", text: "color by confidence, plant, order, axis" },
      { keys: "H", text: "hide or show the overlay" },
      { keys: "I", text: "invert the image" },
    ],
  },
  {
    title: "Select",
    rows: [
      { keys: "Click", text: "a node or an edge; Shift adds" },
      { keys: "[ ]", text: "parent, child" },
      { keys: "N Shift+N", text: "next branch, previous tip" },
      { keys: "L", text: "lasso" },
      { keys: "E", text: "everything below" },
      { keys: "Ctrl+A", text: "everything" },
      { keys: "Esc", text: "leave the mode, then select nothing" },
    ],
  },
  {
    title: "Edit",
    rows: [
      { keys: "Drag", text: "move; release on a node of another tree to merge" },
      { keys: "Alt+Arrows", text: "move by 1 px, with Shift by 10 px" },
      { keys: "A", text: "add one node" },
      { keys: "B", text: "draw a branch: click along it, Enter or double click ends" },
      { keys: "T", text: "trace: click start and end, the path follows the image" },
      { keys: "Double-click D", text: "insert a node on an edge" },
      { keys: "Delete", text: "delete and join the neighbors" },
      { keys: "Shift+Delete", text: "delete with everything below" },
      { keys: "Ctrl+Delete", text: "delete without joining" },
      { keys: "X", text: "cut the edge; also Ctrl or Alt + click on it" },
      { keys: "C", text: "connect to the node or edge that is clicked next" },
      { keys: "Outline", text: "drag a row onto another one to attach it there; M, arrows, Enter" },
      { keys: "R", text: "make the node the root" },
      { keys: "P Shift+P", text: "set the plant, new plant" },
      { keys: "M Shift+M", text: "continue the axis here, begin one" },
      { keys: "Ctrl+Z", text: "undo; Ctrl+Shift+Z or Ctrl+Y redo" },
    ],
  },
  {
    title: "Tools without a mouse",
    rows: [
      { keys: "Space", text: "place a point at the cross; begin or end a lasso, box or scale line" },
      { keys: "Alt+Arrows", text: "move the cross by 1 px, with Shift by more" },
      { keys: "Backspace", text: "remove the last point" },
      { keys: "Enter", text: "end the branch" },
    ],
  },
  {
    title: "Review",
    rows: [
      { keys: "Space Shift+Space", text: "next, previous doubtful place" },
      { keys: "Enter", text: "accept it" },
      { keys: "X", text: "cut here" },
      { keys: "Shift+Enter", text: "accept everything" },
    ],
  },
  {
    title: "Files and measures",
    rows: [
      { keys: "Ctrl+S", text: "save" },
      { keys: "Ctrl+Enter", text: "save as accepted, open the next image" },
      { keys: ", .", text: "previous, next image" },
      { keys: "PageUp PageDown", text: "earlier, later date of a series" },
      { keys: "S", text: "set the scale: draw a known distance" },
      { keys: "G", text: "choose a region to predict again" },
      { keys: "?", text: "this page" },
    ],
  },
  {
    title: "Marks",
    rows: [
      { keys: "◆", text: "root" },
      { keys: "●", text: "branch point" },
      { keys: "○", text: "tip" },
      { keys: "╌", text: "edge of low confidence" },
    ],
  },
];
