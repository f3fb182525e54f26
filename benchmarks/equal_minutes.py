"""Compare what networks learn in equal minutes: with three backbones, or from three mixtures of images.

PYTHONPATH=src:. python -m benchmarks.equal_minutes resnet50.safetensors tinyvit.safetensors --minutes 9 -o runs/equal
PYTHONPATH=src:. python -m benchmarks.equal_minutes --table -o runs/equal
PYTHONPATH=src:. python -m benchmarks.equal_minutes resnet50.safetensors tinyvit.safetensors --compare data -o runs/data

The backbones are ResNet-50, TinyViT frozen, and TinyViT at 0.1. The mixtures are that of configs/default.yaml, this one
with composites, and with composites and hard negatives, each with two seeds; their photographs are the training split
of data/backgrounds (`treeformer prepare backgrounds`).

For a machine with one GPU and 16 cores. Renders plants into data/rendered, trains the three networks at the same time
on configs/default.yaml without renders of 3-D plants, and measures each on the validation images of every set. The only
wood in training is painted, so that the 190 vines of data/single-guyot (its training split) show what transfers to
photographs. Time is that of training steps, in which the runs share the GPU; compilation is not counted. --stop-after
pauses a call, and the next call with the same arguments goes on. Predictions are kept as RESULTS/predictions-NAME.zip.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from treeformer._util.cores import usable_cores
from treeformer._util.files import atomic_write

PRESETS = (
    *("taproot", "seedling", "several", "vine", "orchard", "plate"),
    *("orchard-row", "vineyard", "potted-shoot", "plate-rosette", "empty", "paper"),
)
LARGE_PRESETS, LARGE_PX, LARGE_SEED = ("plate", "orchard-row"), 1024, 50_000
COMPOSED_SEED = 40_000
# What the mixtures of `--compare data` add: trees and vines before photographs, and lines that are no plants.
COMPOSED = ("vine", "orchard", "orchard-row", "vineyard")
COMPOSITES = tuple(
    f'{{weight: {weight}, path: data/composites/{preset}, split: "", grid_px: 44{change}}}'
    for preset in COMPOSED
    for weight, change in ((4, ""), (3, ", augmentation: strong, zoom: [0.5, 2]"))
)
NEGATIVES = (
    '{weight: 6, path: data/rendered/cluttered-plate, split: "", grid_px: 44}',
    '{weight: 4, path: data/rendered/cluttered-plate, split: "", augmentation: strong, zoom: [0.5, 2], grid_px: 44}',
    "{weight: 6, path: data/backgrounds, split: train, augmentation: strong, zoom: [0.5, 2]}",
)
LEFT_OUT = ("data/blender/vineyard", "data/blender/orchard", "data/blender/potted")
TINYVIT = {"backbone": "tinyvit", "backbone_blocks": [2, 2, 6, 2]}


class Arm(NamedTuple):
    """A network: its backbone's weights, its options, its further sources of images, and the arm it is judged by."""

    weights: str
    options: dict[str, Any]
    added: tuple[str, ...] = ()
    seed: int = 0
    reference: str = "resnet"


BACKBONES = {
    "resnet": Arm("resnet", {}),
    "tinyvit-frozen": Arm("tinyvit", TINYVIT | {"frozen_stages": 4}),
    "tinyvit": Arm("tinyvit", TINYVIT),
}
MIXTURES = {"mixture": (), "composites": COMPOSITES, "negatives": COMPOSITES + NEGATIVES}
SEEDS = (0, 1)


def arms_of(args: argparse.Namespace) -> dict[str, Arm]:
    """Return the networks of a comparison by name."""
    if args.compare == "backbones":
        return BACKBONES
    backbone = BACKBONES[args.backbone]
    return {
        f"{name}-{seed}": backbone._replace(added=added, seed=seed, reference=f"mixture-{seed}")
        for seed in SEEDS
        for name, added in MIXTURES.items()
    }


