"""`python -m treeformer.training CONFIG.yaml OUT [key=value …]`: training without the packages of the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from treeformer.errors import TreeformerError


def main() -> None:
    """Parse the arguments, train, print a line now and then."""
    parser = argparse.ArgumentParser(prog="python -m treeformer.training", description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("overrides", nargs="*", help="key=value, e.g. data.workers=8")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in OUT")
    parser.add_argument("--max-time", type=float, help="minutes; with --training-time those of this piece of the run")
    parser.add_argument("--training-time", type=float, help="minutes of the steps alone, over all pieces of the run")
    parser.add_argument("--accelerator", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--devices", type=int, default=1, help="processes on each machine")
    parser.add_argument("--machines", type=int, default=1)
    arguments = parser.parse_intermixed_args()
    try:  # torch takes seconds to import, in which Ctrl-C has to be silent, too
        from treeformer.training.config import load_config
        from treeformer.training.loop import train

        config = load_config(arguments.config, arguments.overrides)
        train(
            config,
            arguments.out,
            resume=arguments.resume,
            max_minutes=arguments.max_time,
            training_minutes=arguments.training_time,
            accelerator=arguments.accelerator,
            devices=arguments.devices,
            machines=arguments.machines,
            show=show,
        )
    except TreeformerError as error:
        sys.exit(f"treeformer: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def show(step: int, steps: int, figures: dict[str, float]) -> None:
    """One line."""
    print(f"{step}/{steps} " + " ".join(f"{name}={value:.4g}" for name, value in figures.items()), flush=True)


if __name__ == "__main__":
    main()
