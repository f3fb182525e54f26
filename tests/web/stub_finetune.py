"""Behaves as `treeformer finetune … --progress json`, without training. The first argument says how it ends."""

import json
import signal
import sys
import time
from pathlib import Path


def report(stage: str, message: str = "", done: int = 0, total: int = 0, left: float | None = None, **figures: float):
    fields = {"stage": stage, "message": message, "done": done, "total": total, "seconds_left": left}
    print(json.dumps(fields | {"figures": figures}), flush=True)


def steps(checkpoint: Path) -> int:
    """Report steps for ever. The first signal to stop is obeyed after a while, a second one at once."""

    def request(number: int, _frame: object) -> None:
        nonlocal stop
        stop = True
        signal.signal(number, signal.SIG_DFL)

    stop = False
    signal.signal(signal.SIGINT, request)
    try:
        while not stop:
            report("training", "waiting", 4, 9)
            time.sleep(0.02)
    except BrokenPipeError:
        checkpoint.write_text("nobody reads")
        raise
    time.sleep(0.3)
    checkpoint.write_text("stopped")
    return 130


def main(end: str, folder: str, *options: str) -> int:
    target = Path(options[options.index("-o") + 1])
    report("survey", f"{Path(folder).name}: 1 annotated image")
    print("a library prints something", flush=True)
    print('["no report"]', flush=True)
    if end == "fail":
        print("a warning\ntreeformer: the disk is too full", file=sys.stderr)
        return 2
    report("training", "step 3 of 9", 3, 9, 60.0, loss=0.5)
    if end == "wait":
        signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
        report("training", "waiting", 4, 9, 30.0)
        time.sleep(600)
    if end == "checkpoint":
        return steps(target.with_name("checkpoint"))
    labels = {}
    if "--unannotated" in options:
        report("labels", "", 1, 2)
        report("labels", "pseudo-labels: 1 of 2 images", pseudo_labels=1)
        labels = {"pseudo_labels": 1}
    target.mkdir()
    (target / "arguments.json").write_text(json.dumps([folder, *options]))
    before, after = (0.0, 0.0) if end == "no-plant" else (0.5, 0.75)
    message = f"F1 {before:.3f} before, {after:.3f} after"
    report("done", message, 1, 1, 0.0, before_topo_f1=before, after_topo_f1=after, **labels)
    report("done", "", 1, 1, 0.0, loss=0.5)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
