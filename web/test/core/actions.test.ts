import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fromDocument, toDocument } from "../../src/core/document.ts";
import type { Graph } from "../../src/core/graph.ts";
import { History } from "../../src/core/history.ts";
import { CASES, actionOf, commands, documents } from "../arbitrary.ts";
import { checkGraph } from "../check.ts";

const RUNS = Number(process.env.RUNS ?? 300);

/** The invariants of every graph that an action returns. */
function check(graph: Graph): void {
  checkGraph(graph);
  graph.nodes.forEach((node) => {
    if (node.parent !== null && graph.explicitPlants) expect(node.plant).toBe(graph.node(node.parent).plant);
    expect(node.plant !== null).toBe(graph.explicitPlants);
  });
  for (const [id, axis] of graph.axes) {
    const head = graph.path(id)[1];
    if (head !== undefined && graph.explicitPlants) expect(axis.plant).toBe(graph.node(head).plant);
  }
}

describe("actions", () => {
  test("any sequence of actions from any forest is a forest with valid axes", () => {
    fc.assert(
      fc.property(documents(), commands(), (document, list) => {
        let graph = fromDocument(document);
        for (const command of list) {
          const next = actionOf(graph, command);
          if (next === null) continue;
          const before = graph;
          graph = next.action(graph);
          try {
            if (graph !== before) check(graph);
          } catch (error) {
            throw new Error(`after ${next.name}: ${String(error)}`);
          }
        }
      }),
      { numRuns: RUNS },
    );
  });

  test("what is written after any sequence can be read and is the same when written again", () => {
    fc.assert(
      fc.property(documents(), commands(), (document, list) => {
        let graph = fromDocument(document);
        for (const command of list) graph = actionOf(graph, command)?.action(graph) ?? graph;
        const written = JSON.parse(JSON.stringify(toDocument(graph)));
        expect(toDocument(fromDocument(written))).toEqual(written);
      }),
      { numRuns: RUNS },
    );
  });

  test("an action leaves the graph that it was given as it was", () => {
    fc.assert(
      fc.property(documents(), commands(1), (document, list) => {
        const graph = fromDocument(document);
        for (const command of list) actionOf(graph, command)?.action(graph);
        expect(toDocument(graph)).toEqual(toDocument(fromDocument(document)));
      }),
      { numRuns: RUNS },
    );
  });

  test("undo after do is the identity, and redo restores every state", () => {
    fc.assert(
      fc.property(documents(), commands(), (document, list) => {
        const history = new History(fromDocument(document));
        const states = [history.graph];
        const texts = [JSON.stringify(toDocument(history.graph))];
        for (const command of list) {
          const next = actionOf(history.graph, command);
          if (next === null || !history.perform(next.name, next.action)) continue;
          states.push(history.graph);
          texts.push(JSON.stringify(toDocument(history.graph)));
        }
        for (let k = states.length - 1; k > 0; k--) {
          expect(history.graph).toBe(states[k]);
          expect(history.undo()).toBe(true);
        }
        expect(history.undo()).toBe(false);
        for (let k = 0; k < states.length; k++) {
          expect(history.graph).toBe(states[k]);
          expect(JSON.stringify(toDocument(history.graph))).toBe(texts[k]);
          expect(history.redo()).toBe(k + 1 < states.length);
        }
      }),
      { numRuns: RUNS },
    );
  });

  test("each kind of action changes some graph", () => {
    const changed = new Set<string>();
    const cases = fc.sample(fc.tuple(documents(), commands()), { numRuns: 400, seed: 1 });
    for (const [document, list] of cases) {
      let graph = fromDocument(document);
      for (const command of list) {
        const next = actionOf(graph, command);
        if (next === null) continue;
        const after = next.action(graph);
        if (after !== graph) changed.add(next.name);
        graph = after;
      }
    }
    expect([...changed].sort()).toEqual(CASES.map(([name]) => name).sort());
  });
});

describe("documents", () => {
  test("the round trip is exact", () => {
    fc.assert(
      fc.property(documents(40), (document) => {
        expect(toDocument(fromDocument(document))).toEqual(document);
      }),
      { numRuns: 2 * RUNS },
    );
  });
});
