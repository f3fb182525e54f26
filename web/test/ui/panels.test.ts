import { describe, expect, it } from "vitest";
import type { ImageEntry } from "../../src/api";
import { neighbor, nextOpen, sortedEntries } from "../../src/ui/folder";
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

  it("walks and stops at the ends", () => {
    expect(neighbor(entries, "a10.jpg", 1)).toBe("a9.jpg");
    expect(neighbor(entries, "a10.jpg", -1)).toBeNull();
    expect(neighbor(entries, null, 1)).toBe("a10.jpg");
    expect(neighbor([], null, 1)).toBeNull();
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
