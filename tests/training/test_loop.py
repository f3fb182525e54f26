"""The training loop on images of a few pixels: it learns, agrees with itself over two processes, names mistakes."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from tests.training.processes import ONE_THREAD, command
from treeformer._util.config import ConfigError
from treeformer.data import Skipped
from treeformer.data.config import SourceConfig
from treeformer.data.mixture import EvalDataset
from treeformer.errors import TreeformerError
from treeformer.hub import safetensors
from treeformer.hub.model_folder import open_model
from treeformer.models import TreeFormer
from treeformer.training import checkpoint
from treeformer.training.config import TrainingConfig, load_config
from treeformer.training.loop import LOG_EVERY, WARM_UP_STEPS, train
from treeformer.training.setup import make_model


def losses(out: Path) -> dict[int, float]:
    with (out / "log.csv").open(newline="") as file:
        return {int(row["step"]): float(row["value"]) for row in csv.DictReader(file) if row["figure"] == "loss"}


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bf16 of its own
def test_half_precision_leaves_the_target_alone(config_file, tmp_path, monkeypatch):
    """Near 512 px a bf16 number is a multiple of 2: places in it would be learned wrong by pixels."""
    seen = []

    def spy(model, output, targets, node_count, loss=TreeFormer.loss):
        seen.append((torch.is_autocast_enabled("cpu"), targets.points, node_count))
        return loss(model, output, targets, node_count)

    monkeypatch.setattr(TreeFormer, "loss", spy)
    config = replace(load_config(config_file), precision="bf16", steps=1)
    train(config, tmp_path / "out", accelerator="cpu", measure=lambda _model: {"edge_f1": 0.0, "images": 1.0})
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
    waiting = [figures["waiting_for_images"] for _, _, figures in seen if "waiting_for_images" in figures]
    assert waiting
    assert all(0 < share < 1 for share in waiting)
    assert all(np.isfinite(value) for value in losses(tmp_path / "out").values())


def test_a_validation_between_two_reports_leaves_the_mean_loss_alone(config_file, tmp_path, monkeypatch):
    monkeypatch.setattr("treeformer.training.loop._Run._step", lambda *_: {"loss": torch.ones(())})
    config = load_config(config_file, [f"steps={2 * LOG_EVERY}", f"validate_every={LOG_EVERY // 2 + 1}"])
    train(config, tmp_path / "out", accelerator="cpu", measure=lambda model: {"edge_f1": 0.5})
    assert losses(tmp_path / "out") == {LOG_EVERY: 1.0, 2 * LOG_EVERY: 1.0}


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


def test_a_loss_that_is_no_number_ends_in_one_line(config_file, tmp_path):
    settings = ["optimizer.learning_rate=1.0e+30", "optimizer.warmup_steps=0", "steps=40", "validate_every=1000"]
    with pytest.raises(TreeformerError, match="not a number"):
        train(load_config(config_file, settings), tmp_path / "out", accelerator="cpu")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.train=[{path: /no/such/folder}]", "no such folder"),
        ("data.train=[{presets: [cactus]}]", "'cactus' is not one of"),
        ("data.train=[{presets: [vine], path: x}]", "either presets"),
        ("data.train=[]", "no source"),
        ("data.train=[{presets: [vine], spacing_px: 1}]", "50 images in a row cannot be used"),
        ("data.valid=[]", "no image to validate on"),
        ("data.valid=[{path: /no/such/folder}]", "no such folder"),
        ("data.train=[{presets: [vine], count: -1}]", "count of a source"),
        ("data.train=[{presets: [vine], images: [3, 100000]}]", "no image 100000, they are"),
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
    with pytest.raises(TreeformerError, match=r"^50 images in a row cannot be used.*max_nodes = 8$") as error:
        train(config, tmp_path / "out", accelerator="cpu")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_images_to_validate_on_are_looked_at_before_the_first_step(config_file, folder, tmp_path):
    """A source whose first image is no good will do, one that has no good image will not."""
    good = tmp_path / "good"
    shutil.copytree(folder, good)
    (good / "0.png").write_bytes(b"no image")
    source = {"path": str(good), "split": ""}
    config = load_config(config_file, ["steps=1", f"data.valid=[{json.dumps(source)}]"])
    train(config, tmp_path / "out", accelerator="cpu")
    for broken, reason in (
        ({**source, "images": [0]}, "none of 1 images .* the first because: .*0.png"),
        ({**source, "spacing_px": 1, "images": [1, 2]}, "none of 2 images .* 1.png: .* more than max_nodes = 8"),
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

    monkeypatch.setattr("treeformer.data.loader.load", load)
    source = SourceConfig(presets=("paper",), split="valid", count=1000)
    with pytest.raises(ConfigError, match="none of 50 images"):
        EvalDataset([source], load_config(config_file).data).check_sources()
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
        "treeformer.training.loop.make_model", lambda config, **_options: make_model(replace(config, start_from=""))
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
    settings = ["steps=100", "validate_every=6", "patience_epochs=1", "epoch_images=4"]
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
