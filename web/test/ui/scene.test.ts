import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildScene, branchingOrders, Kind, type SceneNode } from "../../src/ui/canvas/scene";
import { visibleEdges } from "../../src/ui/canvas/overlay";
import { View } from "../../src/ui/canvas/view";

const OPTIONS = { colorBy: "confidence", widthByRadius: false, lowThreshold: 0.3 } as const;

const node = (id: number, parent: number | null, more: Partial<SceneNode> = {}): SceneNode => ({
  id,
  x: id * 10,
  y: id,
  parent,
  plant: 0,
  axis: 0,
  radius: null,
  edgeScore: null,
  ...more,
});

/** Random forests: each node's parent comes before or after it in the list. */
const forests = fc
  .array(fc.record({ parent: fc.nat(), axis: fc.nat(3), x: fc.nat(1000), y: fc.nat(1000), score: fc.double({ min: 0, max: 1, noNaN: true }) }), { maxLength: 60 })
  .chain((rows) => {
    const nodes = rows.map((r, i) => node(i, i === 0 || r.parent % 5 === 0 ? null : r.parent % i, { axis: r.axis, x: r.x, y: r.y, edgeScore: r.score }));
    return fc.shuffledSubarray(nodes, { minLength: nodes.length });
  });

describe("buildScene", () => {
  it("puts each edge into exactly one bucket", () => {
    fc.assert(
      fc.property(forests, fc.constantFrom("confidence", "plant", "order" as const), (nodes, colorBy) => {
        const scene = buildScene(nodes, { ...OPTIONS, colorBy: colorBy as "plant" });
        const edges = scene.buckets.flatMap((b) => b.edges).sort((a, b) => a - b);
        expect(edges).toEqual(nodes.flatMap((n, i) => (n.parent === null ? [] : [i])));
        for (const bucket of scene.buckets) {
          for (const i of bucket.edges) expect(bucket.dashed).toBe(nodes[i]!.edgeScore! < 0.3);
        }
      }),
    );
  });

  it("tells roots, branch points, tips and others apart", () => {
    const scene = buildScene([node(0, null), node(1, 0), node(2, 1), node(3, 1), node(4, 3)], OPTIONS);
    expect([...scene.kind]).toEqual([Kind.Root, Kind.Branch, Kind.Tip, Kind.Through, Kind.Tip]);
    expect(scene.box).toEqual({ x0: 0, y0: 0, x1: 40, y1: 4 });
  });

  it("joins widths that look the same", () => {
    const nodes = Array.from({ length: 200 }, (_, i) => node(i, i ? i - 1 : null, { radius: 2 + i / 1000 }));
    expect(buildScene(nodes, { ...OPTIONS, widthByRadius: true }).buckets.length).toBeLessThan(5);
    expect(buildScene(nodes, OPTIONS).buckets.every((b) => b.diameter === 0)).toBe(true);
  });
});

describe("branchingOrders", () => {
  it("agrees with the recursive definition", () => {
    fc.assert(
      fc.property(forests, (nodes) => {
        const index = new Map(nodes.map((n, i) => [n.id, i]));
        const parent = Int32Array.from(nodes.map((n) => (n.parent === null ? -1 : index.get(n.parent)!)));
        const reference = (i: number): number => {
          const p = parent[i]!;
          if (p < 0 || parent[p]! < 0) return 0;
          return reference(p) + (nodes[p]!.axis === nodes[i]!.axis ? 0 : 1);
        };
        expect([...branchingOrders(nodes, parent)]).toEqual(nodes.map((_, i) => reference(i)));
      }),
    );
  });
});

describe("visibleEdges", () => {
  it("never hides an edge that crosses the view", () => {
    fc.assert(
      fc.property(forests, fc.nat(800), fc.nat(800), (nodes, left, top) => {
        const scene = buildScene(nodes, OPTIONS);
        const view = new View(2, left, top, 300, 200);
        const seen = visibleEdges(scene, view);
        const box = view.box();
        for (let i = 0; i < nodes.length; i++) {
          const p = scene.parent[i]!;
          if (p < 0) continue;
          for (let t = 0; t <= 1; t += 0.05) {
            const x = scene.x[p]! + t * (scene.x[i]! - scene.x[p]!);
            const y = scene.y[p]! + t * (scene.y[i]! - scene.y[p]!);
            if (x > box.x0 && x < box.x1 && y > box.y0 && y < box.y1) expect(seen[i]).toBe(1);
          }
        }
      }),
    );
  });
});
