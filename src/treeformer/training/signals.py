"""Deferred signals: a run finishes its step and writes a checkpoint before it stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class DeferredSignals:
    """Note Ctrl-C and SIGTERM instead of acting on them.

    Attributes:
        received: whether a signal has asked the run to stop.
    """

    def __init__(self) -> None:
        self.received = False

    @contextmanager
    def defer(self) -> Iterator[None]:
        """Note the first signal. A second one acts at once. Do nothing outside of the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def handle(number: int, _frame: Any) -> None:
            self.received = True
            signal.signal(number, before[signal.Signals(number)])

        for number in before:
            signal.signal(number, handle)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
