"""Model folders: complete ones, damaged ones, those of earlier versions and those of the hub."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from treeformer.cli import app
from treeformer.errors import TreeformerError
from treeformer.hub import model_folder, safetensors
from treeformer.hub.model_folder import (
    CONFIG,
    GRAPH,
    INT8_GRAPH,
    MAX_GRAPH_BYTES,
    WEIGHTS,
    ModelFolderError,
    ModelSettings,
    open_model,
    write_config,
)

SETTINGS = ModelSettings(
    "TreeFormer", {"width": 8}, input_size=64, working_size=96, node_threshold=0.4, root_threshold=0.6
)


def make(path):
    """Make a folder that is complete, except that its graph cannot be run."""
    path.mkdir()
    safetensors.write(path / WEIGHTS, {"a": np.arange(6, dtype=np.float16)})
    (path / GRAPH).write_bytes(b"a graph")
    write_config(path, SETTINGS)
    return path


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "model")


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("models") / "model")


def change(folder, **values):
    document = json.loads((folder / CONFIG).read_text()) | values
    (folder / CONFIG).write_text(json.dumps({name: value for name, value in document.items() if value is not ...}))


def test_a_written_folder_is_read(folder):
    model = open_model(folder)
    assert model.config == SETTINGS
    assert model.weights == folder / WEIGHTS
    assert model.graph() == model.graph("float32") == folder / GRAPH
    assert model.card == ""
    (folder / "card.md").write_text("# A card")
    assert open_model(str(folder)).card == "# A card"


def test_info_counts_weights_of_every_type(folder):
    """NumPy has no bfloat16, but files of other programs may."""
    header = json.dumps({"a": {"dtype": "BF16", "shape": [3, 5], "data_offsets": [0, 30]}}).encode()
    (folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + bytes(30))
    write_config(folder, SETTINGS)
    result = CliRunner().invoke(app, ["info", str(folder)])
    assert result.exit_code == 0
    assert re.search(r"weights +15\n", re.sub(" +\n", "\n", result.stdout))


def test_the_8_bit_graph_is_preferred(folder):
    with pytest.raises(ModelFolderError, match=f"this model has no {INT8_GRAPH}"):
        open_model(folder).graph("int8")
    (folder / INT8_GRAPH).write_bytes(b"a smaller graph")
    write_config(folder, SETTINGS)
    model = open_model(folder)
    assert model.graph() == model.graph("int8") == folder / INT8_GRAPH
    assert model.graph("float32") == folder / GRAPH
    with pytest.raises(ModelFolderError, match="precision is 'int4', one of auto, float32, int8"):
        model.graph("int4")


@pytest.mark.parametrize("file", [WEIGHTS, GRAPH])
def test_a_changed_byte_is_noticed(folder, file):
    content = bytearray((folder / file).read_bytes())
    content[-1] ^= 1
    (folder / file).write_bytes(content)
    with pytest.raises(ModelFolderError, match=f"{file}: damaged: its SHA-256"):
        open_model(folder)
    assert open_model(folder, check_hashes=False).config == SETTINGS


@pytest.mark.parametrize("file", [CONFIG, WEIGHTS, GRAPH])
def test_a_missing_file_is_named(folder, file):
    (folder / file).unlink()
    with pytest.raises(
        TreeformerError, match=f"{file}: No such file|there is no {file} in it; `treeformer export` creates one"
    ):
        open_model(folder)


@pytest.mark.parametrize("length", [0, 5, 8, 30, -1])
def test_weights_cut_short_are_noticed(folder, length):
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:length])
    with pytest.raises(TreeformerError, match=WEIGHTS):
        open_model(folder)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"format_version": 2}, "format_version is 2, this treeformer reads 1"),
        ({"format_version": ...}, "format_version is None"),
        ({"color": "green"}, "unknown key 'color'"),
        ({"input_size": ...}, "input_size is missing"),
        ({"sha256": ...}, "sha256 is missing"),
        ({"input_size": 64.5}, "input_size must be a whole number, not 64.5"),
        ({"input_size": True}, "input_size must be a whole number, not True"),
        ({"input_size": 1}, "input_size is 1, a multiple of 32 from 32 to 8192 px is needed"),
        ({"input_size": 100}, "input_size is 100, a multiple of 32"),
        ({"input_size": 10**9}, "input_size is 1000000000, a multiple of 32"),
        ({"input_size": 32 * 10**400}, "input_size is 320{30,}…, a multiple of 32"),
        ({"working_size": 0}, "working_size is 0, 32 to 100000 px is needed"),
        ({"working_size": 10**6}, "working_size is 1000000, 32 to 100000 px is needed"),
        ({"node_threshold": "high"}, "node_threshold must be a number, not 'high'"),
        ({"node_threshold": float("nan")}, "node_threshold is nan, a probability is needed"),
        ({"root_threshold": float("-inf")}, "root_threshold is -inf, a probability is needed"),
        ({"root_threshold": 10**400}, "root_threshold is 10{30,}…, which is too large"),
        ({"root_threshold": [0.5]}, r"root_threshold must be a number, not \[0.5\]"),
        ({"root_threshold": None}, "root_threshold must be a number, not None"),
        ({"architecture": "n" * 5000}, "architecture 'n{30,}… is too long"),
        ({"architecture": ["n" * 5000]}, r"architecture must be a text, not \['n{30,}…"),
        ({"k" * 5000: 1}, "unknown key 'k{30,}…"),
        ({"format_version": "v" * 5000}, "format_version is 'v{30,}…"),
        ({"root_threshold": 1.5}, "root_threshold is 1.5, a probability is needed"),
        ({"candidate_threshold": 0.41}, "candidate_threshold 0.41 is above node_threshold 0.4"),
        ({"version": 6}, "version must be a text, not 6"),
        ({"version": "v" * 101}, "version 'v{30,}… is too long"),
        ({"version": "6\n7"}, "version .* is too long or not printable"),
        ({"direction_weight": -1}, "direction_weight is -1.0, 0 to 1000 is needed"),
        ({"direction_weight": float("nan")}, "direction_weight is nan, 0 to 1000"),
        ({"edge_calibration": [1, 2, 3]}, "edge_calibration must have 4 values, not 3"),
        ({"edge_calibration": [1, 2, 3, float("nan")]}, "edge_calibration has values beyond ±100"),
        ({"edge_calibration": [1, 2, 3, 1e9]}, "edge_calibration has values beyond ±100"),
        ({"scale_rule": {"signal": "color", "target_px": 1}}, "signal must be one of spacing, radius, not 'color'"),
        ({"scale_rule": {"signal": "radius", "target_px": 0}}, "target_px is 0.0, up to 1000 px is needed"),
        ({"scale_rule": {"signal": "radius", "target_px": 9, "max_doublings": 60}}, "max_doublings is 60, 0 to 6"),
        ({"scale_rule": {"signal": "radius", "crowded_px": -1}}, "crowded_px is -1.0, 0 to 1000 px is needed"),
        ({"scale_rule": {"target": 9}}, "unknown key 'target'"),
        ({"scale_rule": [1]}, "scale_rule: must be a table of keys and values"),
        ({"low_confidence_threshold": 2}, "low_confidence_threshold is 2.0, a probability is needed"),
        ({"structure": {"turn": 1e9}}, "structure: turn is 1000000000.0, at most ±100 is needed"),
        ({"structure": {"turn": "much"}}, "structure: turn is 'much', at most ±100"),
        ({"settings": []}, r"settings must be a table of keys and values, not \[\]"),
        ({"architecture": ""}, "architecture is empty"),
        ({"sha256": {WEIGHTS: "00"}}, f"sha256 does not list {WEIGHTS} and {GRAPH}"),
        ({"sha256": {WEIGHTS: "00", GRAPH: "00", "../secret": "00"}}, "sha256 does not list"),
        ({"sha256": {WEIGHTS: 1, GRAPH: 2}}, "not text"),
    ],
)
def test_invalid_settings_raise_a_one_line_error(folder, values, message):
    change(folder, **values)
    with pytest.raises(ModelFolderError, match=message) as caught:
        open_model(folder)
    assert CONFIG in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(folder)) + 400


@pytest.mark.parametrize("spacing", [10**400, -1, 0.2, 1e300, float("nan"), "wide", None])
def test_an_absurd_grid_spacing_is_ignored(spacing):
    assert ModelSettings("any", {"grid_px": spacing}).tile_step == 1
    assert ModelSettings("any", {"grid_px": 44.0}).tile_step == 44


@pytest.mark.parametrize("file", [CONFIG, WEIGHTS])
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_pipe_or_a_folder_in_the_place_of_a_file_is_an_error(folder, file, kind):
    (folder / file).unlink()
    if kind == "pipe":
        os.mkfifo(folder / file)
    else:
        (folder / file).mkdir()
    with pytest.raises(ModelFolderError, match=f"{file}: (Not a regular file|Is a directory)$"):
        open_model(folder)


def test_a_pipe_in_the_place_of_the_graph_or_the_card_does_not_block(folder):
    os.mkfifo(folder / "card.md")
    assert open_model(folder).card == ""
    (folder / GRAPH).unlink()
    os.mkfifo(folder / GRAPH)
    with pytest.raises(ModelFolderError, match=f"{GRAPH}: No such file"):
        open_model(folder)


def test_a_large_config_is_not_read(folder):
    (folder / CONFIG).write_bytes(b" " * 1_000_001)
    with pytest.raises(ModelFolderError, match=r"config\.json: has 1,000,001 bytes, more than 1,000,000"):
        open_model(folder)


@pytest.mark.parametrize("file", [GRAPH, INT8_GRAPH])
def test_an_enormous_graph_is_rejected_before_it_is_hashed(folder, file, monkeypatch):
    (folder / file).write_bytes(b"a graph")
    write_config(folder, SETTINGS)
    with (folder / file).open("r+b") as graph:
        graph.truncate(MAX_GRAPH_BYTES + 1)  # a sparse file
    monkeypatch.setattr(model_folder, "sha256", None)
    with pytest.raises(ModelFolderError, match=f"{file}: has 2,147,483,649 bytes, more than 2,147,483,648"):
        open_model(folder)


def test_an_enormous_header_is_rejected_quickly(folder):
    entry = json.dumps({"dtype": "U8", "shape": [0], "data_offsets": [0, 0]})
    header = ("{" + ",".join(f'"{number}":{entry}' for number in range(300_000)) + "}").encode()
    (folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header)
    begin = time.process_time()
    with pytest.raises(ModelFolderError, match=f"{WEIGHTS}: its header has [0-9,]+ bytes, more than 1,000,000"):
        open_model(folder)
    assert time.process_time() - begin < 10  # milliseconds; reading the header would take a minute


@pytest.mark.parametrize("name", ["n" * 5000, "a/" + "n" * 5000, "n\0n", "two\nlines"])
def test_a_name_that_no_folder_can_have_is_an_error_of_one_line(name):
    with pytest.raises(ModelFolderError, match="no such folder") as caught:
        open_model(name)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_folders_without_the_newer_settings_are_read(folder):
    change(folder, **dict.fromkeys(model_folder.OPTIONAL, ...))
    assert open_model(folder).config == SETTINGS


def test_newer_settings_are_written_and_read(folder):
    settings = replace(
        SETTINGS,
        version="7",
        direction_weight=8.0,
        edge_calibration=(3.9, 0.8, 0.5, 2.2),
        scale_rule=model_folder.ScaleRule("spacing", 13.0, 2),
        low_confidence_threshold=0.5,
        structure={"turn": 2.4, "presence": -4.0},
    )
    write_config(folder, settings)
    assert open_model(folder).config == settings


FORMER = {"candidate_score": 0.3, "peak_heat": 0.05}


def test_former_setting_names_are_read_and_replaced_on_writing(folder):
    change(folder, candidate_threshold=..., min_peak_heat=..., **FORMER)
    model = open_model(folder)
    assert (model.config.candidate_threshold, model.config.min_peak_heat) == (0.3, 0.05)
    assert open_model(write_config(folder, model.config).path).config == model.config
    written = json.loads((folder / CONFIG).read_text())
    assert (written["candidate_threshold"], written["min_peak_heat"]) == (0.3, 0.05)
    assert written.keys().isdisjoint(FORMER)


@pytest.mark.parametrize(
    ("former", "current"), [("candidate_score", "candidate_threshold"), ("peak_heat", "min_peak_heat")]
)
def test_an_invalid_value_of_a_former_setting_is_reported_by_its_current_name(folder, former, current):
    change(folder, **{current: ..., former: 1.5})
    with pytest.raises(ModelFolderError, match=f"{current} is 1.5, a probability is needed"):
        open_model(folder)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=2)
)


@given(st.sampled_from([*SETTINGS.__dataclass_fields__, "sha256", "format_version", "other"]), json_values)
def test_any_value_is_accepted_or_rejected_in_one_line(shared_folder, name, value):
    before = (shared_folder / CONFIG).read_text()
    message = ""
    try:
        change(shared_folder, **{name: value})
        open_model(shared_folder)
    except TreeformerError as error:
        message = str(error)
    finally:
        (shared_folder / CONFIG).write_text(before)
    assert len(message.splitlines()) <= 1


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode) | st.just(b"[" * 50_000))
def test_any_bytes_for_a_config_are_rejected_in_one_line(shared_folder, content):
    before = (shared_folder / CONFIG).read_bytes()
    (shared_folder / CONFIG).write_bytes(content)
    try:
        with pytest.raises(ModelFolderError, match=CONFIG):
            open_model(shared_folder)
    finally:
        (shared_folder / CONFIG).write_bytes(before)


def test_the_default_model_is_in_the_package(folder, monkeypatch):
    monkeypatch.setattr(model_folder, "DEFAULT_FOLDER", folder)
    assert open_model().path == open_model("default").path == folder
    monkeypatch.setattr(model_folder, "DEFAULT_FOLDER", folder / "none")
    with pytest.raises(ModelFolderError, match="no default model"):
        open_model()


def test_the_small_model_of_the_package_is_small_and_has_the_outputs_of_the_default_one():
    small, default = open_model("small"), open_model("default")
    assert sum(file.stat().st_size for file in small.path.iterdir()) < 6_000_000
    assert small.config.settings["width"] < default.config.settings["width"]
    for setting in ("grid_px", "heatmap_upsampling", "node_attributes", "tokens"):
        assert small.config.settings[setting] == default.config.settings[setting], setting
    assert small.config.scale_rule is not None
    assert small.config.edge_calibration is not None
    assert "# treeformer small" in small.card


def test_the_small_model_is_found_as_soon_as_it_is_in_the_package(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(model_folder, "SMALL_FOLDER", tmp_path / "none")
    with pytest.raises(ModelFolderError, match="this version of treeformer has no small model: use default") as error:
        open_model("small")
    assert "\n" not in str(error.value)
    result = CliRunner().invoke(app, ["info", "small"])
    assert result.exit_code != 0
    assert isinstance(result.exception, ModelFolderError)
    monkeypatch.setattr(model_folder, "SMALL_FOLDER", folder)
    assert open_model("small").path == folder
    monkeypatch.setattr(model_folder, "SMALL_FOLDER", tmp_path / "none")
    make(tmp_path / "small")
    assert open_model("small").config == SETTINGS, "a folder of that name is used if the package has none"


def test_a_mistyped_name_lists_the_models_of_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelFolderError, match=r"^smal: no such folder, and no model .*: these are default and small$"):
        open_model("smal")


@pytest.mark.parametrize("name", ["no/such/folder", "/nowhere/at/all", "../x", "./x", "a/", "/b"])
def test_a_missing_folder_is_not_searched_on_the_hub(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # another folder may have a neighbor of this name
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelFolderError, match=r"no such folder$"):
        open_model(name)


def test_a_file_is_not_a_folder(folder):
    with pytest.raises(ModelFolderError, match="not a folder; `treeformer export` creates one"):
        open_model(folder / WEIGHTS)


class TestHub:
    """Models on the Hugging Face hub; its library is replaced or offline."""

    def test_its_folder_is_opened_like_any_other(self, folder, monkeypatch):
        hub = pytest.importorskip("huggingface_hub")
        requests = []
        monkeypatch.setattr(
            hub,
            "snapshot_download",
            lambda name, allow_patterns: requests.append((name, allow_patterns)) or str(folder),
        )
        assert open_model("someone/some-model_1.0").path == folder
        [(name, patterns)] = requests
        assert name == "someone/some-model_1.0"
        assert set(patterns) == {CONFIG, WEIGHTS, GRAPH, INT8_GRAPH, "card.md"}

    def test_without_network_a_model_must_be_in_the_cache(self, tmp_path, monkeypatch):
        pytest.importorskip("huggingface_hub")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
        with pytest.raises(
            ModelFolderError, match="someone/model: no such folder, and not available from the hub"
        ) as e:
            open_model("someone/model")
        assert "\n" not in str(e.value)

    def test_without_its_library_the_error_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)
        with pytest.raises(ModelFolderError, match=r"pip install 'treeformer\[hub\]'"):
            open_model("someone/model")
