import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fromDocument } from "../../src/core/document.ts";
import { moveReason, moveRow, outline } from "../../src/core/outline.ts";
import type { OutlineRow } from "../../src/core/outline.ts";
import { documents } from "../arbitrary.ts";

// Two plants: one with a lateral that has a lateral of its own, one a straight line.
const GRAPH = fromDocument({
  format: "treeformer-skeleton",
  version: 1,
  nodes: [[0, 0], [0, 10], [0, 20], [10, 15], [20, 20], [25, 30], [100, 0], [100, 10], [100, 20]],
  edges: [[0, 1], [1, 2], [1, 3], [3, 4], [3, 5], [6, 7], [7, 8]],
  roots: [0, 6],
  plant: [0, 0, 0, 0, 0, 0, 1, 1, 1],
  axes: [
    { nodes: [0, 1, 2], parent: null, plant: 0, label: "tap" },
    { nodes: [1, 3, 4], parent: 0, plant: 0 },
    { nodes: [3, 5], parent: 1, plant: 0 },
    { nodes: [6, 7, 8], parent: null, plant: 1 },
  ],
  edge_axis: [0, 0, 1, 1, 2, 3, 3],
});
const row = (key: string, graph = GRAPH): OutlineRow => outline(graph).find((one) => one.key === key)!;

describe("outline", () => {
  test("lists plants, axes below them and laterals below their axes", () => {
    const shown = outline(GRAPH).map(({ label, depth }) => `${" ".repeat(depth)}${label}`);
    expect(shown).toEqual(["Plant 0", " Axis tap", "  Axis 2", "   Axis 3", "Plant 1", " Axis 4"]);
    expect(row("plant-1").length).toBe(20);
    expect(row("axis-1").length).toBeCloseTo(2 * Math.hypot(10, 5));
    expect(row("plant-0").length).toBeCloseTo(20 + 2 * Math.hypot(10, 5) + Math.hypot(15, 15));
  });

  test("moves an axis with its laterals to the nearest node of another plant", () => {
    const moved = moveRow(row("axis-1"), row("axis-3"))(GRAPH);
    expect(moved.node(3).parent).toBe(7);
    expect([3, 4, 5].map((id) => moved.node(id).plant)).toEqual([1, 1, 1]);
    expect(moved.rootOf(5)).toBe(6);
    expect(outline(moved).map(({ label }) => label)).toEqual(["Plant 0", "Axis tap", "Plant 1", "Axis 4", "Axis 2", "Axis 3"]);
  });

  test("attaches a whole plant to an axis", () => {
    const moved = moveRow(row("plant-1"), row("axis-2"))(GRAPH);
    expect(moved.node(6).parent).toBe(5);
    expect(moved.roots).toEqual([0]);
  });

  test("refuses cycles and moves without effect", () => {
    expect(moveReason(GRAPH, row("axis-1"), row("axis-2"))).toMatch(/begins below/);
    expect(moveReason(GRAPH, row("axis-1"), row("axis-1"))).toMatch(/itself/);
    expect(moveReason(GRAPH, row("axis-2"), row("axis-1"))).toMatch(/already/);
    for (const key of ["axis-1", "axis-2"]) expect(moveRow(row("axis-1"), row(key))(GRAPH)).toBe(GRAPH);
  });

  test("has each axis and each node of any document once", () => {
    fc.assert(
      fc.property(documents(), (document) => {
        const graph = fromDocument(document);
        const rows = outline(graph);
        expect(new Set(rows.map(({ key }) => key)).size).toBe(rows.length);
        const inPlants = rows.filter(({ axis }) => axis === null).flatMap(({ nodes }) => nodes);
        const inAxes = rows.filter(({ axis }) => axis !== null).flatMap(({ nodes }) => nodes);
        expect(inPlants.sort((a, b) => a - b)).toEqual(graph.nodes.values().map(({ id }) => id).sort((a, b) => a - b));
        expect(new Set(inAxes).size).toBe(inAxes.length);
        for (const id of inAxes) expect(graph.node(id).parent).not.toBeNull();
      }),
    );
  });
});
