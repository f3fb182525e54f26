"""What all commands share: the app, progress bars, one line for a mistake, counts at the end of a batch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import treeformer

USAGE_ERROR = 2
INTERRUPTED = 130
ALL_CORES = os.cpu_count() or 1

Workers = Annotated[int, typer.Option(help="Processes that work at the same time; 0 or 1: this one alone.")]
BAR = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())

app = typer.Typer(
    name="treeformer",
    help="From an image of a plant to its skeleton: a tree of nodes and edges, never a broken graph.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def examples(*lines: str) -> str:
    """The epilog of a command's help; typer keeps paragraphs apart only where an empty line parts them."""
    return "\n\n".join(["[bold]Examples[/bold]", *lines])


def say(line: str) -> None:
    """One plain line on standard error, whatever line ends a file name has."""
    print(" ".join(line.splitlines()), file=sys.stderr)


def fail(line: str) -> NoReturn:
    """One line on standard error, and out."""
    say(f"treeformer: {line}")
    sys.exit(USAGE_ERROR)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error; yields a function of (done, total). Hidden where no one is watching."""
    screen = Console(stderr=True)
    with Progress(*BAR, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def finish(done: str, failures: Sequence[str], *, total: int) -> None:
    """Say what was done of `total`; where some of a batch failed, name each and leave with exit code 2."""
    for line in failures:
        say(f"treeformer: {line}")
    if total > 1 or not failures:
        say(done + (f", {len(failures)} failed" if failures else ""))
    if failures:
        sys.exit(USAGE_ERROR)


def counted(number: int, what: str) -> str:
    """'1 file', '2 files'."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"treeformer {treeformer.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """What stands before any command."""
