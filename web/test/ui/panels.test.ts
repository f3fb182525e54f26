import { describe, expect, it } from "vitest";
import type { ImageEntry, TrainingInfo } from "../../src/api";
import { askedImage, neighbor, nextOpen, sortedEntries } from "../../src/ui/folder";
import { isNewModel, outcome, pseudoLabels, timeLeft, learnedFrom, unaccepted, uncorrected, unlabeled, unlabeledHint } from "../../src/ui/training";
import { scaleBar } from "../../src/ui/scalebar";
import { DEFAULT_SETTINGS, filterOf, loadSettings, NO_ADJUSTMENTS } from "../../src/ui/settings";
import { formatted, transposed } from "../../src/ui/traits";

const entry = (image: string, state: ImageEntry["state"], expected_errors: number | null): ImageEntry => ({
  image,
  state,
  expected_errors,
  plants: 1,
  nodes: 3,
  has_draft: false,
  error: null,
});

describe("folder", () => {
  const entries = [
    entry("a10.jpg", "predicted", 1),
    entry("a9.jpg", "missing", null),
    entry("b.jpg", "accepted", 0),
    entry("c.jpg", "edited", 7),
    entry("a2.jpg", "predicted", 1),
  ];
  const names = (by: "errors" | "name" | "state"): string[] => sortedEntries(entries, by).map((e) => e.image);

  it("lists the worst first and accepted ones last", () => {
    expect(names("errors")).toEqual(["c.jpg", "a2.jpg", "a10.jpg", "a9.jpg", "b.jpg"]);
    expect(names("name")).toEqual(["a2.jpg", "a9.jpg", "a10.jpg", "b.jpg", "c.jpg"]);
    expect(names("state")).toEqual(["a9.jpg", "a2.jpg", "a10.jpg", "c.jpg", "b.jpg"]);
  });

  it("lists first what would teach a model most", () => {
    const order = sortedEntries(entries, "next", ["a9.jpg", "a10.jpg", "gone.jpg"]).map((e) => e.image);
    expect(order).toEqual(["a9.jpg", "a10.jpg", "c.jpg", "a2.jpg", "b.jpg"]);
    expect(sortedEntries(entries, "next")).toEqual(sortedEntries(entries, "errors"));
    expect(sortedEntries(entries, "errors", ["b.jpg"])).toEqual(sortedEntries(entries, "errors"));
  });

  it("walks and stops at the ends", () => {
    expect(neighbor(entries, "a10.jpg", 1)).toBe("a9.jpg");
    expect(neighbor(entries, "a10.jpg", -1)).toBeNull();
    expect(neighbor(entries, null, 1)).toBe("a10.jpg");
    expect(neighbor([], null, 1)).toBeNull();
  });

  it("is asked for an image by the address, which may be damaged", () => {
    expect(askedImage("#plate%207.jpg")).toBe("plate 7.jpg");
    expect([askedImage(""), askedImage("#100%")]).toEqual(["", ""]);
  });

  it("goes on to what is not accepted, around the end", () => {
    expect(nextOpen(entries, "a9.jpg")).toBe("c.jpg");
    expect(nextOpen(entries, "a2.jpg")).toBe("a10.jpg");
    expect(nextOpen([entry("x", "accepted", 0), entry("y", "edited", 1)], "y")).toBeNull();
    expect(nextOpen([], null)).toBeNull();
  });
});

describe("traits", () => {
  it("turns the table around, whatever the form of its rows", () => {
    const rows = [
      { plant: "1", total_length: 12.345, tip_count: 3 },
      { plant: "2", total_length: null, tip_count: 1 },
    ];
    const table = { columns: ["plant", "total_length", "tip_count"], rows, units: { total_length: "mm" } };
    const expected = {
      plants: ["1", "2"],
      rows: [
        { label: "total length", unit: "mm", values: [12.345, null] },
        { label: "tip count", unit: "", values: [3, 1] },
      ],
    };
    expect(transposed(table)).toEqual(expected);
    const lists = rows.map((row) => [row.plant, row.total_length, row.tip_count]);
    expect(transposed({ ...table, rows: lists })).toEqual(expected);
  });

  it("formats numbers", () => {
    expect([1234.567, 12.345, 0.01234, 7, null, NaN].map(formatted)).toEqual(["1,234.6", "12.35", "0.012", "7", "–", "–"]);
  });
});

