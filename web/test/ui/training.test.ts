// @vitest-environment happy-dom
import { flushSync, mount, unmount } from "svelte";
import { describe, expect, it } from "vitest";
import type { ImageEntry, TrainingInfo } from "../../src/api";
import TrainDialog from "../../src/ui/TrainDialog.svelte";
import TrainingBox from "../../src/ui/TrainingBox.svelte";

const one: ImageEntry = {
  image: "a", state: "predicted", expected_errors: 1, plants: 1, nodes: 3, has_draft: false, error: null,
};
const entries: ImageEntry[] = [one];
const idle: TrainingInfo = {
  state: "idle", stage: "", lines: [], done: 0, total: 0, seconds_left: null, before: null, after: null,
  model: null, folder: null, missing_packages: [], unannotated: false, pseudo_labels: null,
};
const nothing = (): void => {};
const callbacks = { onstart: nothing, oncancel: nothing, onagain: nothing, onclose: nothing };

/** Whether box and dialog offer to predict again after a training with these figures. */
function offers(before: number | null, after: number | null): boolean[] {
  const training: TrainingInfo = {
    ...idle, state: "done", stage: "done", lines: ["last"], done: 1, total: 1, before, after,
    model: "trained-1", folder: "/r/trained-1",
  };
  const common = { target: document.body };
  const shown = [
    () => mount(TrainingBox, { ...common, props: { training, entries, ondetails: nothing, onagain: nothing, onstop: nothing } }),
    () => mount(TrainDialog, { ...common, props: { training, entries, gpu: false, ...callbacks } }),
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

describe("learning from images without corrections", () => {
  const corrected: ImageEntry = { ...one, image: "b", state: "accepted" };

  /** Open the dialog, click the check box `clicks` times, train, and return what the box was and what was asked for. */
  function train(gpu: boolean | null, listed: ImageEntry[], clicks: number, unannotated = false) {
    const asked: [number | null, boolean, boolean][] = [];
    const props = {
      training: { ...idle, unannotated }, entries: listed, gpu, ...callbacks,
      onstart: (...choice: [number | null, boolean, boolean]): void => void asked.push(choice),
    };
    const component = mount(TrainDialog, { target: document.body, props });
    flushSync();
    const box = document.querySelector<HTMLInputElement>("input[type=checkbox]")!;
    const { checked, disabled } = box;
    const hint = document.getElementById(box.getAttribute("aria-describedby")!)?.textContent;
    for (let k = 0; k < clicks; k++) box.click();
    flushSync();
    document.querySelector<HTMLButtonElement>("button.primary")!.click();
    void unmount(component);
    document.body.replaceChildren();
    return { checked, disabled, hint, asked };
  }

  it("is a choice if there is a GPU and such an image", () => {
    expect(train(true, [one, corrected], 0)).toMatchObject({ checked: false, disabled: false, asked: [[null, false, false]] });
    expect(train(true, [one, corrected], 1).asked).toEqual([[null, true, false]]);
    expect(train(true, [one, corrected], 2).asked).toEqual([[null, false, false]]);
  });

  it("is as in the training before, so that it is continued", () => {
    expect(train(true, [one, corrected], 0, true)).toMatchObject({ checked: true, asked: [[null, true, false]] });
    expect(train(true, [one, corrected], 1, true).asked).toEqual([[null, false, false]]);
  });

  it("is not offered otherwise, and the dialog says why", () => {
    const refused = { checked: false, disabled: true, asked: [[null, false, false]] };
    for (const [gpu, listed, hint] of [
      [null, [one, corrected], "Looking for a GPU…"],
      [false, [one, corrected], "This needs a GPU, and PyTorch sees none on this computer."],
      [true, [corrected], "There is no image without corrections."],
    ] as const) {
      expect(train(gpu, [...listed], 1, true)).toEqual({ ...refused, hint });
    }
  });

  it("uses corrections that nobody has accepted only on request, and names their open places", () => {
    const saved: ImageEntry = { ...one, image: "c", state: "edited", origin: "correction", open_places: 56 };
    const asked: boolean[] = [];
    const props = {
      training: idle, entries: [saved], gpu: false, ...callbacks,
      onstart: (_minutes: number | null, _unannotated: boolean, include: boolean): void => void asked.push(include),
    };
    const component = mount(TrainDialog, { target: document.body, props });
    flushSync();
    expect(document.getElementById("tf-unaccepted")?.textContent?.replaceAll(/\s+/g, " ")).toContain("1 image with 56 open places");
    const button = document.querySelector<HTMLButtonElement>("button.primary")!;
    expect(button.disabled).toBe(true);
    document.querySelector<HTMLInputElement>("input[aria-describedby=tf-unaccepted]")!.click();
    flushSync();
    expect(button.disabled).toBe(false);
    button.click();
    expect(asked).toEqual([true]);
    void unmount(component);
    document.body.replaceChildren();
  });

  it("is counted in the result", () => {
    const training: TrainingInfo = { ...idle, state: "done", lines: ["last"], before: 0.5, after: 0.75, pseudo_labels: 7 };
    const component = mount(TrainDialog, { target: document.body, props: { training, entries, gpu: true, ...callbacks } });
    flushSync();
    expect(document.body.textContent).toContain("The model has learned from 7 images without corrections, too.");
    void unmount(component);
    document.body.replaceChildren();
  });
});
