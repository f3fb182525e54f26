import { describe, expect, test } from "vitest";
import { DocumentError, fromDocument, toDocument } from "../../src/core/document.ts";

const y = {
  format: "treeformer-skeleton",
  version: 1,
  nodes: [[5, 9], [5, 5], [2, 1], [8, 1]],
  edges: [[1, 0], [1, 2], [3, 1]],
  roots: [0],
};

describe("document", () => {
  test("keeps the order and the direction of edges", () => {
    expect(toDocument(fromDocument(y))).toEqual(y);
  });

  test("directs edges away from the root", () => {
    const graph = fromDocument(y);
    expect([0, 1, 2, 3].map((id) => graph.node(id).parent)).toEqual([null, 0, 1, 1]);
  });

  test("names what is wrong", () => {
    const broken = (changes: object) => () => fromDocument({ ...y, ...changes });
    expect(broken({ format: "other" })).toThrow(/format is "other"/);
    expect(broken({ version: 2 })).toThrow(/version is 2/);
    expect(broken({ nodes: [[1, 2], [3]] })).toThrow("nodes[1] must be two numbers");
    expect(broken({ edges: [[0, 7]] })).toThrow("edge 0 (0, 7) refers to node 7, but there are 4 nodes");
    expect(broken({ edges: [[0, 0]] })).toThrow("edge 0 joins node 0 to itself");
    expect(broken({ edges: [[0, 1], [1, 0]] })).toThrow("edge 1 (1, 0) repeats edge 0");
    expect(broken({ edges: [[0, 1], [1, 2], [2, 0]] })).toThrow(/on a cycle/);
    expect(broken({ roots: [0, 2] })).toThrow("nodes 0 and 2 are both roots of one connected component");
    expect(broken({ roots: [9] })).toThrow("root 9 is not a node: there are 4 nodes");
    expect(broken({ axes: [] })).toThrow("axes and edge_axis must be given together");
    expect(broken({ radius: [1, 2] })).toThrow("radius has 2 entries, not 4");
    expect(broken({ plant: [0, 0, 0, -1] })).toThrow("plant[3] is -1");
    expect(broken({ axes: [{ nodes: [0, 1] }], edge_axis: [0, 1, -1] })).toThrow("edge 1 is on axis 1, but there are 1 axes");
    expect(() => fromDocument(null)).toThrow(DocumentError);
  });
});
