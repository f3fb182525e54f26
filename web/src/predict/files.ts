// The files that a user downloads: native JSON, RSML and a table of traits.

import { withAxes, withExplicitAxes } from "../core/axes.ts";
import { axisPoints } from "../core/axispoints.ts";
import { fromDocument } from "../core/document.ts";
import type { SkeletonDocument } from "../core/document.ts";
import { plantOf } from "../core/graph.ts";
import type { AxisId, Graph, JsonObject, NodeId } from "../core/graph.ts";
import { measurePlants } from "../core/measures.ts";
import type { PlantMeasures } from "../core/measures.ts";

const LONG_LISTS = ["nodes", "edges", "roots", "radius", "node_score", "edge_score", "plant", "edge_axis"];
const ITEMS_PER_ROW = 10;
const PRIMARY_ROOT = "PO:0020127";
const LATERAL_ROOT = "PO:0020121";

/** The native JSON file of a document: numbers in readable rows. */
export function jsonText(document: SkeletonDocument): string {
  const fields = Object.entries(document).map(([key, value]) => {
    const isLong = LONG_LISTS.includes(key);
    if (!Array.isArray(value) || value.length === 0 || !(isLong || key === "axes" || key === "plants")) {
      return `${JSON.stringify(key)}: ${JSON.stringify(value)}`;
    }
    const size = isLong ? ITEMS_PER_ROW : 1;
    const rows: string[] = [];
    for (let at = 0; at < value.length; at += size) rows.push(JSON.stringify(value.slice(at, at + size)).slice(1, -1));
    return `${JSON.stringify(key)}: [\n${rows.join(",\n")}\n]`;
  });
  return `{\n${fields.join(",\n")}\n}\n`;
}

/** The shortest decimal that reads back as this number. RSML forbids exponents. */
export function decimalText(value: number): string {
  const text = String(value);
  const match = /^(-?)(\d+)(?:\.(\d+))?e([+-]\d+)$/.exec(text);
  if (match === null) return text;
  const [, sign, whole = "", fraction = "", power] = match;
  const digits = whole + fraction;
  const point = whole.length + Number(power);
  if (point <= 0) return `${sign}0.${"0".repeat(-point)}${digits}`;
  return sign + digits.padEnd(point, "0");
}

// eslint-disable-next-line no-control-regex
const FORBIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g;

