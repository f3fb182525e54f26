"""Cores that a process may use."""

from __future__ import annotations

import os

import pytest

from treeformer._util.cores import usable_cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_a_process_that_is_bound_to_one_core_uses_one():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert usable_cores() == len(before)
