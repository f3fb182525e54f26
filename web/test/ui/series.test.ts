import { describe, expect, test } from "vitest";
import type { SeriesDate } from "../../src/api";
import { mapped } from "../../src/core/corrections";
import { identityColor } from "../../src/ui/canvas/palette";
import { View } from "../../src/ui/canvas/view";
import { offersFor, sameView, timeLabel } from "../../src/ui/series";

const FROM: SeriesDate = { image: "a", time: 1, transform: [1, 0, 0, 0], succeeded: true };
const TO: SeriesDate = { image: "b", time: 2.5, transform: [0.48, 0.14, 30, -7], succeeded: true };

describe("dates", () => {
  test("the same place of the plate stays in the middle, at the same size", () => {
    const view = new View(2, 100, 50, 400, 300);
    const next = sameView(view, FROM.transform, TO.transform);
    const middle = { x: 200, y: 150 };
    const [here, there] = [mapped(FROM.transform, view.toImage(middle)), mapped(TO.transform, next.toImage(middle))];
    expect(there.x).toBeCloseTo(here.x, 6);
    expect(there.y).toBeCloseTo(here.y, 6);
    // One px of b is half a px of the reference date.
    expect(next.scale).toBeCloseTo(1, 9);
  });

  test("offers come from other dates, in px of the date that is shown, until they are done", () => {
    const correction = { kind: "add" as const, attached: true, points: [{ x: 30, y: -7 }, { x: 78, y: 7 }] };
    const offer = { from: "a", corrections: [correction], done: new Set<string>() };
    expect(offersFor([offer], [FROM, TO], "a").corrections).toEqual([]);
    const { corrections, from } = offersFor([offer], [FROM, TO], "b");
    expect(from).toBe("time 1");
    const [base, tip] = corrections[0]!.points;
    expect([base!.x, base!.y]).toEqual([expect.closeTo(0, 6), expect.closeTo(0, 6)]);
    expect([tip!.x, tip!.y]).toEqual([expect.closeTo(100, 6), expect.closeTo(0, 6)]);
    offer.done.add("b");
    expect(offersFor([offer], [FROM, TO], "b").corrections).toEqual([]);
    expect(offersFor([offer], [TO], "b").corrections).toEqual([]);
  });

  test("labels and colors depend on the date and the id alone", () => {
    expect([timeLabel(3), timeLabel(2.456)]).toEqual(["Time 3", "Time 2.46"]);
    const laterals = ["1.1", "1.2", "1.3", "1.4"].map(identityColor);
    expect(new Set(laterals).size).toBe(4);
    expect(identityColor("1.2")).toBe(identityColor("1.2"));
  });
});
