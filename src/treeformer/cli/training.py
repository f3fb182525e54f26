"""Commands that train: train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from treeformer.cli.common import BAR, app, examples, say
from treeformer.errors import TreeformerError

SHOWN = ("loss", "images_per_s", "valid_topo_paper_f1", "valid_edge_f1", "valid_tree_rate")


@app.command(
    epilog=examples(
        "treeformer train configs/paper-synthetic.yaml backbone_weights=resnet50.safetensors",
        "treeformer train configs/paper-synthetic.yaml data.workers=8 --max-time 60 -o runs/drawings",
        "treeformer train configs/paper-synthetic.yaml -o runs/drawings --resume",
    )
)
def train(
    config: Annotated[Path, typer.Argument(help="A YAML file, such as those in configs/.")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]…", help="Values to change.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder; by default runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in that folder.")] = False,
    max_time: Annotated[float | None, typer.Option(help="Minutes after which to stop.")] = None,
    accelerator: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    devices: Annotated[int, typer.Option(help="GPUs (or CPU processes) on each machine.")] = 1,
    machines: Annotated[int, typer.Option(help="Machines that train together, under torchrun or SLURM.")] = 1,
) -> None:
    """Train a model; it can be killed at any moment and resumed."""
    from treeformer.training.config import load_config

    settings = load_config(config, overrides or [])
    try:
        from lightning.fabric.utilities.rank_zero import rank_zero_only

        from treeformer.training.loop import train as run
    except ModuleNotFoundError as error:
        raise TreeformerError(f"training needs {error.name}: pip install 'treeformer[train]'") from None
    folder = output or Path("runs") / settings.name
    console = Console(stderr=True)
    with Progress(*BAR, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("training", total=settings.steps)

        def show(step: int, _steps: int, figures: dict[str, float]) -> None:
            text = ", ".join(f"{name} {figures[name]:.4g}" for name in SHOWN if name in figures)
            bar.update(task, completed=step, description=text)
            if not console.is_terminal:
                say(f"step {step}: {text}")

        progress = run(
            settings,
            folder,
            resume=resume,
            max_minutes=max_time,
            accelerator=accelerator,
            devices=devices,
            machines=machines,
            show=show,
        )
    first_process_says = rank_zero_only(say)
    best = f"best {settings.score} {progress.best_score:.4g} at step {progress.best_step}"
    first_process_says(f"step {progress.step}, {best}: {folder}")
