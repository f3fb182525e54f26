"""The training loop on tiny images: output files, two processes, time limits, and error messages."""

from __future__ import annotations

import csv
import json
import math
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from tests.training.processes import command, without_optional_packages
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
from treeformer.training.setup import make_model, uses_cuda_graphs


def losses(out: Path) -> dict[int, float]:
    with (out / "log.csv").open(newline="") as file:
        return {int(row["step"]): float(row["value"]) for row in csv.DictReader(file) if row["figure"] == "loss"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bf16 instructions
def test_half_precision_does_not_round_the_targets(config_file, tmp_path, monkeypatch):
    """Near 512 px a bfloat16 number is a multiple of 2, so rounded targets would be wrong by whole pixels."""
    calls = []

    def spy(model, output, targets, node_count, loss=TreeFormer.loss):
        calls.append((torch.is_autocast_enabled("cpu"), targets.points, node_count))
        return loss(model, output, targets, node_count)

    monkeypatch.setattr(TreeFormer, "loss", spy)
    config = replace(load_config(config_file), precision="bf16", steps=1)
    train(config, tmp_path / "out", accelerator="cpu", measure=lambda _model: {"edge_f1": 0.0, "images": 1.0})
    is_autocast, points, node_count = calls[0]
    assert is_autocast
    assert points.dtype == node_count.dtype == torch.float32
    assert (points != points.bfloat16()).any()


@pytest.mark.slow
def test_the_output_files_and_figures(config_file, tmp_path):
    shown = []
    state = train(load_config(config_file), tmp_path / "out", accelerator="cpu", show=lambda *a: shown.append(a))
    assert state.step == 8
    assert state.position == 32
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {
        "checkpoint.safetensors",
        "best.safetensors",
        "log.csv",
    }
    assert any("valid_edge_f1" in figures for _, _, figures in shown)
    waiting = [figures["waiting_for_images"] for _, _, figures in shown if "waiting_for_images" in figures]
    assert waiting
    assert all(0 < share < 1 for share in waiting)
    assert all(np.isfinite(value) for value in losses(tmp_path / "out").values())


@pytest.mark.slow
def test_a_validation_between_two_reports_does_not_change_the_mean_loss(config_file, tmp_path, monkeypatch):
    figures = {"loss": torch.ones(()), "gradient_norm": torch.ones(())}
    monkeypatch.setattr("treeformer.training.loop.TrainingRun._step", lambda *_: figures)
    config = load_config(config_file, [f"steps={2 * LOG_EVERY}", f"validate_every={LOG_EVERY // 2 + 1}"])
    train(config, tmp_path / "out", accelerator="cpu", measure=lambda model: {"edge_f1": 0.5})
    assert losses(tmp_path / "out") == {LOG_EVERY: 1.0, 2 * LOG_EVERY: 1.0}


@pytest.mark.slow
def test_two_processes_without_any_optional_package_give_the_weights_of_one(config_file, tmp_path):
    one, two, blocked = tmp_path / "one", tmp_path / "two", tmp_path / "blocked"
    settings = ["steps=3", "validate_every=2"]
    train(load_config(config_file, settings), one, accelerator="cpu")
    subprocess.run(
        command(config_file, two, *settings, "--devices", "2"),
        check=True,
        env=without_optional_packages(blocked),
        stdout=subprocess.DEVNULL,
        timeout=900,
    )
    assert len(list(blocked.glob("*.blocked"))) >= 2
    assert (two / "best.safetensors").exists()
    expected, got = (safetensors.read(out / "checkpoint.safetensors") for out in (one, two))
    assert checkpoint.read_run_state(two / "checkpoint.safetensors").step == 3, "the steps after a validation count"
    for name in expected:
        if name.startswith("model/"):
            # AdamW divides by the size of the gradient, so rounding errors of zero gradients become whole steps.
            assert np.abs(expected[name] - got[name]).max() < 2e-2, name
    difference = [
        np.abs(expected[n] - got[n]).mean() for n in expected if n.startswith("model/") and expected[n].size > 99
    ]
    assert np.mean(difference) < 2e-4


@pytest.mark.slow
def test_a_loss_that_is_not_a_number_ends_the_run(config_file, tmp_path):
    settings = ["optimizer.learning_rate=1.0e+30", "optimizer.warmup_steps=0", "steps=40", "validate_every=1000"]
    with pytest.raises(TreeformerError, match="not a number"):
        train(load_config(config_file, settings), tmp_path / "out", accelerator="cpu")


@pytest.mark.slow
def test_a_single_loss_that_is_not_a_number_changes_nothing(config_file, tmp_path, monkeypatch):
    calls = []

    def spy(model, output, targets, node_count, loss=TreeFormer.loss):
        calls.append(model)
        return {
            name: value * (math.nan if len(calls) == 5 else 1)
            for name, value in loss(model, output, targets, node_count).items()
        }

    monkeypatch.setattr(TreeFormer, "loss", spy)
    config = replace(load_config(config_file), steps=LOG_EVERY, validate_every=LOG_EVERY)
    measured = {"edge_f1": 0.5, "images": 1.0}
    state = train(config, tmp_path / "out", accelerator="cpu", measure=lambda _model: measured)
    assert state.step == len(calls) == LOG_EVERY
    weights = safetensors.read(tmp_path / "out" / "checkpoint.safetensors")
    assert all(np.isfinite(array).all() for array in weights.values())


@pytest.mark.slow
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
    assert not (tmp_path / "runs").exists(), "a run that did not start leaves no files"


@pytest.mark.slow
def test_a_mistake_found_by_a_worker_process_is_one_line(config_file, folder, tmp_path):
    source = {"path": str(folder), "split": "", "spacing_px": 1}
    config = load_config(config_file, [f"data.train={json.dumps([source])}", "data.workers=1"])
    with pytest.raises(TreeformerError, match=r"^50 images in a row cannot be used.*max_nodes = 8$") as error:
        train(config, tmp_path / "out", accelerator="cpu")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_validation_images_are_checked_before_the_first_step(config_file, folder, tmp_path):
    """A source with some unusable images is accepted, a source without any usable image is not."""
    good = tmp_path / "good"
    shutil.copytree(folder, good)
    (good / "0.png").write_bytes(b"no image")
    source = {"path": str(good), "split": ""}
    config = load_config(config_file, ["steps=1", f"data.valid=[{json.dumps(source)}]"])
    train(config, tmp_path / "out", accelerator="cpu")
    for broken, reason in (
        ({**source, "images": [0]}, "none of 1 images .* the first because: .*0.png"),
        (
            {**source, "spacing_px": 1, "images": [1, 2]},
            "none of 2 images .* because: .*1.png: .* more than max_nodes = 8",
        ),
    ):
        config = load_config(config_file, ["steps=1", f"data.valid={json.dumps([source, broken])}"])
        with pytest.raises(ConfigError, match=reason) as error:
            train(config, tmp_path / "none", accelerator="cpu")
        assert "\n" not in str(error.value)
        assert not (tmp_path / "none").exists()


def test_a_large_source_is_checked_at_regular_intervals(config_file, monkeypatch):
    indices = []

    def skip(_dataset, index):
        indices.append(index)
        return Skipped("a", "a: none")

    monkeypatch.setattr("treeformer.data.synthetic_dataset.SyntheticDataset.open", skip)
    source = SourceConfig(presets=("paper",), split="valid", count=1000)
    with pytest.raises(ConfigError, match="none of 50 images"):
        EvalDataset([source], load_config(config_file).data).check_sources()
    assert indices == list(range(0, 1000, 20))


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["WORLD_SIZE", "SLURM_STEP_NUM_TASKS"])
def test_an_unexpected_number_of_processes_is_an_error(config_file, tmp_path, monkeypatch, variable):
    """If torchrun or srun has started two processes, each would train alone, into the same folder."""
    monkeypatch.setenv(variable, "2")
    with pytest.raises(ConfigError, match="2 processes were started, but devices times machines is 1"):
        train(load_config(config_file), tmp_path / "out", accelerator="cpu")
    monkeypatch.setenv(variable, "1")
    assert train(load_config(config_file, ["steps=1"]), tmp_path / "out", accelerator="cpu").step == 1


