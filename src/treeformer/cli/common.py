"""Shared by all commands: the app, progress bars, error messages, and the summary of a batch."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import treeformer
from treeformer._util.cores import usable_cores
from treeformer._util.progress import ProgressCallback
from treeformer.results import ChoiceWarning

USAGE_ERROR = 2
ALL_CORES = usable_cores()
MAX_LISTED = 5  # names of files in a message

Workers = Annotated[int, typer.Option(help="Number of parallel processes. 0 and 1 use a single process.")]
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
    """Return the epilog of a command's help. Typer needs an empty line between the examples to keep them apart."""
    return "\n\n".join(["[bold]Examples[/bold]", *lines])


def say(line: str) -> None:
    """Print one line on standard error. Line breaks, as in a file name, become spaces."""
    print(" ".join(line.splitlines()), file=sys.stderr)


@contextmanager
def say_choices() -> Iterator[None]:
    """Within the block, say which of several skeleton files of an image a data set uses."""
    show = warnings.showwarning

    def show_line(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
        if issubclass(category, ChoiceWarning):
            say(f"treeformer: {message}")
        else:
            show(message, category, *place, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("always", ChoiceWarning)
        warnings.showwarning = show_line
        yield


def fail(line: str) -> NoReturn:
    """Print an error message of one line on standard error and exit."""
    say(f"treeformer: {line}")
    sys.exit(USAGE_ERROR)


@contextmanager
def progress(title: str) -> Iterator[ProgressCallback]:
    """Show a progress bar on standard error, if that is a terminal. Yield a function of (done, total)."""
    console = Console(stderr=True)
    with Progress(*BAR, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def finish(done: str, failures: Sequence[str], *, total: int) -> None:
    """Print the summary of a batch. If some items failed, print each failure and exit with code 2."""
    for line in failures:
        say(f"treeformer: {line}")
    if total > 1 or not failures:
        say(done + (f", {len(failures)} failed" if failures else ""))
    if failures:
        sys.exit(USAGE_ERROR)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which is given in the singular.

    Example:
        >>> counted(1, "file"), counted(2, "file")
        ('1 file', '2 files')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(files: Sequence[Path]) -> str:
    """Return the names of the first files, and how many more there are."""
    more = f" and {len(files) - MAX_LISTED} more" if len(files) > MAX_LISTED else ""
    return f"{', '.join(file.name for file in files[:MAX_LISTED])}{more}"


def _print_version(requested: bool) -> None:
    if requested:
        print(f"treeformer {treeformer.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options before the command."""
