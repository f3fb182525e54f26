"""Compare options for training by their F1 after the same minutes of training steps, from an ImageNet backbone.

PYTHONPATH=src python benchmarks/training_options.py resnet50.safetensors --minutes 4 -o runs/options

For a machine with one GPU and 16 cores, about 20 minutes. Renders plants into data/rendered, trains the configurations
one after the other with configs/default.yaml, and prints a table. Meanwhile, each network is compiled once, so that the
runs find its code. Only runs that have not ended are started by a second call. data/osr-roots has to be prepared, and
the validation images of data/barley-roots; barley and renders with Blender are not trained on.
"""

from __future__ import annotations

import argparse
import csv
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from treeformer._util.cores import usable_cores
from treeformer.data.generate import generate

PRESETS = (
    *("taproot", "seedling", "several", "vine", "orchard", "plate"),
    *("orchard-row", "vineyard", "potted-shoot", "plate-rosette", "empty", "paper"),
)
LARGE_PRESETS, LARGE_PX, LARGE_SEED = ("plate", "orchard-row"), 1024, 50_000
# Folders of configs/default.yaml that are left out: other licenses, or an hour of rendering.
LEFT_OUT = ("data/barley-roots", "data/blender/vineyard", "data/blender/orchard", "data/blender/potted")
VARIANTS = {
    "none": [],
    # Half of the time at 1,367 images/s.
    "384 px in the first half": ["data.warmup_image_size=384", "data.warmup_image_steps={early}"],
    "object tokens do not read the finest level": [
        "model_options={node_threshold: 0.3, tokens: 192, decoder_min_stride: 8}"
    ],
}
EARLY_STEPS_PER_MINUTE = 320
DRAWINGS = "presets: [paper], styles: [paper]"
# Workers start no threads of their own.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
FIGURES = ("valid_topo_paper_f1", "valid_topo_f1", "waiting_for_images")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backbone", type=Path, help="ImageNet weights, see docs/training.md")
    parser.add_argument("--minutes", type=float, default=4.0, help="minutes of training steps per run")
    parser.add_argument("--count", type=int, default=1500, help="images to render per preset")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="NAME")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="further values of all runs")
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    compiling = compile_all(args)
    options: dict[str, Any] = {"suffix": "jpg", "workers": usable_cores()}
    for preset in PRESETS:
        generate(Path("data/rendered", preset), preset=preset, style="photo", count=args.count, **options)
    for preset in LARGE_PRESETS:
        folder, size = Path("data/rendered", f"{preset}-{LARGE_PX}"), (LARGE_PX, LARGE_PX)
        generate(folder, preset=preset, style="photo", count=args.count // 3, seed=LARGE_SEED, size=size, **options)
    compiling.wait()
    for name in args.variants:
        if not (args.output / name / "ended").exists():
            time_limit = ["--training-time", f"{args.minutes:g}"]
            left_out = [f"data.exclude=[{', '.join(LEFT_OUT)}]"]
            subprocess.run(
                command(args, name, args.output / name, [*left_out, *time_limit]), env=ENVIRONMENT, check=True
            )
            (args.output / name / "ended").touch()
        print(table(args.output, args.variants), flush=True)


def command(args: argparse.Namespace, name: str, folder: Path, options: list[str]) -> list[str]:
    """Return the command of a run."""
    early = str(round(EARLY_STEPS_PER_MINUTE * args.minutes))
    values = [value.replace("{early}", early) for value in VARIANTS[name]]
    return [
        *(sys.executable, "-m", "treeformer.training", "configs/default.yaml", "-o", str(folder)),
        *('start_from=""', f"backbone_weights={args.backbone}", "optimizer.learning_rate=5e-4", "data.crowded_every=0"),
        *values,
        *options,
        *args.set,
        *(["--resume"] if (folder / "checkpoint.safetensors").exists() else []),
    ]


def table(output: Path, names: list[str]) -> str:
    """Return a Markdown table of the runs that have ended."""
    lines = ["| options | steps | images/s | F1 | waiting for images |", "| --- | --- | --- | --- | --- |"]
    for name in names:
        if (output / name / "ended").exists():
            steps, rate, figures = read_log(output / name / "log.csv")
            f1 = " / ".join(f"{figures[key]:.3f}" for key in FIGURES[:2])
            lines.append(f"| {name} | {steps:,} | {rate:,.0f} | {f1} | {figures[FIGURES[2]]:.1%} |")
    return "\n".join(lines)


def read_log(path: Path) -> tuple[int, float, dict[str, float]]:
    """Return the last step, the median images/s, and the last value of each figure."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rates = sorted(float(row["value"]) for row in rows if row["figure"] == "images_per_s")
    return int(rows[-1]["step"]), rates[len(rates) // 2], {row["figure"]: float(row["value"]) for row in rows}


def compile_all(args: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Begin to compile every network, one after the other, by a few steps on drawings."""
    few = [f"data.train=[{{weight: 1, {DRAWINGS}}}]", f"data.valid=[{{{DRAWINGS}, split: valid, count: 2}}]"]
    lines = []
    for number, name in enumerate(args.variants):
        folder = args.output / f"compiled-{number}"
        if not folder.exists() and not (args.output / name / "ended").exists():
            early = ["data.warmup_image_steps=3"] if any("early" in value for value in VARIANTS[name]) else []
            lines.append(shlex.join([*command(args, name, folder, [*few, "steps=4", "data.workers=2", *early])]))
    return subprocess.Popen("; ".join(lines) or "true", shell=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