def test_only_new_parts_may_be_missing_in_initial_weights(tmp_path):
    config = TrainingConfig(model="tiny", model_options={"tokens": 8})
    weights = make_model(config).state_dict()
    weights["root_head.bias"] += 1
    old = {name: tensor for name, tensor in weights.items() if not name.startswith("attribute_head.")}
    checkpoint.write_tensors(tmp_path / "old.safetensors", old, {})
    model = make_model(replace(config, start_from=str(tmp_path / "old.safetensors")))
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, weights[name]), name
    del old["root_head.bias"]
    checkpoint.write_tensors(tmp_path / "broken.safetensors", old, {})
    with pytest.raises(TreeformerError, match=r"root_head\.bias is missing"):
        make_model(replace(config, start_from=str(tmp_path / "broken.safetensors")))


@pytest.mark.slow
def test_training_can_start_from_the_default_model():
    expected = safetensors.read(open_model("default").weights)
    model = make_model(TrainingConfig(start_from="default"))
    for name, tensor in model.state_dict().items():
        if name in expected or not name.startswith(TreeFormer.new_parts):
            np.testing.assert_array_equal(tensor.numpy(), expected[name].astype(np.float32), err_msg=name)


@pytest.mark.slow
def test_the_best_weights_state_the_model_folder_they_started_from(config_file, tmp_path, monkeypatch):
    """The path is absolute. Export takes over sizes and thresholds of that folder."""
    (tmp_path / "start").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "treeformer.training.loop.make_model", lambda config, **_options: make_model(replace(config, start_from=""))
    )
    for number, (name, expected) in enumerate(
        [("default", "default"), ("start", str(tmp_path / "start")), ("weights.safetensors", None), ("", None)]
    ):
        out = tmp_path / str(number)
        config = load_config(config_file, ["steps=1", f"start_from={name!r}"])
        train(config, out, accelerator="cpu", measure=lambda _model: {"edge_f1": 0.5})
        metadata = safetensors.read_header(out / "best.safetensors")[1]
        assert metadata.get("start_from") == expected
        assert metadata["image_size"] == str(config.data.image_size)


