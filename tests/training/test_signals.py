"""Signals that a run notes and acts on after its step."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from treeformer.training.signals import DeferredSignals


@pytest.mark.skipif(os.name != "posix", reason="sends signals to a process")
def test_a_second_sigterm_ends_the_process():
    before, signals = signal.getsignal(signal.SIGTERM), DeferredSignals()
    with signals.defer():
        signal.raise_signal(signal.SIGTERM)
        assert signals.received
        assert signal.getsignal(signal.SIGTERM) == before == signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.skipif(os.name != "posix", reason="sends signals to a process")
def test_the_first_signal_is_noted_and_the_second_acts_at_once():
    handler, signals = signal.getsignal(signal.SIGINT), DeferredSignals()
    with pytest.raises(KeyboardInterrupt), signals.defer():
        assert not signals.received
        signal.raise_signal(signal.SIGINT)
        assert signals.received
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is handler


def test_another_thread_leaves_the_handlers_alone():
    handlers: list[object] = []

    def look() -> None:
        with DeferredSignals().defer():
            handlers.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == [before]
