"""The `treeformer` command, also `python -m treeformer`; Ctrl-C prints one line, even while modules are imported."""

from __future__ import annotations

import _thread
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130  # the exit code of a program that SIGINT ended, as a shell reports it


def main() -> None:
    """Run the command line."""
    sys.unraisablehook = _interrupt_again
    try:
        from treeformer.cli import main as run

        run()
    except KeyboardInterrupt:
        _stop()
    except SystemExit as stop:
        if stop.code != INTERRUPTED:  # Typer turns Ctrl-C into this exit
            raise
        _stop()
    except RuntimeError as error:
        if not isinstance(
            error.__cause__, KeyboardInterrupt
        ):  # until Python 3.12: interrupted while a class was created
            raise
        _stop()


def _stop() -> NoReturn:
    _ignore_interrupts()
    print("treeformer: stopped; all files written so far are complete", file=sys.stderr)
    sys.exit(INTERRUPTED)


def _ignore_interrupts() -> None:
    """Ignore another Ctrl-C from now on, so that it does not end the last line with a traceback."""
    while True:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except KeyboardInterrupt:  # it arrived before this call
            continue
        return


def _interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise Ctrl-C again if Python could only report it and continue, as in parts of an import."""
    if unraisable.exc_type is KeyboardInterrupt:
        _thread.start_new_thread(_thread.interrupt_main, ())  # from a thread: it must not be raised in this hook
    else:
        sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    main()
