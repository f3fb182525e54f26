// The pointer in each mode: what a click selects, connects or cuts, and drags of nodes, lassos, boxes, scale lines.

import { cutEdge, insertOnEdge, mergeNodes, moveNodes } from "../core/actions.ts";
import { distance, point } from "../core/geometry.ts";
import { plantOf } from "../core/graph.ts";
import type { NodeId } from "../core/graph.ts";
import { nodesInPolygon, spatialIndex } from "../core/spatial.ts";
import { anchorOf } from "./branch.ts";
import type { Host } from "./host.ts";
import type { Pen } from "./pen.ts";
import { NO_PREVIEW } from "./types.ts";
import type { EditorState, Hit, Point, PointerInput } from "./types.ts";

/** A press of the pointer that may become a drag. */
interface Press {
  readonly at: Point;
  /** The nodes that a drag would move. */
  readonly ids: readonly NodeId[];
  /** The pointer has to move farther than this before the press is a drag, image px. */
  readonly slack: number;
  moved: boolean;
}

/** Follow the pointer. The editor decides what is drawn and kept; see `Host`. */
export class Pointer {
  /** Last known position, which arrow keys move in the modes of tools. */
  cursor: PointerInput = { x: 0, y: 0, tolerance: 8 };
  private press: Press | null = null;

  constructor(
    private readonly host: Host,
    private readonly pen: Pen,
  ) {}

  private get state(): EditorState {
    return this.host.state;
  }

  /** True between a press and its release. */
  get isDown(): boolean {
    return this.press !== null;
  }

  /** Forget the press, so that its release does nothing. */
  drop(): void {
    this.press = null;
  }

  /** End a press on nodes, and the drag that it began, which stays as it is: what follows may remove the nodes. */
  letGo(): void {
    if (this.press === null || this.press.ids.length === 0) return;
    this.press = null;
    if (this.state.mode !== "drag") return;
    this.host.history.commit();
    this.host.update({ mode: "select", preview: NO_PREVIEW });
  }

  /** The main button was pressed. Return true if the editor uses the pointer until it is released. */
  down(input: PointerInput): boolean {
    this.cursor = input;
    if ((input.button ?? 0) !== 0) return false;
    switch (this.state.mode) {
      case "draw":
      case "trace":
        this.pen.place(input);
        return true;
      case "connect":
        this.clickTarget(input);
        return true;
      case "plant":
        this.clickPlant(input);
        return true;
      case "lasso":
      case "scale":
      case "region":
        this.press = { at: input, ids: [], slack: input.tolerance, moved: false };
        this.host.update({ preview: { ...NO_PREVIEW, outline: [point(input)], line: [point(input)] } });
        return true;
      case "drag":
        return true;
      case "browse":
      case "select":
        return this.pressGraph(input);
    }
  }

  private pressGraph(input: PointerInput): boolean {
    const hit = this.host.hit(input);
    const { selection } = this.state;
    if (hit === null) {
      this.press = { at: input, ids: [], slack: input.tolerance / 2, moved: false };
      return false;
    }
    if (hit.kind === "edge") {
      if (input.ctrl || input.alt) this.cut(hit.id);
      else this.host.selectEdge(hit.id);
      return true;
    }
    if (input.shift || input.ctrl) {
      const next = new Set(selection);
      if (!next.delete(hit.id)) next.add(hit.id);
      this.host.select(next);
      return true;
    }
    if (!selection.has(hit.id)) this.host.select([hit.id]);
    const ids = [...this.state.selection];
    this.press = { at: input, ids, slack: input.tolerance / 2, moved: false };
    return true;
  }

  private cut(id: NodeId): void {
    if (this.host.perform("Cut edge", cutEdge(id))) this.host.select([id]);
  }

  /** The pointer moved, pressed or not. */
  move(input: PointerInput): void {
    this.cursor = input;
    const { press } = this;
    switch (this.state.mode) {
      case "draw":
      case "trace":
        this.pen.show(input);
        return;
      case "connect": {
        const [id] = this.state.selection;
        const hit = this.host.hit(input, (other) => other !== id);
        const from = id === undefined ? undefined : this.state.graph.get(id);
        const line = from === undefined ? [] : [point(from), hit?.kind === "edge" ? hit.at : point(input)];
        this.host.update({ hover: hit, preview: { ...NO_PREVIEW, target: hit, line } });
        return;
      }
      case "lasso":
      case "scale":
      case "region":
        if (press !== null) this.drawOutline(press, input);
        return;
      case "drag":
        this.drag(input);
        return;
      case "plant":
      case "browse":
      case "select":
        if (press !== null && !press.moved && distance(press.at, input) > press.slack) {
          press.moved = true;
          if (press.ids.length > 0) {
            this.host.history.begin(moveAnnotation(press.ids.length));
            this.host.update({ mode: "drag", hover: null });
            this.drag(input);
          }
          return;
        }
        if (press === null) this.showHover(input);
    }
  }

  private showHover(input: PointerInput): void {
    const hover = this.host.hit(input);
    const cuts = hover?.kind === "edge" && (input.ctrl || input.alt) && this.state.mode !== "plant";
    const affected = cuts ? new Set(this.state.graph.subtree(hover.id)) : NO_PREVIEW.affected;
    if (sameHit(hover, this.state.hover) && affected.size === this.state.preview.affected.size) return;
    this.host.update({ hover, preview: { ...NO_PREVIEW, affected } });
  }