@pytest.mark.slow
def test_patience_never_ends_before_a_validation(config_file, tmp_path):
    """Otherwise the run would end without any weights: the first are written at a validation."""
    settings = ["steps=100", "validate_every=6", "patience_epochs=1", "epoch_images=4"]
    state = train(load_config(config_file, settings), tmp_path, accelerator="cpu")
    assert state.step % 6 == 0
    assert 0 < state.step < 100
    assert (tmp_path / "best.safetensors").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"accelerator": "toaster"}, "toaster"),
        pytest.param(
            {"accelerator": "gpu"}, "gpu", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
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


def test_a_missing_gpu_is_an_error(config_file, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigError, match="no GPU"):
        train(load_config(config_file), tmp_path / "out", accelerator="cuda")


@pytest.mark.slow
def test_training_minutes_exclude_warm_up_validation_and_writing(config_file, tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("treeformer.training.loop.time.monotonic", lambda: clock[0])

    def slow_step(*_arguments):
        clock[0] += 100.0 if len(steps) < WARM_UP_STEPS else 3.0
        steps.append(clock[0])
        return {"loss": torch.zeros(()), "gradient_norm": torch.zeros(())}

    def slow_measure(model):
        clock[0] += 1000.0
        return {"edge_f1": 0.5}

    steps: list[float] = []
    monkeypatch.setattr("treeformer.training.loop.TrainingRun._step", lambda self, *arguments: slow_step(*arguments))
    config = load_config(config_file, ["steps=1000", "validate_every=4"])
    out = tmp_path / "out"
    state = train(config, out, accelerator="cpu", training_minutes=0.25, measure=slow_measure)
    assert state.step == WARM_UP_STEPS + 6, "the sixth step of 3 s passes 15 s"
    assert state.training_seconds == 18.0
    assert state.seconds > 2500
    assert state.best_score == 0.5
    with (out / "log.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["figure"] == "training_seconds"]
    assert [(row["step"], row["value"]) for row in rows] == [("4", "0"), ("8", "9"), ("11", "18")]
    assert checkpoint.read_run_state(out / "checkpoint.safetensors") == state
    assert checkpoint.read_run_state(out / "none.safetensors") is None


def test_cuda_graphs_need_a_single_gpu_and_triton_and_a_model_that_supports_them(monkeypatch):
    available = {"triton"}
    monkeypatch.setattr("treeformer.training.setup.importlib.util.find_spec", lambda name: name in available or None)
    gpu = SimpleNamespace(device=torch.device("cuda"), world_size=1)
    assert uses_cuda_graphs(gpu, TreeFormer)
    assert not uses_cuda_graphs(gpu, torch.nn.Module)
    assert not uses_cuda_graphs(SimpleNamespace(device=torch.device("cuda"), world_size=2), TreeFormer)
    assert not uses_cuda_graphs(SimpleNamespace(device=torch.device("cpu"), world_size=1), TreeFormer)
    available.clear()
    assert not uses_cuda_graphs(gpu, TreeFormer)
