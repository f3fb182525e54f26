"""Pools: results in order, prefetching, and no output on Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from treeformer._util.pools import batches, prefetch_map, process_pool, shared_bytes, thread_pool
from treeformer.errors import TreeformerError


def test_results_come_in_the_order_of_the_items():
    with thread_pool(3) as pool:
        assert list(prefetch_map(pool, lambda number: number**2, range(20), count=5)) == [
            number**2 for number in range(20)
        ]


def test_processes_return_results():
    with process_pool(1) as pool:
        assert list(pool.map(abs, [-3, 2])) == [3, 2]


def store(memory):
    store.memory = memory


def write_sevens(first, count):
    store.memory[first : first + count] = count * [7]


@pytest.mark.slow
def test_a_killed_process_raises_a_one_line_error():
    """The operating system kills processes if memory runs out."""
    with pytest.raises(TreeformerError, match="fewer workers"), process_pool(1) as pool:
        list(prefetch_map(pool, end_this_process, [1, 2, 3], 1))


def end_this_process(_: int) -> None:
    os._exit(1)


@pytest.mark.slow
def test_a_script_without_a_main_guard_gets_a_hint(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from treeformer._util.pools import process_pool\nwith process_pool(1) as p: p.submit(abs, 1).result()"
    )
    errors = subprocess.run([sys.executable, script], capture_output=True, text=True).stderr
    assert "__main__" in errors.splitlines()[-1]


@pytest.mark.slow
def test_processes_share_memory():
    memory = shared_bytes(6)
    with process_pool(1, store, memory) as pool:
        pool.submit(write_sevens, 2, 3).result()
    assert list(memory) == [0, 0, 7, 7, 7, 0]


def test_batches_contain_all_items():
    assert list(batches(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(batches([], 3)) == []


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a process group")
@pytest.mark.parametrize("delay_s", [0.02, 0.05, 0.1])
def test_starting_processes_print_nothing_on_ctrl_c(tmp_path, delay_s):
    script = tmp_path / "program.py"
    script.write_text(
        "import sys, time\n"
        "from treeformer._util.pools import process_pool\n"
        "if __name__ == '__main__':\n"
        "    with process_pool(3) as pool:\n"
        "        pool.submit(int)\n"
        "        print('started', flush=True)\n"
        "        time.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, script], start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "started\n"
        time.sleep(delay_s)  # while the new processes import modules
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert errors.strip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL and SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_the_one_that_started_them(tmp_path, number):
    script = tmp_path / "program.py"
    script.write_text(
        "import time\n"
        "from treeformer._util.pools import process_pool\n"
        "if __name__ == '__main__':\n"
        "    with process_pool(2) as pool:\n"
        "        list(pool.map(abs, range(2)))\n"
        "        print('started', flush=True)\n"
        "        time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, script], start_new_session=True, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "started\n"
        process.send_signal(number)
        process.communicate(timeout=600)  # returns when no process has its standard output open
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
