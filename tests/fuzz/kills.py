"""Kill batch predictions, training runs and evaluations at random moments, and check that nothing is lost.

`python -m tests.fuzz.kills --count 100` kills processes with SIGKILL, two of five in a training run and one of ten in
an evaluation. Every prediction and training run resumes the work of the one before.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml
from PIL import Image, ImageDraw

import treeformer
from tests.inference.fake_engine import drawn, random_tree
from tests.training.processes import ONE_THREAD, ForkedProcess, fork_training
from treeformer import Skeleton
from treeformer.results.record import NAME as RECORD

ROOT = Path(__file__).parents[2]
TREE_ARGUMENTS = {"seed": 1, "count": 30, "size": (128, 128), "longest_edge": 60}
IMAGES_PER_KILL = 15
ENDINGS = (".json", ".rsml", ".overlay.jpg")
STEPS_PER_KILL = 6
# Seconds after which a process is killed even if it has written nothing.
LONGEST_WAIT = 120.0

PREDICT = f"""
import sys, time
from tests.inference.fake_engine import ColorEngine, predictor, random_tree
import treeformer.inference.predictor
engine = ColorEngine(random_tree(**{TREE_ARGUMENTS!r}), 128)
class Slow:
    name, device, preferred_batch, input_size = "slow", sys.argv[3], 1, 128
    def __call__(self, images):
        time.sleep(0.02)
        return engine(images)
if __name__ == "__main__":
    treeformer.inference.predictor.Predictor = lambda *_, **__: predictor(Slow())
    from treeformer.__main__ import main
    sys.argv = ["treeformer", "predict", sys.argv[1], "-o", sys.argv[2], "--resume", "--format", "rsml", "--overlay"]
    main()
