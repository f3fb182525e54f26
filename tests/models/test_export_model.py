"""Export of training results and of model folders. `save_pretrained`, which is slow, is replaced."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from tests.models.untrained import SIDE, THRESHOLDS
from treeformer.baselines.ggt.config import GGTConfig
from treeformer.baselines.two_stage.model import TwoStageConfig
from treeformer.cli import app
from treeformer.errors import TreeformerError
from treeformer.hub import safetensors
from treeformer.hub.model_folder import ModelFolderError, ModelSettings
from treeformer.models import export as export_module
from treeformer.models.config import FORMER_NAMES
from treeformer.models.export import export_model, load_trained

pytestmark = pytest.mark.slow


@pytest.fixture
def saved(monkeypatch):
    calls = []
    monkeypatch.setattr(
        export_module, "save_pretrained", lambda model, folder, **rest: calls.append((model, folder, rest))
    )
    return calls


@pytest.fixture
def trained(model, tmp_path):
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    safetensors.write(tmp_path / "best.safetensors", arrays, {"config": json.dumps(asdict(model.config))})
    return tmp_path / "best.safetensors"


def kept_settings(settings):
    """What an exported model takes over: all settings but the network's own."""
    return {name: value for name, value in asdict(settings).items() if name not in ("architecture", "settings")}


def test_trained_weights_with_more_tokens(saved, trained, model, tmp_path):
    (tmp_path / "text.md").write_text("# Card")
    export_model(trained, tmp_path / "out", settings={"input_size": 96}, card=tmp_path / "text.md", tokens=40)
    [(network, folder, rest)] = saved
    assert network.config.tokens == 40
    assert torch.equal(network.root_head.weight, model.root_head.weight)
    assert rest == {"card": "# Card", "int8": True, "input_size": 96}
    assert folder == tmp_path / "out"


@pytest.mark.parametrize(("stated", "side"), [("128", 128), ("500", 512), ("", None), ("wide", None)])
def test_trained_weights_get_the_image_size_of_their_run(saved, trained, tmp_path, stated, side):
    arrays, (_, metadata) = safetensors.read(trained), safetensors.read_header(trained)
    safetensors.write(trained, arrays, metadata | {"image_size": stated})
    export_model(trained, tmp_path / "out", settings={"working_size": 96})
    [(_, _, rest)] = saved
    assert rest == {"card": None, "int8": True, "working_size": 96} | ({"input_size": side} if side else {})


def test_a_model_is_found_by_its_name(saved, tmp_path):
    export_model(Path("small"), tmp_path, settings={"min_peak_heat": 0.1}, int8=False)
    [(network, _, rest)] = saved
    assert network.config.backbone_channels == 24
    assert rest["min_peak_heat"] == 0.1


def test_a_folder_keeps_its_settings_and_card(saved, folder, tmp_path):
    export_model(folder.path, tmp_path, settings={"node_threshold": 0.7}, int8=False)
    [(_, _, rest)] = saved
    expected = ModelSettings("any", {}, input_size=SIDE, **(THRESHOLDS | {"node_threshold": 0.7}))
    assert rest.pop("card") == folder.card
    assert rest.pop("int8") is False
    assert rest == kept_settings(expected)


@pytest.mark.parametrize("start", ["the folder", "another network", "missing"])
def test_fine_tuned_weights_keep_the_thresholds_of_their_start_model(monkeypatch, trained, folder, tmp_path, start):
    calls = []

    def save(_model, _path, **rest):
        calls.append(rest)
        return folder

    monkeypatch.setattr(export_module, "save_pretrained", save)
    name = str(tmp_path / "none" if start == "missing" else folder.path)
    arrays, (_, metadata) = safetensors.read(trained), safetensors.read_header(trained)
    if start == "another network":
        name = "default"
    safetensors.write(trained, arrays, metadata | {"start_from": name})
    arguments = ["export", str(trained), "-o", str(tmp_path / "out"), "--root-threshold", "0.7"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    settings = ModelSettings("any", {}, input_size=SIDE, **THRESHOLDS)
    kept = kept_settings(settings) if start == "the folder" else {}
    assert calls == [{"card": None, "int8": True, **kept, "root_threshold": 0.7}]
    [line] = result.stderr.splitlines()
    expected = f"sizes and thresholds as in {name}" if kept else f"default thresholds: {name} is missing"
    assert expected in line


@pytest.mark.parametrize("config", [TwoStageConfig(), TwoStageConfig.hourglass(), GGTConfig()])
def test_a_baseline_cannot_be_exported(saved, tmp_path, config):
    path = tmp_path / "best.safetensors"
    safetensors.write(path, {"weight": np.zeros(3)}, {"config": json.dumps(asdict(config))})
    result = CliRunner().invoke(app, ["export", str(path), "-o", str(tmp_path / "out")])
    assert isinstance(result.exception, ModelFolderError)
    message = "weights of a baseline; only TreeFormers (default, small, paper, tiny) can be exported"
    assert str(result.exception) == f"{path}: {message}"
    assert not saved


def test_weights_with_former_setting_names_are_exported(saved, trained, tmp_path):
    arrays, (_, metadata) = safetensors.read(trained), safetensors.read_header(trained)
    settings = json.loads(metadata["config"])
    for former, current in FORMER_NAMES.items():
        settings[former] = settings.pop(current)
    safetensors.write(trained, arrays, {"config": json.dumps(settings)})
    export_model(trained, tmp_path / "out", settings={})
    assert asdict(saved[0][0].config)["num_negative_tokens"] == settings["spare_tokens"]


def test_invalid_sources_give_one_line_errors(saved, trained, folder, tmp_path):
    with pytest.raises(ModelFolderError, match=r"not the best\.safetensors of a training run"):
        load_trained(folder.weights)
    with pytest.raises(TreeformerError, match=r"none\.safetensors: No such file"):
        load_trained(tmp_path / "none.safetensors")
    with pytest.raises(ModelFolderError, match=r"none\.md: cannot be read"):
        export_model(trained, tmp_path, settings={}, card=tmp_path / "none.md")
    with pytest.raises(ModelFolderError, match="tokens cannot be 1: this network has 24"):
        export_model(trained, tmp_path, settings={}, tokens=1)
    arrays = dict(safetensors.read(trained))
    _, metadata = safetensors.read_header(trained)
    del arrays["root_head.bias"]
    safetensors.write(trained, arrays, metadata)
    with pytest.raises(ModelFolderError, match=r"another architecture \(root_head\.bias does not fit\)"):
        load_trained(trained)
    safetensors.write(trained, arrays, {"config": "{}", "progress": "{}"})
    with pytest.raises(ModelFolderError, match=r"a checkpoint for resuming; the model is in best\.safetensors"):
        load_trained(trained)
    safetensors.write(trained, arrays, {"config": '{"width": 7}'})
    with pytest.raises(ModelFolderError, match="invalid settings: width 7"):
        load_trained(trained)
