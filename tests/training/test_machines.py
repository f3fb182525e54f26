"""Training on two machines, as torchrun starts it; both are processes on this one."""

from __future__ import annotations

import socket
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.training.processes import ONE_THREAD, command
from treeformer.hub import safetensors
from treeformer.training import checkpoint
from treeformer.training.config import load_config
from treeformer.training.loop import train


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


@pytest.mark.slow
@pytest.mark.long
def test_torchrun_on_two_machines_gives_the_weights_of_one(config_file, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    settings = ["steps=3", "validate_every=2"]
    train(load_config(config_file, settings), one, accelerator="cpu")
    address = ("--master-addr", "127.0.0.1", "--master-port", str(free_port()))
    processes = []
    for rank in range(2):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
        training = command(config_file, two, *settings, "--devices", "1", "--machines", "2")[
            1:
        ]  # torchrun adds the interpreter
        processes.append(
            subprocess.Popen(
                [*torchrun, "--node-rank", str(rank), *address, *training], env=ONE_THREAD, stdout=subprocess.DEVNULL
            )
        )
    assert [process.wait(600) for process in processes] == [0, 0]
    assert checkpoint.read_run_state(two / "checkpoint.safetensors").step == 3
    expected, got = (safetensors.read(out / "checkpoint.safetensors") for out in (one, two))
    weights = [name for name in expected if name.startswith("model/") and expected[name].size > 99]
    assert weights
    # AdamW divides by the size of the gradient, so rounding errors of zero gradients become whole steps.
    assert np.mean([np.abs(expected[name] - got[name]).mean() for name in weights]) < 2e-4
