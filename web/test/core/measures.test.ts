import { expect, test } from "vitest";
import { fromDocument } from "../../src/core/document.ts";
import { axisOfNode, measureAxis, measurePlants, scaleOf } from "../../src/core/measures.ts";

// tests/web/test_measures.py compares all traits with those of Python; this is one figure that can be checked by hand.
const y = {
  format: "treeformer-skeleton", version: 1, nodes: [[0, 0], [0, 30], [0, 70], [40, 60]], edges: [[0, 1], [1, 2], [1, 3]],
  roots: [0], radius: [2, 2, null, 1], edge_score: [0.9, 0.9, 0.05], metadata: { rsml: { unit: "cm", resolution: "100" } },
};

test("traits of a figure in px and mm", () => {
  const graph = fromDocument(y);
  expect(measurePlants(graph, null)).toEqual([
    {
      plant: 0, unit: "px", total_length: 120, primary_length: 70, lateral_count: 1, lateral_length: 50, lateral_length_mean: 50,
      tip_count: 2, branch_point_count: 1, max_order: 1, depth: 70, width: 40, convex_hull_area: 1400,
      mean_diameter: (4 * 30 + 3 * 50) / 80,
      // A cylinder and a truncated cone; the edge without a radius at its end is left out.
      surface_area: expect.closeTo(Math.PI * (4 * 30 + 3 * Math.hypot(50, 1)), 9),
      volume: expect.closeTo(Math.PI * (30 * 4 + (50 / 3) * (4 + 2 + 1)), 9), main_curve_index: 0, lateral_emergence_angle_mean: expect.closeTo(53.130102, 5),
      low_confidence_length_fraction: 50 / 120,
    },
  ]);
  expect(scaleOf(graph)).toBe(10);
  expect(measurePlants(graph)[0]).toMatchObject({ unit: "mm", total_length: 12, convex_hull_area: 14, lateral_count: 1 });
});

test("traits of the axis of a node", () => {
  const graph = fromDocument(y);
  const axis = axisOfNode(graph, 3) as number;
  expect(measureAxis(graph, axis, null)).toMatchObject({ order: 1, length: 50, chord_length: 50, curve_index: 0, lateral_count: 0 });
  expect(axisOfNode(graph, 0)).toBe(axisOfNode(graph, 2));
  expect(measureAxis(graph, 99)).toBeNull();
});