function escaped(text: string): string {
  return text
    .replace(FORBIDDEN, "\ufffd")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replace(/[\t\n\r]/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

const element = (name: string, text: string): string => `<${name}>${escaped(text)}</${name}>`;
const attribute = (name: string, value: string): string => (value === "" ? "" : ` ${name}="${escaped(value)}"`);
const textOf = (value: unknown): string => (typeof value === "string" || typeof value === "number" ? String(value) : "");

/** A graph whose edges all belong to an axis. */
function withAllAxes(graph: Graph): Graph {
  const isBare = graph.nodes.values().some(({ parent, axis }) => parent !== null && axis === null);
  if (!graph.explicitAxes || !isBare) return withAxes(graph);
  return withExplicitAxes(graph.with({ explicitAxes: false, axes: new Map() }));
}

/**
 * The RSML file of a document, with the same content as `treeformer.write` gives it.
 *
 * @param document A document of the native format.
 * @param fileKey The default of <file-key>.
 * @param now The time of writing, ISO 8601.
 */
export function rsmlText(document: SkeletonDocument, fileKey: string, now: string): string {
  const given = fromDocument(document);
  const graph = withAllAxes(given);
  const head = graph.metadata.rsml;
  const values = (typeof head === "object" && head !== null && !Array.isArray(head) ? head : {}) as JsonObject;
  const scale = graph.pxPerMm;
  const fields: [string, string][] = [
    ["version", "1"],
    ["unit", scale === null ? "pixel" : "mm"],
    ["resolution", scale === null ? "1" : decimalText(scale)],
    ["last-modified", now],
    ["software", textOf(values.software) || "treeformer"],
    ["user", textOf(values.user) || "unknown"],
    ["file-key", graph.imageName ?? fileKey],
  ];
  const lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<rsml>", "  <metadata>"];
  lines.push(...fields.map(([name, value]) => `    ${element(name, value)}`));
  if (graph.imageName !== null) lines.push(`    <image>${element("name", graph.imageName)}</image>`);
  lines.push("  </metadata>", "  <scene>");

  interface Line {
    readonly nodes: readonly NodeId[];
    readonly record: JsonObject;
    readonly plant: number;
    readonly laterals: Line[];
    readonly confidence: number | null;
  }
  const hasDiameters = [...graph.axes.values()].some((axis) =>
    axis.functions?.some(({ raw }) => raw.name === "diameter"),
  );
  const plantAt = (node: NodeId): number => plantOf(given, node);
  const ids = [...graph.axes.keys()].sort((a, b) => a - b).filter((id) => axisPoints(graph, id).length > 0);
  const lineOf = new Map<AxisId, Line>();
  for (const id of ids) {
    const nodes = axisPoints(graph, id);
    const record = graph.axes.get(id)?.record ?? {};
    const confidence = meanScore(graph, id, nodes);
    lineOf.set(id, { nodes, record, plant: plantAt(nodes[0] as NodeId), laterals: [], confidence });
  }
  const primary: Line[] = [];
  for (const id of ids) {
    let parent = graph.axes.get(id)?.parent ?? null;
    while (parent !== null && !lineOf.has(parent)) parent = graph.axes.get(parent)?.parent ?? null;
    (parent === null ? primary : (lineOf.get(parent) as Line).laterals).push(lineOf.get(id) as Line);
  }
  const onAxes = new Set([...lineOf.values()].flatMap(({ nodes }) => nodes));
  graph.nodes.forEach(({ id, score }) => {
    if (graph.degree(id) > 0 || onAxes.has(id)) return;
    primary.push({ nodes: [id], record: {}, plant: plantAt(id), laterals: [], confidence: score });
  });

  const addRoot = (line: Line, order: number, defaultId: string): void => {
    const pad = "  ".repeat(3 + order);
    const { record } = line;
    const accession = textOf(record.accession) || (order > 0 ? LATERAL_ROOT : PRIMARY_ROOT);
    const names = [attribute("id", textOf(record.id) || defaultId), attribute("label", textOf(record.label))];
    lines.push(`${pad}<root${names.join("")}${attribute("accession", accession)}>`);
    const properties = propertyLines(record.properties, line.confidence);
    if (properties.length > 0) {
      lines.push(`${pad}  <properties>`, ...properties.map((text) => `${pad}    ${text}`), `${pad}  </properties>`);
    }
    const nodes = line.nodes.map((node) => graph.node(node));
    const points = nodes.map(({ x, y }) => `<point x="${decimalText(x)}" y="${decimalText(y)}"/>`);
    // The schema requires two points.
    const repeated = <T>(list: T[]): T[] => (list.length === 1 ? [...list, ...list] : list);
    lines.push(`${pad}  <geometry>`, `${pad}    <polyline>`);
    lines.push(...repeated(points).map((text) => `${pad}      ${text}`));
    lines.push(`${pad}    </polyline>`, `${pad}  </geometry>`);
    if (!hasDiameters && nodes.every(({ radius }) => radius !== null)) {
      const samples = nodes.map(({ radius }) => `<sample value="${decimalText(2 * (radius as number))}"/>`);
      lines.push(`${pad}  <functions>`, `${pad}    <function name="diameter" domain="polyline" origin="base">`);
      lines.push(...repeated(samples).map((text) => `${pad}      ${text}`));
      lines.push(`${pad}    </function>`, `${pad}  </functions>`);
    }
    line.laterals.forEach((lateral, k) => addRoot(lateral, order + 1, `${defaultId}.${k + 1}`));
    lines.push(`${pad}</root>`);
  };
  for (const plant of [...new Set(primary.map((line) => line.plant))].sort((a, b) => a - b)) {
    const record = graph.plants[plant] ?? {};
    const id = textOf(record.id) || String(plant + 1);
    lines.push(`    <plant${attribute("id", id)}${attribute("label", textOf(record.label))}>`);
    primary.filter((line) => line.plant === plant).forEach((line, k) => addRoot(line, 0, `${id}.${k + 1}`));
    lines.push("    </plant>");
  }
  return [...lines, "  </scene>", "</rsml>", ""].join("\n");
}

const ELEMENT_NAME = /^[A-Za-z_][A-Za-z0-9_.-]*$/;

function propertyLines(given: unknown, confidence: number | null): string[] {
  const properties: Record<string, unknown> =
    typeof given === "object" && given !== null && !Array.isArray(given) ? { ...given } : {};
  if (confidence !== null && confidence >= 0 && confidence <= 1) {
    properties["software-confidence"] ??= decimalText(confidence);
  }
  return Object.entries(properties)
    .filter(([name]) => ELEMENT_NAME.test(name))
    .map(([name, value]) => element(name, textOf(value)));
}

/** Mean score of the edges of an axis, or else of its nodes; null if there are no scores. */
function meanScore(graph: Graph, id: AxisId, nodes: readonly NodeId[]): number | null {
  const mean = (values: number[]): number | null =>
    values.length > 0 ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
  const all = graph.nodes.values();
  if (all.some(({ edgeScore }) => edgeScore !== null)) {
    const members = graph.path(id).map((node) => graph.node(node)).filter(({ axis }) => axis === id);
    const found = mean(members.map(({ edgeScore }) => edgeScore ?? 1));
    if (found !== null) return found;
  }
  return all.some(({ score }) => score !== null) ? mean(nodes.map((node) => graph.node(node).score ?? 1)) : null;
}

// ---- traits -------------------------------------------------------------------------------------

const LENGTHS = [
  "total_length", "primary_length", "lateral_length", "lateral_length_mean", "depth", "width", "mean_diameter",
];
const COLUMNS: readonly (keyof PlantMeasures)[] = [
  "plant", "unit", "total_length", "primary_length", "lateral_count", "lateral_length", "lateral_length_mean",
  "tip_count", "branch_point_count", "max_order", "depth", "width", "convex_hull_area", "mean_diameter",
  "surface_area", "volume", "main_curve_index", "lateral_emergence_angle_mean", "low_confidence_length_fraction",
];

export interface TraitTable {
  readonly columns: string[];
  readonly rows: Record<string, string | number | null>[];
  readonly units: Record<string, string>;
}

/** The compact traits of one document, one row per plant, rounded to 6 significant digits. */
export function traitTable(document: SkeletonDocument, imageName: string, pxPerMm: number | null): TraitTable {
  const graph = fromDocument(document);
  const measured = pxPerMm === null ? measurePlants(graph) : measurePlants(graph, pxPerMm);
  const unit = measured[0]?.unit ?? "px";
  const rows = measured.map((plant) => {
    const row: Record<string, string | number | null> = { image: imageName };
    for (const name of COLUMNS) {
      const value = plant[name];
      row[name] = typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;
    }
    return row;
  });
  const units: Record<string, string> = Object.fromEntries(LENGTHS.map((name) => [name, unit]));
  return {
    columns: ["image", ...COLUMNS],
    rows,
    units: { ...units, convex_hull_area: `${unit}²`, surface_area: `${unit}²`, volume: `${unit}³`, lateral_emergence_angle_mean: "°" },
  };
}

/** Several tables as CSV. Cells that a spreadsheet would take for a formula are quoted as text. */
export function csvText(tables: readonly TraitTable[]): string {
  const columns = ["image", ...COLUMNS];
  const cell = (value: string | number | null | undefined): string => {
    if (value === null || value === undefined) return "";
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = tables.flatMap(({ rows }) => rows.map((row) => columns.map((name) => cell(row[name])).join(",")));
  return [columns.join(","), ...lines, ""].join("\n");
}
