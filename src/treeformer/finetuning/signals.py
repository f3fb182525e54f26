"""Stop a run by Ctrl-C or SIGTERM after it has written a checkpoint."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from treeformer.finetuning.progress import Stop


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Turn SIGINT and SIGTERM into a request to stop, so that a checkpoint is written first.

    A second signal has its default effect. Outside the main thread, signals are left alone.

    Yields:
        The argument `should_stop` of `finetune`.
    """
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped.is_set
        return

    def request(number: int, _frame: object) -> None:
        stopped.set()
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
