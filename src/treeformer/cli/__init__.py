"""The command line. A user's mistake is one line on standard error and exit code 2."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import typer

from treeformer.cli import (
    cluster,
    datasets,
    demo,
    edit,
    evaluation,
    finetuning,
    models,
    prediction,
    series,
    skeletons,
    training,
)
from treeformer.cli.common import USAGE_ERROR, app, fail
from treeformer.errors import TreeformerError

__all__ = ["app", "main"]

# A wrong option or argument. Typer does not export this class, only one that is derived from it.
UsageError = cast("type[Exception]", typer.BadParameter.__mro__[1])

# Each module registers its commands with `app` on import. Imports are sorted by name; `treeformer --help` lists the
# commands in this order, the most common first.
COMMANDS = (prediction, cluster, edit, skeletons, series, evaluation, datasets, finetuning, training, models, demo)
MODULES = [module.__name__ for module in COMMANDS]
app.registered_commands.sort(key=lambda command: MODULES.index(getattr(command.callback, "__module__", "")))


def main() -> None:
    """Run the `treeformer` command. Ctrl-C is handled by the caller, `treeformer.__main__`."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As on standard error: characters that the terminal cannot show are printed as escape sequences.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.exit(app(standalone_mode=False))
    except UsageError as error:
        if len(sys.argv) == 1:  # the help has been printed
            sys.exit(USAGE_ERROR)
        fail(_name_with_dash(sys.argv[1:]) or _usage(error))
    except TreeformerError as error:
        fail(str(error))
    except BrokenPipeError:
        # The reader of the output has ended, as in `treeformer traits … | head`. That is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    except MemoryError:
        fail("not enough memory")


def _usage(error: Exception) -> str:
    """Return one line that says what is wrong with the options or arguments."""
    message = error.format_message()  # type: ignore[attr-defined]  # a method of UsageError
    message = message.replace(": Value error, ", ": ")  # words of a package that checks choices
    end = "" if message.endswith(("?", ".", ")")) else "."
    context = error.ctx  # type: ignore[attr-defined]  # an attribute of UsageError
    command = context.command_path if context else "treeformer"
    return f"{message[:1].lower()}{message[1:]}{end} See {command} --help"


def _name_with_dash(arguments: Sequence[str]) -> str:
    """Return a hint if a file whose name begins with a dash was taken for options, otherwise an empty text."""
    for name in arguments:
        try:
            is_file = name.startswith("-") and Path(name).exists()
        except (OSError, ValueError):  # too long for a file name
            continue
        if is_file:
            return f"the name {name} begins with a dash: write ./{name}"
    return ""
