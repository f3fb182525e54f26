"""The training loop on pictures of a few pixels: it learns, survives a kill, agrees with itself over two processes."""

from __future__ import annotations

import csv
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
import yaml
from PIL import Image, ImageDraw

import treeformer
from treeformer import Skeleton, safetensors
from treeformer.data import Skipped
from treeformer.errors import TreeformerError
from treeformer.model_folder import open_model
from treeformer.models import TreeFormer
from treeformer.training import checkpoint
from treeformer.training.checkpoint import CheckpointError
from treeformer.training.config import ConfigError, SourceConfig, TrainingConfig, load_config
from treeformer.training.loop import LOG_EVERY, WARM_UP_STEPS, train
from treeformer.training.setup import make_model
from treeformer.training.stream import FixedPictures

SIDE = 64
# Sums over several threads come out differently each time, in the last bits.
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Four drawings of a stem with two arms, 64×64, and their skeletons."""
    out = tmp_path_factory.mktemp("trees")
    rng = np.random.default_rng(0)
    for number in range(4):
        fork = rng.uniform(24, 40, 2)
        nodes = np.array(
            [(32, 60), fork, fork + rng.uniform((-20, -20), (-8, -8)), fork + rng.uniform((8, -20), (20, -8))]
        )
        image = Image.new("RGB", (SIDE, SIDE), "white")
        pen = ImageDraw.Draw(image)
        for u, v in ((0, 1), (1, 2), (1, 3)):
            pen.line([*nodes[u], *nodes[v]], fill="black", width=2)
        image.save(out / f"{number}.png")
        skeleton = Skeleton(nodes, [(0, 1), (1, 2), (1, 3)], root=0, image_size=(SIDE, SIDE))
        treeformer.write(skeleton, out / f"{number}.json")
    return out


@pytest.fixture
def config_file(tmp_path, folder) -> Path:
    source = {"path": str(folder), "split": ""}
    settings = {
        "name": "test",
        "model": "tiny",
        "model_options": {"tokens": 8, "denoising": False},
        "data": {"train": [source], "valid": [source], "image_size": SIDE, "max_nodes": 8},
        "optimiser": {"learning_rate": 2e-3, "backbone_factor": 1.0, "warmup_steps": 5, "ema_decay": 0.9},
        "batch_size": 4,
        "steps": 8,
        "validate_every": 4,
        "score": "edge_f1",
        "precision": "32",
    }
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def command(config_file: Path, out: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "treeformer.training", str(config_file), str(out), "--accelerator", "cpu", *arguments]


def losses(out: Path) -> dict[int, float]:
    with (out / "log.csv").open(newline="") as file:
        return {int(row["step"]): float(row["value"]) for row in csv.DictReader(file) if row["figure"] == "loss"}


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bf16 of its own
def test_half_precision_leaves_the_truth_alone(config_file, tmp_path, monkeypatch):
    """Near 512 px a bf16 number is a multiple of 2: places in it would be learnt wrong by pixels."""
    seen = []

    def spy(model, output, targets, node_count, loss=TreeFormer.loss):
        seen.append((torch.is_autocast_enabled("cpu"), targets.points, node_count))
        return loss(model, output, targets, node_count)

    monkeypatch.setattr(TreeFormer, "loss", spy)
    config = replace(load_config(config_file), precision="bf16", steps=1)
    train(config, tmp_path / "out", accelerator="cpu", measure=lambda _model: {"edge_f1": 0.0, "pictures": 1.0})
    halved, points, node_count = seen[0]
    assert halved
    assert points.dtype == node_count.dtype == torch.float32
    assert (points != points.bfloat16()).any()


def test_it_writes_what_it_promises(config_file, tmp_path):
    seen = []
    progress = train(load_config(config_file), tmp_path / "out", accelerator="cpu", show=lambda *a: seen.append(a))
    assert progress.step == 8
    assert progress.position == 32
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {
        "checkpoint.safetensors",
        "best.safetensors",
        "log.csv",
    }
    assert any("valid_edge_f1" in figures for _, _, figures in seen)
    waiting = [figures["waiting_for_pictures"] for _, _, figures in seen if "waiting_for_pictures" in figures]
    assert waiting
    assert all(0 < share < 1 for share in waiting)
    assert all(np.isfinite(value) for value in losses(tmp_path / "out").values())


def test_a_validation_between_two_reports_leaves_the_mean_loss_alone(config_file, tmp_path, monkeypatch):
    monkeypatch.setattr("treeformer.training.loop._Run._step", lambda *_: {"loss": torch.ones(())})
    config = load_config(config_file, [f"steps={2 * LOG_EVERY}", f"validate_every={LOG_EVERY // 2 + 1}"])
    train(config, tmp_path / "out", accelerator="cpu", measure=lambda model: {"edge_f1": 0.5})
    assert losses(tmp_path / "out") == {LOG_EVERY: 1.0, 2 * LOG_EVERY: 1.0}


def test_a_killed_run_goes_on_as_if_nothing_had_happened(config_file, tmp_path):
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    settings = ["steps=9", "validate_every=3"]
    subprocess.run(command(config_file, straight, *settings), check=True, env=ONE_THREAD, stdout=subprocess.DEVNULL)
    process = subprocess.Popen(command(config_file, broken, *settings), env=ONE_THREAD, stdout=subprocess.DEVNULL)
    while not (broken / "checkpoint.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    again = command(config_file, broken, *settings, "--resume")
    subprocess.run(again, check=True, env=ONE_THREAD, stdout=subprocess.DEVNULL)
    expected, got = (safetensors.read(out / "checkpoint.safetensors") for out in (straight, broken))
    assert expected.keys() == got.keys()
    for name in expected:
        assert np.array_equal(expected[name], got[name]), name


def test_two_processes_do_what_one_does(config_file, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for out, devices in ((one, "1"), (two, "2")):
        subprocess.run(
            command(config_file, out, "steps=3", "validate_every=2", "--devices", devices),
            check=True,
            env=ONE_THREAD,
            stdout=subprocess.DEVNULL,
            timeout=300,
        )
    expected, got = (safetensors.read(out / "checkpoint.safetensors") for out in (one, two))
    assert checkpoint.read_progress(two / "checkpoint.safetensors").step == 3, "the steps after a validation count"
    for name in expected:
        if name.startswith("model/"):
            # AdamW divides by the size of the gradient: what is zero but for rounding moves by a whole step.
            assert np.abs(expected[name] - got[name]).max() < 2e-2, name
    difference = [
        np.abs(expected[n] - got[n]).mean() for n in expected if n.startswith("model/") and expected[n].size > 99
    ]
    assert np.mean(difference) < 2e-4


def test_ctrl_c_ends_the_step_and_leaves_a_checkpoint(config_file, tmp_path):
    out = tmp_path / "out"
    started = subprocess.Popen(
        command(config_file, out, "steps=100000", "validate_every=100000"), env=ONE_THREAD, stdout=subprocess.DEVNULL
    )
    while not (out / "log.csv").exists() or "loss" not in (out / "log.csv").read_text():
        assert started.poll() is None
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    assert started.wait(timeout=120) == 130
    progress = checkpoint.read_progress(out / "checkpoint.safetensors")
    assert progress.step >= 20
    assert progress.position == 4 * progress.step


@pytest.mark.skipif(os.name != "posix", reason="sends signals to a process group")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_last_validation_loses_nothing(config_file, tmp_path, number):
    """Terminals and schedulers send it to the processes that make and judge the pictures, too."""
    out = tmp_path / "out"
    started = subprocess.Popen(
        command(config_file, out, "steps=20", "validate_every=1000", "data.workers=1"),
        env=ONE_THREAD, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while not (out / "checkpoint.safetensors").exists():
        assert started.poll() is None
        time.sleep(0.02)
    os.killpg(started.pid, number)
    assert "Traceback" not in started.communicate(timeout=120)[1]
    assert started.returncode == 130
    assert checkpoint.read_progress(out / "checkpoint.safetensors").step == 20
    assert "valid_edge_f1" in (out / "log.csv").read_text()


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to a process group")
def test_a_scheduler_that_ends_all_processes_gets_a_checkpoint(config_file, tmp_path):
    out = tmp_path / "out"
    started = subprocess.Popen(
        command(config_file, out, "steps=100000", "validate_every=100000", "data.workers=1"),
        env=ONE_THREAD, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while not (out / "log.csv").exists():
        assert started.poll() is None
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGTERM)
    assert "Traceback" not in started.communicate(timeout=120)[1]
    assert started.returncode == 130
    assert checkpoint.read_progress(out / "checkpoint.safetensors").step >= 20


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to a process")
def test_a_worker_passes_over_one_sigterm_and_not_over_two():
    """Otherwise Python would wait for ever, at its end, for a worker that has not gone by itself."""
    code = (
        "from treeformer.training.stream import leave_signals as f; f(); print(flush=True); import time; time.sleep(99)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as worker:
        worker.stdout.readline()
        worker.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(0.5)
        worker.terminate()
        assert worker.wait(30) == -signal.SIGTERM


def test_a_validation_that_fails_loses_nothing(config_file, tmp_path):
    def broken(_model):
        raise RuntimeError("no figures")

    with pytest.raises(RuntimeError, match="no figures"):
        train(load_config(config_file, ["steps=3"]), tmp_path / "out", accelerator="cpu", measure=broken)
    assert checkpoint.read_progress(tmp_path / "out" / "checkpoint.safetensors").step == 3


@pytest.mark.parametrize("file", ["best", "checkpoint"])
def test_a_full_disk_is_one_line_that_names_the_file(config_file, tmp_path, monkeypatch, file):
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
        (["steps=9", "validate_every=1", "patience_epochs=1", "epoch_pictures=4"], {}),
    ],
)
def test_a_finished_run_says_so_and_stays_as_it_is(config_file, tmp_path, capsys, settings, limits):
    config, out = load_config(config_file, settings), tmp_path / "out"
    first = train(config, out, accelerator="cpu", measure=lambda _model: {"edge_f1": 0.5}, **limits)
    before = contents(out)
    again = train(config, out, accelerator="cpu", resume=True, **limits)
    assert again == first
    assert contents(out) == before
    assert capsys.readouterr().out.splitlines() == [
        f"{out}: finished at step {first.step}; with more steps or time it would go on"
    ]
    longer = replace(config, steps=first.step + 1, patience_epochs=0)
    assert train(longer, out, accelerator="cpu", resume=True).step == first.step + 1


def test_a_run_that_goes_on_needs_its_first_weights_no_more(config_file, tmp_path):
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
def test_a_validation_that_a_kill_cut_off_is_made_up_for(config_file, tmp_path, steps):
    """Whether it was the last one or one on the way: the weights that it would have kept may be the best."""

    def killed(_model):
        raise RuntimeError("killed")

    config, out, validated = load_config(config_file, [f"steps={steps}"]), tmp_path / "out", []

    def measure(_model):
        validated.append(checkpoint.read_progress(out / "checkpoint.safetensors").step)
        return {"edge_f1": 1 / len(validated)}

    with pytest.raises(RuntimeError, match="killed"):
        train(config, out, accelerator="cpu", measure=killed)
    progress = train(config, out, accelerator="cpu", resume=True, measure=measure)
    assert validated == [4, 5][: steps - 3]
    assert (progress.step, progress.best_step) == (steps, 4)
    assert checkpoint.read_progress(out / "checkpoint.safetensors") == progress


def test_a_loss_that_is_no_number_ends_in_one_line(config_file, tmp_path):
    settings = ["optimiser.learning_rate=1.0e+30", "optimiser.warmup_steps=0", "steps=40", "validate_every=1000"]
    with pytest.raises(TreeformerError, match="not a number"):
        train(load_config(config_file, settings), tmp_path / "out", accelerator="cpu")


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
    part = "optimiser/root_head.weight/exp_avg"
    damaged = [
        (arrays | {part: arrays[part][:, :3]}, metadata, "optimiser's state of root_head.weight does not fit"),
        ({name: arrays[name] for name in arrays if name != part}, metadata, "state of root_head.weight does not fit"),
        (arrays, metadata | {"progress": '{"step": "one"}'}, "its progress cannot be read"),
        (arrays, {"config": "{}"}, "its progress cannot be read"),
    ]
    for *content, message in damaged:
        safetensors.write(path, *content)
        with pytest.raises(CheckpointError, match=f"checkpoint.safetensors: .*{message}"):
            train(config, tmp_path, accelerator="cpu", resume=True)
    path.write_bytes(whole[:-1])
    with pytest.raises(TreeformerError, match="does not fit in the file"):
        train(config, tmp_path, accelerator="cpu", resume=True)
    without = {name: arrays[name] for name in arrays if not name.startswith("optimiser/root_head")}
    safetensors.write(path, without, metadata)
    again = train(replace(config, steps=2), tmp_path, accelerator="cpu", resume=True)
    assert again.step == 2, "a part that was not trained before begins anew"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.train=[{path: /no/such/folder}]", "no such folder"),
        ("data.train=[{presets: [cactus]}]", "'cactus' is not one of"),
        ("data.train=[{presets: [vine], path: x}]", "either presets"),
        ("data.train=[]", "no source"),
        ("data.train=[{presets: [vine], spacing_px: 1}]", "50 pictures in a row cannot be used"),
        ("data.valid=[]", "no picture to validate on"),
        ("data.valid=[{path: /no/such/folder}]", "no such folder"),
        ("data.train=[{presets: [vine], count: -1}]", "count of a source"),
        ("data.train=[{presets: [vine], pictures: [3, 100000]}]", "no picture 100000, they are"),
        ("model=huge", "model must be one of"),
        ("model_options={width: 33}", "33"),
        ("model_options={widht: 32}", "unknown key 'widht'"),
        ("start_from=none.safetensors", "none.safetensors"),
        ("start_from=no-such-folder", "no-such-folder: no such folder"),
        ("batch_size=0", "batch_size"),
    ],
)
def test_a_mistake_is_one_line(config_file, tmp_path, override, message):
    with pytest.raises(TreeformerError, match=message) as error:
        train(load_config(config_file, [override]), tmp_path / "runs" / "out", accelerator="cpu")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists(), "nothing is left of a run that did not begin"


def test_a_mistake_that_a_worker_process_finds_is_one_line_too(config_file, folder, tmp_path):
    source = {"path": str(folder), "split": "", "spacing_px": 1}
    config = load_config(config_file, [f"data.train={json.dumps([source])}", "data.workers=1"])
    with pytest.raises(TreeformerError, match=r"^50 pictures in a row cannot be used.*max_nodes = 8$") as error:
        train(config, tmp_path / "out", accelerator="cpu")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_pictures_to_validate_on_are_looked_at_before_the_first_step(config_file, folder, tmp_path):
    """A source whose first picture is no good will do, one that has no good picture will not."""
    good = tmp_path / "good"
    shutil.copytree(folder, good)
    (good / "0.png").write_bytes(b"no picture")
    source = {"path": str(good), "split": ""}
    config = load_config(config_file, ["steps=1", f"data.valid=[{json.dumps(source)}]"])
    train(config, tmp_path / "out", accelerator="cpu")
    for broken, reason in (
        ({**source, "pictures": [0]}, "none of 1 pictures .* the first because: .*0.png"),
        ({**source, "spacing_px": 1, "pictures": [1, 2]}, "none of 2 pictures .* 1.png: .* more than max_nodes = 8"),
    ):
        config = load_config(config_file, ["steps=1", f"data.valid={json.dumps([source, broken])}"])
        with pytest.raises(ConfigError, match=reason) as error:
            train(config, tmp_path / "none", accelerator="cpu")
        assert "\n" not in str(error.value)
        assert not (tmp_path / "none").exists()


def test_a_large_source_is_looked_at_here_and_there(config_file, monkeypatch):
    seen = []

    def load(_source, place, *_rest):
        seen.append(place)
        return Skipped("a", "a: none")

    monkeypatch.setattr("treeformer.training.stream.load", load)
    source = SourceConfig(presets=("paper",), split="valid", count=1000)
    with pytest.raises(ConfigError, match="none of 50 pictures"):
        FixedPictures([source], load_config(config_file).data).check_sources()
    assert seen == list(range(0, 1000, 20))


@pytest.mark.parametrize("variable", ["WORLD_SIZE", "SLURM_STEP_NUM_TASKS"])
def test_processes_that_do_not_know_of_each_other_train_nothing(config_file, tmp_path, monkeypatch, variable):
    """torchrun or srun has started two, and each would train alone, into the same folder."""
    monkeypatch.setenv(variable, "2")
    with pytest.raises(ConfigError, match="2 processes were started, but devices times machines is 1"):
        train(load_config(config_file), tmp_path / "out", accelerator="cpu")
    monkeypatch.setenv(variable, "1")
    assert train(load_config(config_file, ["steps=1"]), tmp_path / "out", accelerator="cpu").step == 1


def test_the_model_that_ships_can_be_gone_on_with():
    shipped = safetensors.read(open_model("default").weights)
    model = make_model(TrainingConfig(start_from="default"))
    for name, tensor in model.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), shipped[name].astype(np.float32), err_msg=name)


def test_what_it_keeps_says_which_folder_it_was_fine_tuned_from(config_file, tmp_path, monkeypatch):
    """Under a name that is right from any working directory: export takes its thresholds over."""
    (tmp_path / "begun").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "treeformer.training.loop.make_model", lambda config, **_trained: make_model(replace(config, start_from=""))
    )
    for number, (name, expected) in enumerate(
        [("default", "default"), ("begun", str(tmp_path / "begun")), ("weights.safetensors", None), ("", None)]
    ):
        out = tmp_path / str(number)
        config = load_config(config_file, ["steps=1", f"start_from={name!r}"])
        train(config, out, accelerator="cpu", measure=lambda _model: {"edge_f1": 0.5})
        assert safetensors.read_header(out / "best.safetensors")[1].get("start_from") == expected


def test_patience_never_ends_before_a_validation(config_file, tmp_path):
    """Otherwise all would be lost: there is nothing in the folder until then."""
    settings = ["steps=100", "validate_every=6", "patience_epochs=1", "epoch_pictures=4"]
    progress = train(load_config(config_file, settings), tmp_path, accelerator="cpu")
    assert progress.step % 6 == 0
    assert 0 < progress.step < 100
    assert (tmp_path / "best.safetensors").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"accelerator": "toaster"}, "toaster"),
        pytest.param(
            {"accelerator": "gpu"}, "gpu", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
        ),
        ({"devices": 0}, "0 devices"),
        ({"machines": 0}, "0 machines"),
        ({"max_minutes": 0.0}, "must be positive, not 0 minutes"),
        ({"training_minutes": float("nan")}, "must be positive, not nan minutes"),
    ],
)
def test_a_wrong_option_is_one_line(config_file, tmp_path, option, message):
    with pytest.raises(ConfigError, match=message) as error:
        train(load_config(config_file), tmp_path / "out", **({"accelerator": "cpu"} | option))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_an_earlier_run_is_not_written_over(config_file, tmp_path):
    config, out = load_config(config_file, ["steps=1"]), tmp_path / "out"
    train(config, out, accelerator="cpu")
    before = (out / "checkpoint.safetensors").read_bytes()
    with pytest.raises(TreeformerError, match="out: holds a run already: resume it"):
        train(config, out, accelerator="cpu")
    assert (out / "checkpoint.safetensors").read_bytes() == before
    with pytest.raises(TreeformerError, match=r"test\.yaml: cannot be written to"):
        train(config, config_file, accelerator="cpu")


def test_a_gpu_that_is_not_there_is_one_line(config_file, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigError, match="no GPU"):
        train(load_config(config_file), tmp_path / "out", accelerator="cuda")


def test_minutes_of_training_leave_out_the_first_steps_validation_and_writing(config_file, tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("treeformer.training.loop.time.monotonic", lambda: clock[0])

    def slow_step(*_arguments):
        clock[0] += 100.0 if len(steps) < WARM_UP_STEPS else 3.0
        steps.append(clock[0])
        return {"loss": torch.zeros(())}

    def slow_measure(model):
        clock[0] += 1000.0
        return {"edge_f1": 0.5}

    steps: list[float] = []
    monkeypatch.setattr("treeformer.training.loop._Run._step", lambda self, *arguments: slow_step(*arguments))
    config = load_config(config_file, ["steps=1000", "validate_every=4"])
    out = tmp_path / "out"
    progress = train(config, out, accelerator="cpu", training_minutes=0.25, measure=slow_measure)
    assert progress.step == WARM_UP_STEPS + 6, "the sixth step of 3 s is the one that passes 15 s"
    assert progress.training_seconds == 18.0
    assert progress.seconds > 2500
    assert progress.best_score == 0.5
    with (out / "log.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["figure"] == "training_seconds"]
    assert [(row["step"], row["value"]) for row in rows] == [("4", "0"), ("8", "9"), ("11", "18")]
    assert checkpoint.read_progress(out / "checkpoint.safetensors") == progress
    assert checkpoint.read_progress(out / "none.safetensors") is None
