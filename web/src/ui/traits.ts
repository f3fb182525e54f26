/** Rows of the traits panel. */

import type { TraitTable } from "../api";

export interface Measure {
  label: string;
  value: number | string | null;
  unit: string;
}

/** The table of the backend turned around: one row per trait, one column per plant. */
export interface TraitRows {
  plants: string[];
  rows: { label: string; unit: string; values: (number | string | null)[] }[];
}

/** A value as it is shown: few digits, a dash if it is unknown. */
export function formatted(value: unknown): string {
  if (value === null || value === undefined || (typeof value === "number" && !Number.isFinite(value))) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const digits = Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 1 ? 2 : 3;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

const HIDDEN = new Set(["image", "file", "plant", "unit"]);

/** Turn a table of the backend around. Plants of one name are told apart by their numbers. */
export function transposed({ columns, rows, units }: TraitTable): TraitRows {
  const cell = (row: TraitTable["rows"][number], k: number): number | string | null => {
    const value = Array.isArray(row) ? row[k] : row[columns[k]!];
    return typeof value === "number" || typeof value === "string" ? value : null;
  };
  const plantColumn = columns.indexOf("plant");
  const plants = rows.map((row, i) => String((plantColumn >= 0 ? cell(row, plantColumn) : null) ?? i + 1));
  const names = new Set<string>();
  const unique = plants.map((name, i) => {
    const free = names.has(name) ? `${name} (${i + 1})` : name;
    names.add(free);
    return free;
  });
  return {
    plants: unique,
    rows: columns
      .map((name, k) => ({ label: name.replaceAll("_", " "), unit: units[name] ?? "", values: rows.map((row) => cell(row, k)), name }))
      .filter((row) => !HIDDEN.has(row.name))
      .map(({ label, unit, values }) => ({ label, unit, values })),
  };
}
