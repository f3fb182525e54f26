// @vitest-environment happy-dom
import { flushSync, mount, unmount } from "svelte";
import { expect, it } from "vitest";
import type { ImageEntry, TrainingInfo } from "../../src/api";
import TrainDialog from "../../src/ui/TrainDialog.svelte";
import TrainingBox from "../../src/ui/TrainingBox.svelte";

const entries: ImageEntry[] = [
  { image: "a", state: "predicted", expected_errors: 1, plants: 1, nodes: 3, has_draft: false, error: null },
];
const nothing = (): void => {};

/** Whether box and dialog offer to predict again after a training with these figures. */
function offers(before: number | null, after: number | null): boolean[] {
  const training: TrainingInfo = {
    state: "done", stage: "done", lines: ["last"], done: 1, total: 1, seconds_left: null,
    before, after, model: "trained-1", folder: "/r/trained-1", missing_packages: [],
  };
  const common = { target: document.body };
  const shown = [
    () => mount(TrainingBox, { ...common, props: { training, entries, ondetails: nothing, onagain: nothing, onstop: nothing } }),
    () =>
      mount(TrainDialog, {
        ...common,
        props: { training, entries, onstart: nothing, oncancel: nothing, onagain: nothing, onclose: nothing },
      }),
  ];
  return shown.map((show) => {
    const component = show();
    flushSync();
    const found = /Predict 1 (image )?again/.test(document.body.textContent ?? "");
    void unmount(component);
    document.body.replaceChildren();
    return found;
  });
}

it("offers to predict again only with a new model", () => {
  expect(offers(0.5, 0.75)).toEqual([true, true]);
  expect(offers(0.5, 0.5)).toEqual([false, false]);
  expect(offers(0, 0)).toEqual([false, false]);
});
