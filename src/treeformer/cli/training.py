"""The command `train`, which passes its arguments on to `treeformer.training.command`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import Progress

from treeformer.cli.common import BAR, app, say, say_choices
from treeformer.training.command import Show, format_figures, run


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def train(context: typer.Context) -> None:
    """Train a model. A run can be killed at any moment and resumed."""
    with say_choices():
        run(context.args, prog="treeformer train", display=_progress_bar)


@contextmanager
def _progress_bar(steps: int) -> Iterator[Show]:
    """Show a progress bar on a terminal, one line per report otherwise."""
    console = Console(stderr=True)
    with Progress(*BAR, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("training", total=steps)

        def show(step: int, _steps: int, figures: dict[str, float]) -> None:
            text = format_figures(figures)
            bar.update(task, completed=step, description=text)
            if not console.is_terminal:
                say(f"step {step}: {text}")

        yield show