  private drag(input: PointerInput): void {
    const { press } = this;
    if (press === null) return;
    this.host.history.replace(moveNodes(press.ids, input.x - press.at.x, input.y - press.at.y));
    const target = input.alt || press.ids.length !== 1 ? null : this.snapTarget(press.ids[0] as NodeId, input);
    this.host.update({ preview: { ...NO_PREVIEW, target } });
  }

  /** The node that a dragged node would be merged with: near it and in another tree. */
  private snapTarget(id: NodeId, input: PointerInput): Hit | null {
    const { committed, graph } = this.host.history;
    const [at, root] = [graph.node(id), committed.rootOf(id)];
    return spatialIndex(committed).nearestNode(at, input.tolerance, (other) => committed.rootOf(other) !== root);
  }

  private drawOutline(press: Press, input: PointerInput): void {
    const { mode, preview } = this.state;
    const at = point(input);
    if (mode === "scale") this.host.update({ preview: { ...preview, outline: [], line: [point(press.at), at] } });
    else if (mode === "region") this.host.update({ preview: { ...preview, line: [], outline: box(press.at, at) } });
    else this.host.update({ preview: { ...preview, line: [], outline: [...preview.outline, at] } });
  }

  /** The button was released. */
  up(input: PointerInput): void {
    this.cursor = input;
    const { press } = this;
    this.press = null;
    if (press === null) return;
    const { mode, preview, selection } = this.state;
    if (mode === "drag") this.endDrag(press.ids[0], preview.target);
    else if (mode === "lasso") {
      const inside = nodesInPolygon(this.state.graph, preview.outline);
      this.host.leave({ selection: new Set(input.shift ? [...selection, ...inside] : inside), edge: null });
    } else if (mode === "scale") {
      const length = distance(press.at, input);
      if (length > 0) this.host.leave({ scaleLine: length, preview: { ...NO_PREVIEW, line: [point(press.at), point(input)] } });
    } else if (mode === "region") {
      const [a, , b] = box(press.at, input) as [Point, Point, Point];
      if (b.x > a.x && b.y > a.y) this.host.leave({ region: [a.x, a.y, b.x, b.y], preview: { ...preview, line: [] } });
    } else if (!press.moved && press.ids.length === 0 && !input.shift) {
      this.host.update({ selection: new Set(), edge: null, reviewItem: null });
    }
  }

  /** Keep the moved nodes, or merge the only one with the node on which it was released. */
  private endDrag(id: NodeId | undefined, target: Hit | null): void {
    const { history } = this.host;
    if (target !== null && id !== undefined) {
      history.cancel();
      history.perform("Merge nodes", mergeNodes(id, target.id));
      const kept = history.graph.has(id) ? id : target.id;
      this.host.leave({ selection: new Set([kept]), edge: null });
      return;
    }
    history.commit();
    this.host.leave();
  }

  /** The pointer left the canvas. */
  leave(): void {
    const { hover, preview } = this.state;
    if (hover === null || this.press !== null) return;
    this.host.update({ hover: null, preview: { ...preview, affected: NO_PREVIEW.affected } });
  }

  /** The button was pressed twice: end a branch, or insert a node on an edge. */
  doubleClick(input: PointerInput): void {
    if (this.state.mode === "draw" || this.state.mode === "trace") {
      this.pen.end(null);
      return;
    }
    if (this.state.mode !== "browse" && this.state.mode !== "select") return;
    const hit = this.host.hit(input);
    if (hit?.kind !== "edge") return;
    const id = this.state.graph.nextNode;
    if (this.host.perform("Insert node", insertOnEdge(hit.id, hit.at.x, hit.at.y))) this.host.select([id]);
  }

  private clickTarget(input: PointerInput): void {
    const [id] = this.state.selection;
    const hit = this.host.hit(input, (other) => other !== id);
    if (hit === null) this.host.update({ message: "Click a node or an edge to connect to." });
    else this.host.connectTo(anchorOf(hit, input));
  }

  private clickPlant(input: PointerInput): void {
    const hit = this.host.hit(input);
    if (hit === null) {
      this.host.update({ message: "Click a node of the plant to assign to, or press P for a new plant." });
      return;
    }
    const plant = plantOf(this.state.graph, hit.id);
    this.host.leave();
    this.host.setPlant(plant);
  }
}

/** What a step that moves nodes is called. */
export function moveAnnotation(count: number): string {
  return count === 1 ? "Move node" : `Move ${count} nodes`;
}

/** The corners of the box that two opposite ones span, clockwise from the top left. */
function box(a: Point, b: Point): Point[] {
  const [x0, x1, y0, y1] = [Math.min(a.x, b.x), Math.max(a.x, b.x), Math.min(a.y, b.y), Math.max(a.y, b.y)];
  return [{ x: x0, y: y0 }, { x: x1, y: y0 }, { x: x1, y: y1 }, { x: x0, y: y1 }];
}

function sameHit(a: Hit | null, b: Hit | null): boolean {
  return a === b || (a !== null && b !== null && a.kind === b.kind && a.id === b.id);
}
