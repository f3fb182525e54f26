/** How the page looks to one person: kept in the browser, never in a result. */

import type { ColorBy } from "./canvas/scene";
import type { SortBy } from "./folder";

export type Theme = "light" | "dark" | "system";

export interface Adjustments {
  /** Factor of brightness and of contrast; 1 leaves the image as it is. */
  brightness: number;
  contrast: number;
  invert: boolean;
}

export interface Settings {
  theme: Theme;
  colorBy: ColorBy;
  widthByRadius: boolean;
  nodes: boolean;
  axes: boolean;
  snapping: boolean;
  sortBy: SortBy;
  folder: boolean;
  panel: boolean;
}

export const NO_ADJUSTMENTS: Adjustments = { brightness: 1, contrast: 1, invert: false };

export const DEFAULT_SETTINGS: Settings = {
  theme: "system",
  colorBy: "confidence",
  widthByRadius: false,
  nodes: true,
  axes: false,
  snapping: true,
  sortBy: "errors",
  folder: true,
  panel: true,
};

const KEY = "treeformer-settings";

/** The stored settings. What is missing or of another type has its default. */
export function loadSettings(storage: Pick<Storage, "getItem"> | null): Settings {
  try {
    const stored = JSON.parse(storage?.getItem(KEY) ?? "{}") as Record<string, unknown>;
    const settings: Record<string, unknown> = { ...DEFAULT_SETTINGS };
    for (const key of Object.keys(DEFAULT_SETTINGS)) {
      if (typeof stored[key] === typeof settings[key]) settings[key] = stored[key];
    }
    return settings as unknown as Settings;
  } catch {
    return { ...DEFAULT_SETTINGS };
  }
}

/** Store the settings. */
export function storeSettings(storage: Pick<Storage, "setItem"> | null, settings: Settings): void {
  try {
    storage?.setItem(KEY, JSON.stringify(settings));
  } catch {
    // Private windows may refuse; the settings then last as long as the page.
  }
}

/** The CSS filter of the photograph. */
export function filterOf({ brightness, contrast, invert }: Adjustments): string {
  const parts: string[] = [];
  if (invert) parts.push("invert(1)");
  if (brightness !== 1) parts.push(`brightness(${brightness})`);
  if (contrast !== 1) parts.push(`contrast(${contrast})`);
  return parts.join(" ") || "none";
}
