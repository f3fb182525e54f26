"""The `treeformer` command, also `python -m treeformer`; Ctrl-C prints one line, even while modules are imported."""

from __future__ import annotations

import _thread
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> None:
    """Run the command line."""
    sys.unraisablehook = _interrupt_again
    try:
        from treeformer.cli import main as run

        run()
    except KeyboardInterrupt:
        _stop()
    except RuntimeError as error:
        if not isinstance(
            error.__cause__, KeyboardInterrupt
        ):  # until Python 3.12: interrupted while a class was created
            raise
        _stop()


def _stop() -> NoReturn:
    print("treeformer: stopped", file=sys.stderr)
    sys.exit(130)  # the same exit status as in treeformer.cli


def _interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise Ctrl-C again if Python could only report it and continue, as in parts of an import."""
    if unraisable.exc_type is KeyboardInterrupt:
        _thread.start_new_thread(_thread.interrupt_main, ())  # from a thread: it must not be raised in this hook
    else:
        sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    main()
