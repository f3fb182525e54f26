/** What keys ask of the page, not of the document. */

import type { Command, EditorState } from "../editor/types";
import type { Stage } from "./canvas/stage";
import type { Adjustments } from "./settings";
import type { DialogName, Surroundings } from "./surroundings";
import { fitSelection } from "./viewport";

const PAN_STEP_PX = 80;
const ZOOM_STEP = 1.4;

/** What commands act on. */
export interface CommandTarget {
  readonly stage: Stage | null;
  readonly state: EditorState | null;
  readonly adjustments: Adjustments;
  overlay: boolean;
  dialog: DialogName | null;
  saveNow(accepted: boolean): Promise<boolean>;
}

/** Run a command. */
export function runCommand(
  command: Command,
  target: CommandTarget,
  around: Pick<Surroundings, "settings" | "step">,
): void {
  const { stage, state, adjustments } = target;
  const settings = around.settings();
  const actions: Record<Command, () => void> = {
    save: () => void target.saveNow(false),
    "previous-image": () => around.step(-1),
    "next-image": () => around.step(1),
    fit: () => stage?.fit(),
    "fit-selection": () => stage && state && fitSelection(stage, state),
    "zoom-in": () => stage?.zoom(ZOOM_STEP),
    "zoom-out": () => stage?.zoom(1 / ZOOM_STEP),
    "pan-left": () => stage?.pan(PAN_STEP_PX, 0),
    "pan-right": () => stage?.pan(-PAN_STEP_PX, 0),
    "pan-up": () => stage?.pan(0, PAN_STEP_PX),
    "pan-down": () => stage?.pan(0, -PAN_STEP_PX),
    "color-confidence": () => (settings.colorBy = "confidence"),
    "color-plant": () => (settings.colorBy = "plant"),
    "color-order": () => (settings.colorBy = "order"),
    "color-axis": () => (settings.colorBy = "axis"),
    "toggle-overlay": () => (target.overlay = !target.overlay),
    invert: () => (adjustments.invert = !adjustments.invert),
    help: () => (target.dialog = "help"),
  };
  actions[command]();
}