DRAWINGS = "presets: [paper], styles: [paper]"
PAINTED = "taproot, seedling, several, vine, orchard, plate, orchard-row, vineyard, potted-shoot, plate-rosette"
WOOD = "vine, orchard, orchard-row, vineyard"
SETS = {
    "guyot": "{path: data/single-guyot, split: train, grid_px: 44, count: %d}",
    "osr": "{path: data/osr-roots, split: valid, grid_px: 44, count: %d}",
    "barley": "{path: data/barley-roots, split: valid, grid_px: 44, count: %d}",
    "drawings": "{presets: [paper], styles: [paper], split: valid, count: %d}",
    "painted": "{presets: [" + PAINTED + "], styles: [photo], split: valid, grid_px: 44, count: %d}",
    "painted-wood": "{presets: [" + WOOD + "], styles: [photo], split: valid, grid_px: 44, count: %d}",
}
COUNTS = {"guyot": 0, "osr": 0, "barley": 0, "drawings": 200, "painted": 120, "painted-wood": 80}
START_MINUTES = 0.6  # to load the networks and the images, and to write a checkpoint at the end of a call
MEASURE_MINUTES = 2.5  # to measure all networks at the same time
METRICS = ("topo_paper_f1", "topo_f1")
CHECKPOINT, BEST, LOG = "checkpoint.safetensors", "best.safetensors", "log.csv"
# Workers start no threads of their own.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def main() -> None:
    began = time.monotonic()
    args = arguments()
    args.output.mkdir(parents=True, exist_ok=True)
    if args.table:
        print(table(args))
    elif args.measure:
        measure(args, args.measure)
    else:
        prepare(args)
        compare(args, began)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("resnet", type=Path, nargs="?", help="weights of a ResNet-50, see docs/training.md")
    parser.add_argument("tinyvit", type=Path, nargs="?", help="weights of MobileSAM's image encoder")
    parser.add_argument("--minutes", type=float, default=9.0, help="minutes of training steps per network")
    parser.add_argument("--stop-after", type=float, default=1e6, metavar="M", help="end this call after M minutes")
    parser.add_argument("--images", type=int, default=600, help="images to render per preset")
    parser.add_argument("--valid", type=int, default=0, help="largest number of images per validation set, 0 for all")
    parser.add_argument("--compare", choices=("backbones", "data"), default="backbones")
    parser.add_argument("--backbone", choices=BACKBONES, default="resnet", help="backbone of --compare data")
    parser.add_argument("--arms", nargs="+", metavar="NAME", help="networks to train, by default all")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="further values of all runs")
    parser.add_argument("--measure", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--table", action="store_true", help="only print the table of the results in the output folder")
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    args.arms = args.arms or list(arms_of(args))
    return args


def prepare(args: argparse.Namespace) -> None:
    """Render the training images, while each network is compiled by a few steps on drawings."""
    from treeformer.data.generate import generate

    few = [f"data.train=[{{weight: 1, {DRAWINGS}}}]", "data.exclude=[]", "steps=4", "data.workers=2"]
    compiling = [
        start(args, name, folder, few)
        for name in args.arms
        if not (folder := args.output / f"compiled-{name}").exists()
    ]
    options: dict[str, Any] = {"suffix": "jpg", "workers": usable_cores()}
    for preset in PRESETS:
        generate(Path("data/rendered", preset), preset=preset, style="photo", count=args.images, **options)
    for preset in LARGE_PRESETS:
        folder, size = Path("data/rendered", f"{preset}-{LARGE_PX}"), (LARGE_PX, LARGE_PX)
        generate(folder, preset=preset, style="photo", count=args.images // 3, seed=LARGE_SEED, size=size, **options)
    if args.compare == "data":
        generate(
            Path("data/rendered/cluttered-plate"), preset="cluttered-plate", style="photo", count=args.images, **options
        )
        for preset in COMPOSED:
            folder = Path("data/composites", preset)
            options["backgrounds"] = "data/backgrounds/train"
            generate(folder, preset=preset, style="photo", count=args.images, seed=COMPOSED_SEED, **options)
    finish(compiling)


def compare(args: argparse.Namespace, began: float) -> None:
    """Train the networks at the same time, until the time of this call is over, then measure those that have ended."""
    limit = max(0.1, args.stop_after - START_MINUTES - (time.monotonic() - began) / 60)
    waiting = [name for name in args.arms if not has_ended(args, name)]
    finish(
        [
            start(
                args, name, args.output / name, [], ["--training-time", f"{args.minutes}", "--max-minutes", f"{limit}"]
            )
            for name in waiting
        ]
    )
    left = args.stop_after - (time.monotonic() - began) / 60
    if left < MEASURE_MINUTES or not all(has_ended(args, name) for name in args.arms):
        print("paused: the same command goes on", flush=True)
        return
    command = [sys.executable, "-m", "benchmarks.equal_minutes", *sys.argv[1:]]
    missing = [name for name in args.arms if not (args.output / f"{name}.json").exists()]
    finish([subprocess.Popen([*command, "--measure", name], env=ENVIRONMENT) for name in missing])
    text = table(args)
    with atomic_write(args.output / "table.md") as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    print(text, flush=True)


def overrides(args: argparse.Namespace, name: str) -> list[str]:
    """Return the values of a network that differ from configs/default.yaml."""
    arm = arms_of(args)[name]
    sources = yaml.safe_load(Path("configs/default.yaml").read_text(encoding="utf-8"))["data"]["train"]
    sources += [yaml.safe_load(text) for text in arm.added]
    return [
        *('start_from=""', f"backbone_weights={getattr(args, arm.weights)}", f"name={name}", f"seed={arm.seed}"),
        f"data.train={json.dumps(sources)}",
        *("data.crowded_every=0", f"data.exclude=[{', '.join(LEFT_OUT)}]", "batch_size=64", "checkpoint_minutes=2"),
        *("optimizer.learning_rate=5e-4", f"data.workers={max(1, (usable_cores() - 1) // len(args.arms))}"),
        f"data.valid=[{{{DRAWINGS}, split: valid, count: 2}}]",
        f"model_options={json.dumps({'node_threshold': 0.3, 'tokens': 192} | arm.options)}",
        *args.set,
    ]


def start(
    args: argparse.Namespace, name: str, folder: Path, values: Sequence[str], options: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """Start a run, or resume it; its messages are appended to a file beside its folder."""
    resume = ["--resume"] if (folder / CHECKPOINT).exists() else []
    command = [sys.executable, "-m", "treeformer.training", "configs/default.yaml", "-o", str(folder)]
    log = (folder.parent / f"{folder.name}.txt").open("ab")
    return subprocess.Popen(
        [*command, *overrides(args, name), *values, *options, *resume], env=ENVIRONMENT, stdout=log, stderr=log
    )


def finish(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait for processes, and end this one if one of them failed."""
    codes = [process.wait() for process in processes]
    if any(codes):
        sys.exit(f"a run failed (exit codes {codes}), see the .txt files in the output folder")


def has_ended(args: argparse.Namespace, name: str) -> bool:
    """Return True if a network has been trained for its minutes."""
    from treeformer.training import checkpoint

    path = args.output / name / CHECKPOINT
    state = checkpoint.read_run_state(path) if path.exists() else None
    return state is not None and state.training_seconds >= 60 * args.minutes


def measure(args: argparse.Namespace, name: str) -> None:
    """Measure a network on every set. Write its metrics per image as NAME.json, its predictions as a ZIP file."""
    import torch

    from treeformer import formats
    from treeformer.models.export import load_trained
    from treeformer.training import checkpoint
    from treeformer.training.config import load_config
    from treeformer.training.validation import Validator

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model: Any = load_trained(args.output / name / BEST).to(device)
    predictions = args.output / f"predictions-{name}"
    decode, rows = model.decode, {}
    for title, source in SETS.items():
        count = min(args.valid or 10**6, COUNTS[title] or 10**6)
        text = source.replace("%d", str(count if count < 10**6 else 0))
        config = load_config("configs/default.yaml", [*overrides(args, name), f"data.valid=[{text}]"])
        folder = predictions / title
        folder.mkdir(parents=True, exist_ok=True)
        found: list[Any] = []

        def record(output: Any, found: list[Any] = found, **options: Any) -> Any:
            decoded = decode(output, **options)
            found += decoded
            return decoded

        model.decode = record
        # Crowded images need more tokens than those of training.
        with Validator(replace(config, data=replace(config.data, crowded_every=1)), device) as validator:
            rows[title] = validator.evaluate(model)[""]
            print(f"{name}: {title}, {len(rows[title])} of {len(validator.images)} images", flush=True)
        for index, skeleton in enumerate(found):
            formats.write(skeleton, folder / f"{index:03d}.json")
    shutil.make_archive(str(predictions), "zip", predictions)
    state = checkpoint.read_run_state(args.output / name / CHECKPOINT)
    assert state is not None
    result = {
        "steps": state.step,
        "images": state.position,
        "training_minutes": state.training_seconds / 60,
        "images_per_s": state.position / state.training_seconds,
        "logged": last_figures(args.output / name / LOG),
        "rows": rows,
    }
    with atomic_write(args.output / f"{name}.json") as temporary:
        temporary.write_text(json.dumps(result), encoding="utf-8")


def last_figures(log: Path) -> dict[str, float]:
    """Return the last value of each figure of a run."""
    with log.open(newline="", encoding="utf-8") as file:
        return {row["figure"]: float(row["value"]) for row in csv.DictReader(file)}


def table(args: argparse.Namespace) -> str:
    """Return the figures of all networks, and the differences from their references with their 95 % intervals."""
    from treeformer.metrics.evaluation import differences, mean_metrics

    arms = arms_of(args)
    results = {name: json.loads(path.read_text()) for name in arms if (path := args.output / f"{name}.json").exists()}
    lines = ["| network | steps | images | images/s | minutes |", "| --- | --- | --- | --- | --- |"]
    for name, result in results.items():
        speed = f"{result['images_per_s']:.0f} | {result['training_minutes']:.2f}"
        lines.append(f"| {name} | {result['steps']} | {result['images']} | {speed} |")
    lines += ["", "| set | images | " + " | ".join(results) + " |", "| --- " * (len(results) + 2) + "|"]
    for title in SETS:
        cells = []
        for name, result in results.items():
            rows, reference = result["rows"][title], results.get(arms[name].reference, result)["rows"][title]
            if not rows:
                cells.append("none")
                continue
            found = mean_metrics(rows)
            cell = " / ".join(f"{found[metric]:.3f}" for metric in METRICS)
            if name != arms[name].reference:
                change = differences(rows, reference)["topo_f1"]
                cell += f" ({change.value:+.3f}, {change.low:+.3f} to {change.high:+.3f})"
            cells.append(cell)
        count = len(next(iter(results.values()))["rows"][title])
        lines.append(f"| {title} | {count} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
