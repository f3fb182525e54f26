"""The training command: one argument parser behind `treeformer train` and `python -m treeformer.training`.

It needs only argparse, so that training also starts on machines without the packages of the command line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from treeformer._util.arguments import OneLineParser
from treeformer.errors import TreeformerError

Show = Callable[[int, int, dict[str, float]], None]
"""Shows progress. Called with the step, the number of steps, and figures by name."""
Display = Callable[[int], AbstractContextManager[Show]]
"""Makes a `Show` for a number of steps, for the duration of a `with` block."""

SHOWN_FIGURES = ("loss", "images_per_s", "valid_topo_paper_f1", "valid_edge_f1", "valid_tree_rate")

EXAMPLES = """\
examples:
  treeformer train configs/paper-synthetic.yaml backbone_weights=resnet50.safetensors
  treeformer train configs/paper-synthetic.yaml data.workers=8 --max-minutes 60 -o runs/drawings
  treeformer train configs/paper-synthetic.yaml -o runs/drawings --resume
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser of the training command. `prog` is the program's name in the help."""
    arguments = OneLineParser(
        prog=prog,
        description="Train a model. A run can be killed at any moment and resumed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_argument("config", type=Path, metavar="CONFIG", help="YAML file, such as those in configs/")
    arguments.add_argument(
        "overrides",
        nargs="*",
        default=[],  # otherwise a message lists them as required
        metavar="KEY=VALUE",
        help="change values of the file, such as data.workers=8",
    )
    arguments.add_argument(
        "-o", "--output", type=Path, metavar="FOLDER", help="folder for checkpoints and logs (default: runs/NAME)"
    )
    arguments.add_argument("--resume", action="store_true", help="continue from the checkpoint in the output folder")
    arguments.add_argument(
        "--max-minutes",
        type=float,
        metavar="M",
        help="stop after M minutes in total; with --training-time, pause this call after M minutes",
    )
    arguments.add_argument(
        "--training-time",
        type=float,
        metavar="M",
        help="stop after M minutes of training steps, over all calls of the run",
    )
    arguments.add_argument("--accelerator", default="auto", help="auto, cpu or cuda (default: auto)")
    arguments.add_argument(
        "--devices", type=int, default=1, metavar="N", help="number of GPUs or CPU processes per machine (default: 1)"
    )
    arguments.add_argument(
        "--machines", type=int, default=1, metavar="N", help="number of machines, under torchrun or SLURM (default: 1)"
    )
    return arguments


@contextmanager
def print_lines(_steps: int) -> Iterator[Show]:
    """Show progress as one line per report on standard error."""
    yield lambda step, steps, figures: _say(f"step {step} of {steps}: {format_figures(figures)}")


def format_figures(figures: dict[str, float]) -> str:
    """Return the most important figures as text."""
    return ", ".join(f"{name} {figures[name]:.4g}" for name in SHOWN_FIGURES if name in figures)


def run(argv: Sequence[str], *, prog: str, display: Display = print_lines) -> None:
    """Parse the arguments and train."""
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
        state = train(
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
    best = f"best {config.score} {state.best_score:.4g} at step {state.best_step}"
    rank_zero_only(_say)(f"step {state.step}, {best}: {folder}")


def main() -> None:
    """Run `python -m treeformer.training`. A mistake is one line on standard error and exit code 2."""
    try:
        run(sys.argv[1:], prog="python -m treeformer.training")
    except TreeformerError as error:
        _say(f"treeformer: {error}")
        sys.exit(2)
    except OSError as error:  # a log that cannot be written, for example
        _say(f"treeformer: {error.filename or 'a file'}: {error.strerror or error}")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
