"""Runs that are stopped or finished, and then resumed: no work is lost or repeated. `tests.fuzz.kills` kills runs."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.training.processes import signal_group, start_training, training_arguments
from treeformer._util.locks import sole_lock
from treeformer.errors import TreeformerError
from treeformer.hub import safetensors
from treeformer.training import checkpoint
from treeformer.training.checkpoint import CheckpointError
from treeformer.training.command import main
from treeformer.training.config import load_config
from treeformer.training.loop import TrainingError, TrainingRun, train

pytestmark = pytest.mark.slow


@pytest.mark.skipif(os.name != "posix", reason="sends signals to processes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_processes_ends_the_step_and_leaves_a_checkpoint(config_file, tmp_path, monkeypatch, number):
    """The signal arrives in the third step, here and in the process that loads images."""
    step, out, others = TrainingRun._step, tmp_path / "out", set(multiprocessing.active_children())

    def interrupted(run, *arguments):
        if run.state.step == 2:
            workers = set(multiprocessing.active_children()) - others
            assert workers
            for process_id in (*(worker.pid for worker in workers), os.getpid()):
                os.kill(process_id, number)
        return step(run, *arguments)

    monkeypatch.setattr(TrainingRun, "_step", interrupted)
    settings = ("steps=100000", "validate_every=100000", "data.workers=1")
    monkeypatch.setattr(sys, "argv", ["train", *training_arguments(config_file, out, *settings)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    state = checkpoint.read_run_state(out / "checkpoint.safetensors")
    assert (state.step, state.position) == (3, 12)
    assert set(multiprocessing.active_children()) <= others, "a worker process is left"


@pytest.mark.skipif(os.name != "posix", reason="sends signals to a process group")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_last_validation_loses_nothing(config_file, tmp_path, number):
    """Terminals and schedulers also send it to the worker processes that load images and compute metrics."""
    out = tmp_path / "out"
    run = start_training(config_file, out, "steps=2", "validate_every=1000", "data.workers=1")
    signal_group(number, (out / "checkpoint.safetensors").exists, run)
    assert checkpoint.read_run_state(out / "checkpoint.safetensors").step == 2
    assert "valid_edge_f1" in (out / "log.csv").read_text()


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to a process")
def test_a_worker_ignores_the_first_sigterm_only():
    """Otherwise Python would wait forever, at its exit, for a worker that does not end by itself."""
    code = "import time, treeformer._util.pools as p; p.ignore_signals(); print(flush=True); time.sleep(999)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as worker:
        worker.stdout.readline()
        worker.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(0.5)
        worker.terminate()
        assert worker.wait(600) == -signal.SIGTERM


def test_a_validation_that_fails_loses_nothing(config_file, tmp_path):
    def broken(_model):
        raise RuntimeError("no figures")

    with pytest.raises(RuntimeError, match="no figures"):
        train(load_config(config_file, ["steps=3"]), tmp_path / "out", accelerator="cpu", measure=broken)
    assert checkpoint.read_run_state(tmp_path / "out" / "checkpoint.safetensors").step == 3


@pytest.mark.parametrize("file", ["best", "checkpoint"])
def test_a_full_disk_is_one_line_with_the_file(config_file, tmp_path, monkeypatch, file):
    def full(path, *content, write=safetensors.write):
        if path.stem == file:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, *content)

    monkeypatch.setattr(safetensors, "write", full)
    config = load_config(config_file, ["steps=1"])
    with pytest.raises(CheckpointError, match=rf"out/{file}\.safetensors: cannot be written \(No space left"):
        train(config, tmp_path / "out", accelerator="cpu", measure=lambda _model: {"edge_f1": 0.5})


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        (["steps=3"], {}),
        (["steps=9"], {"max_minutes": 1e-6}),
        (["steps=9", "validate_every=1", "patience_epochs=1", "epoch_images=4"], {}),
    ],
)
def test_a_finished_run_is_reported_and_not_changed(config_file, tmp_path, capsys, settings, limits):
    config, out = load_config(config_file, settings), tmp_path / "out"
    first = train(config, out, accelerator="cpu", measure=lambda _model: {"edge_f1": 0.5}, **limits)
    before = contents(out)
    again = train(config, out, accelerator="cpu", resume=True, **limits)
    assert again == first
    assert contents(out) == before
    assert capsys.readouterr().out.splitlines() == [
        f"{out}: finished at step {first.step}; allow more steps or time to continue"
    ]
    longer = replace(config, steps=first.step + 1, patience_epochs=0)
    assert train(longer, out, accelerator="cpu", resume=True).step == first.step + 1


def test_a_resumed_run_removes_the_temporary_files_of_a_killed_one(config_file, tmp_path):
    config, out = replace(load_config(config_file), steps=1), tmp_path / "out"
    train(config, out, accelerator="cpu", measure=lambda _: {"edge_f1": 0.5})
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = out / f".checkpoint-{ended.pid}-{'0' * 16}.safetensors"
    left.write_bytes(b"half")
    others = out / ".notes"
    others.write_text("mine")
    train(replace(config, steps=2), out, accelerator="cpu", measure=lambda _: {"edge_f1": 0.5}, resume=True)
    assert not left.exists()
    assert others.exists()


def test_a_resumed_run_does_not_need_its_initial_weights(config_file, tmp_path):
    def measure(_model):
        return {"edge_f1": 0.5}

    train(load_config(config_file, ["steps=1"]), tmp_path / "first", accelerator="cpu", measure=measure)
    weights = tmp_path / "first" / "best.safetensors"
    config = load_config(config_file, ["steps=1", f"start_from={weights}"])
    train(config, tmp_path / "out", accelerator="cpu", measure=measure)
    weights.unlink()
    longer = replace(config, steps=2)
    assert train(longer, tmp_path / "out", accelerator="cpu", measure=measure, resume=True).step == 2
    with pytest.raises(TreeformerError, match=r"best\.safetensors"):
        train(longer, tmp_path / "another", accelerator="cpu", measure=measure)


@pytest.mark.parametrize("steps", [4, 5])
def test_an_interrupted_validation_is_repeated(config_file, tmp_path, steps):
    """This holds for the last validation and for earlier ones: their weights may be the best."""

    def killed(_model):
        raise RuntimeError("killed")

    config, out, validated = load_config(config_file, [f"steps={steps}"]), tmp_path / "out", []

    def measure(_model):
        validated.append(checkpoint.read_run_state(out / "checkpoint.safetensors").step)
        return {"edge_f1": 1 / len(validated)}

    with pytest.raises(RuntimeError, match="killed"):
        train(config, out, accelerator="cpu", measure=killed)
    state = train(config, out, accelerator="cpu", resume=True, measure=measure)
    assert validated == [4, 5][: steps - 3]
    assert (state.step, state.best_step) == (steps, 4)
    assert checkpoint.read_run_state(out / "checkpoint.safetensors") == state


def test_a_checkpoint_of_another_architecture_is_refused(config_file, tmp_path):
    train(load_config(config_file, ["steps=1"]), tmp_path / "out", accelerator="cpu")
    other = load_config(config_file, ["model_options={tokens: 8, denoising: false, width: 32}"])
    with pytest.raises(TreeformerError, match="another architecture"):
        train(other, tmp_path / "out", accelerator="cpu", resume=True)
    with pytest.raises(TreeformerError, match="no checkpoint"):
        train(load_config(config_file), tmp_path / "nothing", accelerator="cpu", resume=True)


def test_a_damaged_checkpoint_is_one_line(config_file, tmp_path):
    config, path = load_config(config_file, ["steps=1"]), tmp_path / "checkpoint.safetensors"
    train(config, tmp_path, accelerator="cpu", measure=lambda _model: {"edge_f1": 0.5})
    whole, (_, metadata) = path.read_bytes(), safetensors.read_header(path)
    arrays = {name: np.array(array) for name, array in safetensors.read(path).items()}
    part = "optimizer/root_head.weight/exp_avg"
    damaged = [
        (arrays | {part: arrays[part][:, :3]}, metadata, "optimizer's state of root_head.weight does not fit"),
        ({name: arrays[name] for name in arrays if name != part}, metadata, "state of root_head.weight does not fit"),
        (arrays, metadata | {"progress": '{"step": "one"}'}, "the state of the run cannot be read"),
        (arrays, {"config": "{}"}, "the state of the run cannot be read"),
    ]
    for *content, message in damaged:
        safetensors.write(path, *content)
        with pytest.raises(CheckpointError, match=f"checkpoint.safetensors: .*{message}"):
            train(config, tmp_path, accelerator="cpu", resume=True)
    path.write_bytes(whole[:-1])
    with pytest.raises(TreeformerError, match="does not fit in the file"):
        train(config, tmp_path, accelerator="cpu", resume=True)
    without = {name: arrays[name] for name in arrays if not name.startswith("optimizer/root_head")}
    safetensors.write(path, without, metadata)
    again = train(replace(config, steps=2), tmp_path, accelerator="cpu", resume=True)
    assert again.step == 2, "parameters without a stored state start anew"


def test_an_earlier_run_is_not_overwritten(config_file, tmp_path):
    config, out = load_config(config_file, ["steps=1"]), tmp_path / "out"
    train(config, out, accelerator="cpu")
    before = (out / "checkpoint.safetensors").read_bytes()
    with pytest.raises(TreeformerError, match="out: already contains a run: resume it"):
        train(config, out, accelerator="cpu")
    assert (out / "checkpoint.safetensors").read_bytes() == before
    with pytest.raises(TreeformerError, match=r"test\.yaml: cannot be written to"):
        train(config, config_file, accelerator="cpu")


def test_a_second_run_in_the_same_folder_is_one_line(config_file, tmp_path):
    """A job that is started again while the first one still runs would replace its checkpoints and mix its log."""
    out = tmp_path / "runs" / "out"
    config = load_config(config_file, ["steps=1"])
    with sole_lock(out / ".lock"):
        for resume in (False, True):
            with pytest.raises(TreeformerError, match=r"runs/out: another run is writing to this folder$"):
                train(config, out, resume=resume, accelerator="cpu", measure=lambda _model: {"edge_f1": 0.5})
        assert [path.name for path in out.iterdir()] == [".lock"]
    train(config, out, accelerator="cpu", measure=lambda _model: {"edge_f1": 0.5})
    assert not (out / ".lock").exists()


def test_a_run_that_fails_at_its_start_leaves_no_folder(config_file, tmp_path, monkeypatch):
    def broken(*_arguments, **_options):
        raise TrainingError("no images")

    monkeypatch.setattr("treeformer.training.images.training_loader", broken)
    with pytest.raises(TrainingError, match="no images"):
        train(load_config(config_file), tmp_path / "runs" / "out", accelerator="cpu", measure=lambda _model: {})
    assert not (tmp_path / "runs").exists()
