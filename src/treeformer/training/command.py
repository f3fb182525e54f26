"""The training command: one argument parser behind `treeformer train` and `python -m treeformer.training`.

It needs only argparse, so that training also starts on machines without the packages of the command line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from treeformer.errors import TreeformerError

Show = Callable[[int, int, dict[str, float]], None]  # (step, steps, figures by name)
Display = Callable[[int], AbstractContextManager[Show]]  # from the number of steps

SHOWN = ("loss", "images_per_s", "valid_topo_paper_f1", "valid_edge_f1", "valid_tree_rate")

EXAMPLES = """\
examples:
  treeformer train configs/paper-synthetic.yaml backbone_weights=resnet50.safetensors
  treeformer train configs/paper-synthetic.yaml data.workers=8 --max-minutes 60 -o runs/drawings
  treeformer train configs/paper-synthetic.yaml -o runs/drawings --resume
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser of the training command, which calls itself `prog`."""
    arguments = argparse.ArgumentParser(
        prog=prog,
        description="Train a model. It can be killed at any moment and resumed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_argument("config", type=Path, metavar="CONFIG", help="a YAML file, such as those in configs/")
    arguments.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="values to change, e.g. data.workers=8")
    arguments.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="by default runs/NAME")
    arguments.add_argument("--resume", action="store_true", help="continue from the checkpoint in that folder")
    arguments.add_argument(
        "--max-minutes", type=float, metavar="M", help="stop after M minutes; with --training-time, of this call alone"
    )
    arguments.add_argument(
        "--training-time", type=float, metavar="M", help="minutes of training steps alone, over all calls of the run"
    )
    arguments.add_argument("--accelerator", default="auto", help="auto (default), cpu or cuda")
    arguments.add_argument("--devices", type=int, default=1, metavar="N", help="GPUs or CPU processes per machine")
    arguments.add_argument("--machines", type=int, default=1, metavar="N", help="machines, under torchrun or SLURM")
    return arguments


@contextmanager
def lines(_steps: int) -> Iterator[Show]:
    """Show progress as one line per report on standard error."""
    yield lambda step, steps, figures: _say(f"step {step} of {steps}: {shown_figures(figures)}")


def shown_figures(figures: dict[str, float]) -> str:
    """Return the figures that a person follows during training, as text."""
    return ", ".join(f"{name} {figures[name]:.4g}" for name in SHOWN if name in figures)


def run(argv: Sequence[str], *, prog: str, display: Display = lines) -> None:
    """Parse the arguments and train.

    Args:
        argv: arguments without the program's name.
        prog: the name shown in the help and in usage errors.
        display: makes the function that shows progress.

    Raises:
        TreeformerError: for any mistake in the configuration or the run.
    """
    arguments = parser(prog).parse_intermixed_args(argv)
    from treeformer.training.config import load_config

    config = load_config(arguments.config, arguments.overrides)
    try:  # torch takes seconds to import
        from lightning.fabric.utilities.rank_zero import rank_zero_only

        from treeformer.training.loop import train
    except ModuleNotFoundError as error:
        raise TreeformerError(f"training needs {error.name}: pip install 'treeformer[train]'") from None
    folder = arguments.output or Path("runs") / config.name
    with display(config.steps) as show:
        progress = train(
            config,
            folder,
            resume=arguments.resume,
            max_minutes=arguments.max_minutes,
            training_minutes=arguments.training_time,
            accelerator=arguments.accelerator,
            devices=arguments.devices,
            machines=arguments.machines,
            show=show,
        )
    best = f"best {config.score} {progress.best_score:.4g} at step {progress.best_step}"
    rank_zero_only(_say)(f"step {progress.step}, {best}: {folder}")


def main() -> None:
    """Run `python -m treeformer.training`: a mistake is one line and exit code 2."""
    try:
        run(sys.argv[1:], prog="python -m treeformer.training")
    except TreeformerError as error:
        _say(f"treeformer: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