describe("scaleBar", () => {
  it("is a round length of a useful size", () => {
    for (const scale of [0.011, 0.1, 0.37, 1, 3.3, 50]) {
      for (const pxPerMm of [null, 0.5, 11.81, 200]) {
        const { px, label } = scaleBar(scale, pxPerMm);
        expect(px).toBeGreaterThan(30);
        expect(px).toBeLessThan(125);
        const [number, unit] = label.split(" ");
        expect(Number(number) * scale * (pxPerMm ?? 1)).toBeCloseTo(px, 6);
        expect(unit).toBe(pxPerMm === null ? "px" : "mm");
      }
    }
  });
});

describe("settings", () => {
  it("ignores what is damaged", () => {
    const stored = (text: string) => loadSettings({ getItem: () => text });
    expect(stored("{")).toEqual(DEFAULT_SETTINGS);
    expect(stored('{"nodes": "yes", "axes": true, "other": 1}')).toEqual({ ...DEFAULT_SETTINGS, axes: true });
    expect(loadSettings(null)).toEqual(DEFAULT_SETTINGS);
  });

  it("makes a CSS filter", () => {
    expect(filterOf(NO_ADJUSTMENTS)).toBe("none");
    expect(filterOf({ brightness: 1.5, contrast: 1, invert: true })).toBe("invert(1) brightness(1.5)");
  });
});

describe("training", () => {
  const entries = [
    entry("a", "missing", null),
    entry("b", "predicted", 1),
    { ...entry("c", "predicted", 1), has_draft: true },
    entry("d", "edited", 1),
    entry("e", "accepted", 0),
    entry("f", "failed", null),
  ];
  const info: TrainingInfo = {
    state: "done", stage: "done", lines: ["first", "last"], done: 1, total: 1, seconds_left: null,
    before: 0.5, after: 0.75, model: "trained-1", folder: "/r/trained-1", missing_packages: [],
    unannotated: true, pseudo_labels: null,
  };

  it("counts what is trained on, what is predicted again and what can get pseudo-labels", () => {
    expect([learnedFrom(entries, false), learnedFrom(entries, true)]).toEqual([1, 2]);
    const annotated: ImageEntry = { ...entry("g", "edited", null), origin: "annotation", open_places: 3 };
    const corrected: ImageEntry = { ...entry("h", "edited", 2), origin: "correction", open_places: 4 };
    const more = [...entries, annotated, corrected];
    expect([learnedFrom(more, false), learnedFrom(more, true)]).toEqual([2, 4]);
    expect(unaccepted(more)).toEqual({ images: 2, places: 4 });
    expect(uncorrected(entries)).toBe(2);
    expect(unlabeled(entries)).toBe(3);
  });

  it("says why images without corrections cannot be learned from, or how many are", () => {
    expect(unlabeledHint(null, 3)).toContain("Looking for a GPU");
    expect(unlabeledHint(false, 3)).toContain("needs a GPU");
    expect(unlabeledHint(true, 0)).toBe("There is no image without corrections.");
    expect(unlabeledHint(true, 1)).toContain("predicts the image without corrections,");
    expect(unlabeledHint(true, 100)).toContain("predicts the 100 images without corrections,");
    expect(unlabeledHint(true, 101)).toContain("predicts at most 100 of the 101 images without corrections,");
  });

  it("says how many images got pseudo-labels", () => {
    const running = { ...info, state: "running" as const, after: null };
    expect(pseudoLabels(running)).toBe("");
    expect(pseudoLabels({ ...running, pseudo_labels: 1 })).toBe("1 image without corrections got pseudo-labels.");
    expect(pseudoLabels({ ...info, pseudo_labels: 50 })).toBe("The model has learned from 50 images without corrections, too.");
    expect(pseudoLabels({ ...info, pseudo_labels: 0 })).toContain("did not help");
    expect(pseudoLabels({ ...info, pseudo_labels: 0, after: 0.5 })).toBe("");
    expect(pseudoLabels({ ...info, pseudo_labels: 50, state: "cancelled" })).toBe("");
  });

  it("says how it ended in one sentence", () => {
    expect(outcome(info)).toBe("F1 0.50 before, 0.75 after.");
    expect(outcome({ ...info, after: 0.5 })).toContain("did not improve");
    expect(outcome({ ...info, before: 0, after: 0 })).toContain("did not improve");
    expect(outcome({ ...info, before: null })).toBe("The model is ready.");
    expect([info, { ...info, after: 0.5 }, { ...info, state: "running" as const }].map(isNewModel)).toEqual([
      true,
      false,
      false,
    ]);
    expect(outcome({ ...info, state: "failed" })).toBe("last");
    expect(outcome({ ...info, state: "running" })).toBe("");
  });

  it("rounds the time that is left", () => {
    expect(timeLeft(null)).toBe("");
    expect(timeLeft(0)).toBe("");
    expect(timeLeft(41)).toBe("about 50 s left");
    expect(timeLeft(700)).toBe("about 12 min left");
  });
});
