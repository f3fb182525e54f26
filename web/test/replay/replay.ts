// Random sequences of actions as JSON lines, for the test that reads every resulting document in Python.

import { appendFileSync, writeFileSync } from "node:fs";
import fc from "fast-check";
import { fromDocument, toDocument } from "../../src/core/document.ts";
import { actionOf, commands, documents } from "../arbitrary.ts";

const INFO = { seconds: 1, actions: 1, accepted: false, model: null };

/** Write one line per sequence: the names of the actions and the document after the last one. */
export function writeSequences(path: string, count: number, seed: number): void {
  writeFileSync(path, "");
  const batch = 500;
  for (let done = 0; done < count; done += batch) {
    const numRuns = Math.min(batch, count - done);
    const cases = fc.sample(fc.tuple(documents(), commands(20), fc.boolean()), { numRuns, seed: seed + done });
    const lines = cases.map(([document, list, withInfo]) => {
      let graph = fromDocument(document);
      const names: string[] = [];
      for (const command of list) {
        const next = actionOf(graph, command);
        if (next === null) continue;
        graph = next.action(graph);
        names.push(next.name);
      }
      const parents = graph.nodes.values().map(({ parent }) => parent);
      const position = new Map(graph.nodes.values().map(({ id }, k) => [id, k]));
      return JSON.stringify({
        actions: names,
        document: toDocument(graph, withInfo ? INFO : null),
        parents: parents.map((parent) => (parent === null ? -1 : position.get(parent))),
      });
    });
    appendFileSync(path, `${lines.join("\n")}\n`);
  }
}
