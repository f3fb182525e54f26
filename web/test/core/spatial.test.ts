import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { accept, addChild, cutEdge } from "../../src/core/actions.ts";
import { fromDocument } from "../../src/core/document.ts";
import { convexHullArea, distanceToPolyline, isInPolygon, nearestOnSegment, simplify } from "../../src/core/geometry.ts";
import { nodesInPolygon, spatialIndex } from "../../src/core/spatial.ts";
import { expectedErrors, reviewQueue } from "../../src/core/validation.ts";
import { documents } from "../arbitrary.ts";

const place = fc.record({ x: fc.double({ min: -100, max: 500, noNaN: true }), y: fc.double({ min: -100, max: 500, noNaN: true }) });

describe("spatial index", () => {
  test("finds what a search of everything finds", () => {
    fc.assert(
      fc.property(documents(40), place, fc.double({ min: 0, max: 200, noNaN: true }), (document, p, within) => {
        const graph = fromDocument(document);
        const index = spatialIndex(graph);
        const nodes = graph.nodes.values().map((node) => Math.hypot(node.x - p.x, node.y - p.y));
        const edges = graph.nodes
          .values()
          .filter(({ parent }) => parent !== null)
          .map((node) => nearestOnSegment(p, graph.node(node.parent as number), node).distance);
        const least = (list: number[]): number | null => {
          const best = Math.min(...list);
          return best <= within ? best : null;
        };
        expect(index.nearestNode(p, within)?.distance ?? null).toBe(least(nodes));
        expect(index.nearestEdge(p, within)?.distance ?? null).toBe(least(edges));
      }),
      { numRuns: 500 },
    );
  });

  test("a lasso selects the nodes inside", () => {
    const graph = fromDocument({ format: "treeformer-skeleton", version: 1, nodes: [[1, 1], [5, 5], [9, 1]], edges: [] });
    expect(nodesInPolygon(graph, [{ x: 6, y: 0 }, { x: 8, y: 0 }, { x: 8, y: 6 }])).toEqual([]);
    expect(nodesInPolygon(graph, [{ x: 0, y: 0 }, { x: 6, y: -1 }, { x: 6, y: 7 }, { x: 0, y: 7 }])).toEqual([0, 1]);
  });
});

describe("geometry", () => {
  test("a point is inside a triangle if it is on the inner side of its edges", () => {
    const triangle = [{ x: 0, y: 0 }, { x: 10, y: 0 }, { x: 0, y: 10 }];
    const near = fc.integer({ min: -3, max: 13 }).map((value) => value + 0.25);
    fc.assert(fc.property(near, near, (x, y) => {
      const p = { x, y };
      expect(isInPolygon(p, triangle)).toBe(p.x > 0 && p.y > 0 && p.x + p.y < 10);
    }));
  });

  test("a simplified line stays within the tolerance and keeps its ends", () => {
    fc.assert(fc.property(fc.array(place, { minLength: 2, maxLength: 30 }), fc.double({ min: 0, max: 60, noNaN: true }), (line, tolerance) => {
      const short = simplify(line, tolerance);
      expect([short[0], short[short.length - 1]]).toEqual([line[0], line[line.length - 1]]);
      for (const p of line) expect(distanceToPolyline(p, short)).toBeLessThanOrEqual(tolerance + 1e-9);
    }));
  });

  test("area of convex hulls", () => {
    expect(convexHullArea([{ x: 0, y: 0 }, { x: 4, y: 0 }, { x: 4, y: 3 }, { x: 0, y: 3 }, { x: 1, y: 1 }])).toBe(12);
    expect(convexHullArea([{ x: 0, y: 0 }, { x: 1, y: 1 }, { x: 2, y: 2 }])).toBe(0);
    expect(convexHullArea([{ x: 3, y: 3 }])).toBe(0);
  });
});

describe("review queue", () => {
  const graph = fromDocument({
    format: "treeformer-skeleton", version: 1, metadata: { model: "m" },
    nodes: [[0, 0], [0, 20], [0, 40], [4, 22], [0, 58], [0, 80]],
    edges: [[0, 1], [1, 2], [1, 3], [4, 5]], roots: [0, 4],
    node_score: [0.9, 0.9, 0.9, 0.9, 0.2, 0.9], edge_score: [0.95, 0.1, 0.9, 0.9],
  });

  test("lists low scores, doubtful roots, near misses and short tips, worst first", () => {
    const kinds = reviewQueue(graph).map(({ kind, id, other }) => [kind, id, other]);
    expect(kinds).toEqual([["low-score", 2, null], ["doubtful-root", 4, null], ["near-miss", 2, 4], ["short-tip", 3, null]]);
  });

  test("what was accepted, edited or cut is gone", () => {
    const keys = (g: typeof graph): string[] => reviewQueue(g).map(({ key }) => key);
    expect(keys(accept([2], "edge")(graph))).not.toContain("low-score:2");
    expect(keys(accept([2, 4], "node")(graph))).toEqual(["low-score:2", "short-tip:3"]);
    expect(keys(cutEdge(2)(graph))).not.toContain("low-score:2");
    expect(keys(addChild(3, 40, 22)(graph))).not.toContain("short-tip:3");
  });

  test("expected errors are the sum of 1 − score over edges that nobody checked", () => {
    expect(expectedErrors(graph)).toBeCloseTo(0.05 + 0.9 + 0.1 + 0.1);
    expect(expectedErrors(accept([2])(graph))).toBeCloseTo(0.25);
  });
});
