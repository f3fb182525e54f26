"""The `treeformer` command, also as `python -m treeformer`: nothing is imported before Ctrl-C is one line."""

from __future__ import annotations

import _thread
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> None:
    """Entry point."""
    sys.unraisablehook = _once_more
    try:
        from treeformer.cli import main as run

        run()
    except KeyboardInterrupt:
        _stop()
    except RuntimeError as error:
        if not isinstance(error.__cause__, KeyboardInterrupt):  # as where a class was being made, until Python 3.12
            raise
        _stop()


def _stop() -> NoReturn:
    print("treeformer: stopped", file=sys.stderr)
    sys.exit(130)  # as treeformer.cli does once it is imported


def _once_more(unraisable: sys.UnraisableHookArgs) -> None:
    """Where Python could only report an exception and go on, as in parts of an import, Ctrl-C comes a second time."""
    if unraisable.exc_type is KeyboardInterrupt:
        _thread.start_new_thread(_thread.interrupt_main, ())  # a moment later: it is not to be raised in here
    else:
        sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    main()