"""


class Program:
    """A command that runs in a process group of its own."""

    def __init__(self, arguments: Sequence[str | Path]) -> None:
        self._process = subprocess.Popen(
            list(arguments),
            env=ONE_THREAD | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.poll()

    def output(self) -> str:
        """Wait for the end and return what was written to standard error."""
        return self._process.communicate()[1]


def kill_after(process: Program | ForkedProcess, progress: Path, files: int, delay: float, fast: bool = False) -> bool:
    """Kill the group of a process a moment after it has written some files.

    Args:
        process: the process, which has just been started.
        progress: folder in which it writes.
        files: number of changes in the folder to wait for.
        delay: seconds to wait after that.
        fast: count seconds from the start of the process instead, whether it has written files or not.

    Returns:
        False if the process ended before it was killed.
    """
    before, end = snapshot(progress), time.monotonic() + LONGEST_WAIT
    while not fast and process.poll() is None and time.monotonic() < end:
        if len(snapshot(progress).items() - before.items()) >= files:
            break
        time.sleep(0.003)
    time.sleep(delay)
    was_running = process.poll() is None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        was_running = False
    error = process.output()
    assert was_running or process.poll() in (0, -signal.SIGKILL), error
    return was_running


def snapshot(folder: Path) -> dict[str, int]:
    """Return the modification time of every file in a folder, temporary files included."""
    times = {}
    for path in folder.rglob("*") if folder.is_dir() else ():
        try:
            if path.is_file():
                times[str(path)] = path.stat().st_mtime_ns
        except FileNotFoundError:  # a temporary file that was renamed meanwhile
            continue
    return times


def visible(folder: Path) -> dict[str, bytes]:
    """Return the content of the result files, without temporary files."""
    files = folder.rglob("[!.]*") if folder.is_dir() else ()
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.is_file()}


def leftovers(folder: Path) -> list[str]:
    hidden = (path for path in folder.rglob(".*") if path.is_file() and path.name != RECORD)
    return sorted(str(path.relative_to(folder)) for path in hidden)


def kill_predictions(folder: Path, count: int, seed: int) -> int:
    """Kill a batch prediction `count` times, resume it and check the files. Return how often it was really killed."""
    rng = np.random.default_rng(seed)
    tree = random_tree(**TREE_ARGUMENTS)
    images, out = folder / "images", folder / "out"
    images.mkdir(parents=True)
    Image.fromarray(drawn(tree)).save(images / "0.png")
    for number in range(1, IMAGES_PER_KILL * count):
        os.link(images / "0.png", images / f"{number}.png")
    kills = 0
    for _ in range(count):
        before = visible(out)
        device = "cuda" if rng.random() < 0.3 else "cpu"  # with a GPU, processes write the files
        fast, files, delay = rng.random() < 0.1, int(rng.integers(1, 3 * IMAGES_PER_KILL // 2)), rng.uniform(0, 0.05)
        process = Program(predict_command(folder, images, out, device))
        kills += kill_after(process, out, files, 40 * delay if fast else delay, fast)
        after = visible(out)
        assert before.keys() <= after.keys(), "a file was lost"
        # An image that lacks one of its files is predicted again.
        kept = {name for name in before if all(name.split(".")[0] + ending in before for ending in ENDINGS)}
        assert all(before[name] == after[name] for name in kept), "a complete result was changed"
        check_results(out, tree)
    finish(Program(predict_command(folder, images, out, "cpu")))
    check_results(out, tree)
    expected = {f"{n}{ending}" for n in range(IMAGES_PER_KILL * count) for ending in ENDINGS}
    assert set(visible(out)) == expected, "results are missing"
    assert leftovers(out) == [], "temporary files were left behind"
    return kills


def predict_command(folder: Path, images: Path, out: Path, device: str) -> list[str | Path]:
    script = folder / "predict.py"
    script.write_text(PREDICT)
    return [sys.executable, script, images, out, device]


def finish(process: Program | ForkedProcess) -> None:
    error = process.output()
    assert process.poll() == 0, error


def check_results(out: Path, tree: Skeleton) -> None:
    """Read every result file completely."""
    for name in visible(out):
        path = out / name
        if path.suffix == ".jpg":
            with Image.open(path) as image:
                image.load()
        else:
            assert len(treeformer.read(path)) == len(tree), path


def kill_training(folder: Path, count: int, seed: int) -> int:
    """Kill a training run `count` times, resume it and check it. Return how often it was really killed."""
    from treeformer.hub import safetensors
    from treeformer.training import checkpoint

    rng = np.random.default_rng(seed)
    config = training_config(folder)
    straight, broken = folder / "straight", folder / "broken"
    settings = [f"steps={STEPS_PER_KILL * (count + 1)}", "validate_every=2"]
    finish(fork_training(config, straight, *settings))
    state, kills = broken / "checkpoint.safetensors", 0
    for _ in range(count):
        step = checkpoint.read_run_state(state).step if state.exists() else 0
        run = fork_training(config, broken, *settings, *(["--resume"] if state.exists() else []))
        files = int(rng.integers(1, 5))  # log, checkpoint, best weights, temporary files
        kills += kill_after(run, broken, files, rng.uniform(0, 0.2))
        if state.exists():
            safetensors.read(state)
            assert checkpoint.read_run_state(state).step >= step, "steps were lost"
    finish(fork_training(config, broken, *settings, *(["--resume"] if state.exists() else [])))
    expected, found = (safetensors.read(out / state.name) for out in (straight, broken))
    assert expected.keys() == found.keys()
    assert all(np.array_equal(expected[name], found[name]) for name in expected), "the resumed run differs"
    assert leftovers(broken) == [], "temporary files were left behind"
    return kills


def kill_evaluations(folder: Path, count: int, seed: int) -> int:
    """Kill an evaluation `count` times. Its report must be missing or complete. Return how often it was killed."""
    rng = np.random.default_rng(seed)
    for part, shift in (("predictions", 1.0), ("ground-truth", 0.0)):
        for number in range(4):
            tree = random_tree(**TREE_ARGUMENTS | {"seed": number})
            moved = np.clip(tree.nodes + shift, 0, 128)
            treeformer.write(tree.replace(nodes=moved), folder / part / f"{number}.json")

    def evaluate(out: Path) -> Program:
        places = [
            folder / "predictions",
            folder / "ground-truth",
            "-o",
            out,
            "--workers",
            "1",
        ]  # the process itself writes
        return Program([sys.executable, "-m", "treeformer", "evaluate", *places])

    straight, out, kills = folder / "straight", folder / "out", 0
    finish(evaluate(straight))
    expected = visible(straight)
    for _ in range(count):
        kills += kill_after(evaluate(out), out, int(rng.integers(1, 6)), rng.choice([0.0, rng.uniform(0, 0.05)]))
        found = visible(out)
        assert all(expected[name] == content for name, content in found.items()), "a file of the report is not complete"
        for path in out.rglob("[!.]*"):  # so that the next process writes them again
            path.unlink()
    finish(evaluate(out))
    assert visible(out) == expected
    assert leftovers(out) == [], "temporary files were left behind"
    return kills


def training_config(folder: Path) -> Path:
    """Write four images of a stem with a branch, and a configuration that trains a tiny model on them."""
    side = 64
    images = folder / "trees"
    images.mkdir(parents=True)
    for number in range(4):
        nodes = [(32, 60), (28 + 3 * number, 32), (12, 12 + number), (50, 10)]
        edges = [(0, 1), (1, 2), (1, 3)]
        image = Image.new("RGB", (side, side), "white")
        for u, v in edges:
            ImageDraw.Draw(image).line([nodes[u], nodes[v]], fill="black", width=2)
        image.save(images / f"{number}.png")
        skeleton = Skeleton(nodes, edges, root=0, image_size=(side, side))
        treeformer.write(skeleton, images / f"{number}.json")
    source = {"path": str(images), "split": ""}
    settings = {
        "name": "kills",
        "model": "tiny",
        "model_options": {"tokens": 8, "denoising": False},
        "data": {"train": [source], "valid": [source], "image_size": side, "max_nodes": 8},
        "optimizer": {"learning_rate": 2e-3, "backbone_factor": 1.0, "warmup_steps": 5, "ema_decay": 0.9},
        "batch_size": 4,
        "score": "edge_f1",
        "precision": "32",
    }
    path = folder / "kills.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.kills", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="number of kills")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    training, evaluations = 2 * options.count // 5, options.count // 10
    with tempfile.TemporaryDirectory(prefix="treeformer-kills-") as name:
        for kind, kill, count in (
            ("prediction", kill_predictions, options.count - training - evaluations),
            ("training", kill_training, training),
            ("evaluation", kill_evaluations, evaluations),
        ):
            if count:
                kills = kill(Path(name) / kind, count, options.seed)
                print(f"{kind}: {count} processes, {kills} of them killed: nothing lost", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
