"""The command line: parses, calls, prints. A user's mistake is one line on standard error and exit code 2."""

from __future__ import annotations

import io
import os
import sys

from treeformer.cli import datasets, demo, evaluation, models, prediction, skeletons, training
from treeformer.cli.common import INTERRUPTED, app, fail, say
from treeformer.errors import TreeformerError

__all__ = ["app", "main"]

# Each module registers its commands with `app` when it is imported. Imports stand in the order of the alphabet, the
# commands in `treeformer --help` in this one: what most people come for is first.
COMMANDS = (prediction, skeletons, evaluation, datasets, training, models, demo)
MODULES = [module.__name__ for module in COMMANDS]
app.registered_commands.sort(key=lambda command: MODULES.index(getattr(command.callback, "__module__", "")))


def main() -> None:
    """Entry point of the `treeformer` command."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As standard error does: what the place it goes to has no letter for stands there as its number.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except TreeformerError as error:
        fail(str(error))
    except BrokenPipeError:
        # The reader of our output has gone, as in `treeformer traits … | head`: not worth a word.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    except MemoryError:
        fail("not enough memory for this")
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, SystemExit) and stop.code != INTERRUPTED:  # Typer makes such an exit of Ctrl-C
            raise
        say("treeformer: stopped; every file that was finished is whole")
        sys.exit(INTERRUPTED)
