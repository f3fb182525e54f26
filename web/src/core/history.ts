// History: a stack of graphs. Actions know nothing of undo, because every state is kept; states share what is equal.

import type { Graph } from "./graph.ts";

/** An edit: a function from graphs to graphs. */
export type Action = (graph: Graph) => Graph;

export interface Step {
  readonly graph: Graph;
  /** What was done, as in "Move node"; empty for the first state. */
  readonly annotation: string;
  /** The graph from which it was made by edits: the one that was loaded, or the last one that replaced it. */
  readonly base: Graph;
}

/** Unlimited undo and redo. A drag is one step: `begin`, any number of `replace`, then `commit` or `cancel`. */
export class History {
  private steps: Step[];
  private at = 0;
  private pending: Step | null = null;
  /** Number of edits, those that were undone included. */
  edits = 0;

  constructor(graph: Graph) {
    this.steps = [{ graph, annotation: "", base: graph }];
  }

  get graph(): Graph {
    return this.pending?.graph ?? (this.steps[this.at] as Step).graph;
  }

  /** The state that undo would leave, without the transaction that is under way. */
  get committed(): Graph {
    return (this.steps[this.at] as Step).graph;
  }

  /** The graph from which the present one was made by edits. */
  get base(): Graph {
    return (this.steps[this.at] as Step).base;
  }

  get canUndo(): boolean {
    return this.at > 0 || this.pending !== null;
  }

  get canRedo(): boolean {
    return this.pending === null && this.at < this.steps.length - 1;
  }

  /** What undo would take back. */
  get undoAnnotation(): string {
    return this.pending?.annotation ?? (this.steps[this.at] as Step).annotation;
  }

  get redoAnnotation(): string {
    return this.steps[this.at + 1]?.annotation ?? "";
  }

  get inTransaction(): boolean {
    return this.pending !== null;
  }

  /** Apply actions as one step. Nothing is recorded if they leave the graph as it is. Return true if it changed. */
  perform(annotation: string, ...actions: Action[]): boolean {
    this.commit();
    return this.push({ graph: apply(this.graph, actions), annotation, base: this.base });
  }

  /** Go on with another graph as one step. Edits count from `base`. Return true if it is another one. */
  restart(annotation: string, graph: Graph, base: Graph): boolean {
    this.commit();
    return this.push({ graph, annotation, base });
  }

  /** Begin a transaction, which `replace` repeats from the same state. */
  begin(annotation: string): void {
    this.commit();
    this.pending = { graph: this.committed, annotation, base: this.base };
  }

  /** Apply actions to the state before the transaction, in place of what the transaction did so far. */
  replace(...actions: Action[]): void {
    if (this.pending === null) throw new Error("no transaction is under way");
    this.pending = { ...this.pending, graph: apply(this.committed, actions) };
  }

  /** End the transaction as one step. Return true if it changed the graph. */
  commit(): boolean {
    const { pending } = this;
    this.pending = null;
    return pending !== null && this.push(pending);
  }

  /** Drop the transaction. */
  cancel(): void {
    this.pending = null;
  }

  /** Go back one step; a transaction under way is dropped instead. Return true if there was one. */
  undo(): boolean {
    if (this.pending !== null) {
      this.pending = null;
      return true;
    }
    if (this.at === 0) return false;
    this.at--;
    return true;
  }

  redo(): boolean {
    if (!this.canRedo) return false;
    this.at++;
    return true;
  }

  private push(step: Step): boolean {
    if (step.graph === this.committed) return false;
    this.steps.length = this.at + 1;
    this.steps.push(step);
    this.at++;
    this.edits++;
    return true;
  }
}

/** Apply actions in order. */
export function apply(graph: Graph, actions: readonly Action[]): Graph {
  return actions.reduce((state, action) => action(state), graph);
}
