"""Opening model folders: whole ones, broken ones, those of the hub."""

from __future__ import annotations

import json
import re
import sys

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
    """A folder that is whole, as far as can be told without running it."""
    path.mkdir()
    safetensors.write(path / WEIGHTS, {"a": np.arange(6, dtype=np.float16)})
    (path / GRAPH).write_bytes(b"a graph")
    write_config(path, SETTINGS)
    return path


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "model")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return make(tmp_path_factory.mktemp("models") / "model")


def change(folder, **values):
    document = json.loads((folder / CONFIG).read_text()) | values
    (folder / CONFIG).write_text(json.dumps({name: value for name, value in document.items() if value is not ...}))


def test_what_was_written_is_read(folder):
    model = open_model(folder)
    assert model.config == SETTINGS
    assert model.weights == folder / WEIGHTS
    assert model.graph() == model.graph("float32") == folder / GRAPH
    assert model.card == ""
    (folder / "card.md").write_text("# A card")
    assert open_model(str(folder)).card == "# A card"


def test_info_counts_weights_of_every_type(folder):
    """NumPy has no bfloat16, but others' files have."""
    header = json.dumps({"a": {"dtype": "BF16", "shape": [3, 5], "data_offsets": [0, 30]}}).encode()
    (folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + bytes(30))
    write_config(folder, SETTINGS)
    result = CliRunner().invoke(app, ["info", str(folder)])
    assert result.exit_code == 0
    assert re.search(r"weights +15\n", re.sub(" +\n", "\n", result.stdout))


def test_8_bits_are_taken_where_they_are(folder):
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
        TreeformerError, match=f"{file}: No such file|there is no {file} in it; `treeformer export` makes one"
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
        ({"color": "green"}, "unknown setting 'color'"),
        ({"input_size": ...}, "input_size is missing"),
        ({"sha256": ...}, "sha256 is missing"),
        ({"input_size": 64.5}, "input_size is 64.5, a whole number is needed"),
        ({"input_size": True}, "input_size is True, a whole number is needed"),
        ({"working_size": 0}, "working_size is 0, at least 1 px"),
        ({"node_threshold": "high"}, "node_threshold is 'high', a number is needed"),
        ({"node_threshold": float("nan")}, "node_threshold is nan, a number is needed"),
        ({"root_threshold": 1.5}, "root_threshold is 1.5, a probability is needed"),
        ({"candidate_threshold": 0.41}, "candidate_threshold 0.41 is above node_threshold 0.4"),
        ({"settings": []}, r"settings is \[\], a table is needed"),
        ({"architecture": ""}, "architecture is empty"),
        ({"sha256": {WEIGHTS: "00"}}, f"sha256 does not name {WEIGHTS} and {GRAPH}"),
        ({"sha256": {WEIGHTS: "00", GRAPH: "00", "../secret": "00"}}, "sha256 does not name"),
        ({"sha256": {WEIGHTS: 1, GRAPH: 2}}, "not text"),
    ],
)
def test_wrong_settings_are_one_line(folder, values, message):
    change(folder, **values)
    with pytest.raises(ModelFolderError, match=message) as caught:
        open_model(folder)
    assert CONFIG in str(caught.value)
    assert "\n" not in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=2)
)


@given(st.sampled_from([*SETTINGS.__dataclass_fields__, "sha256", "format_version", "other"]), json_values)
def test_any_value_is_taken_or_refused_in_one_line(whole, name, value):
    before = (whole / CONFIG).read_text()
    message = ""
    try:
        change(whole, **{name: value})
        open_model(whole)
    except TreeformerError as error:
        message = str(error)
    finally:
        (whole / CONFIG).write_text(before)
    assert len(message.splitlines()) <= 1


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode) | st.just(b"[" * 50_000))
def test_any_bytes_for_a_config_are_refused_in_one_line(whole, content):
    before = (whole / CONFIG).read_bytes()
    (whole / CONFIG).write_bytes(content)
    try:
        with pytest.raises(ModelFolderError, match=CONFIG):
            open_model(whole)
    finally:
        (whole / CONFIG).write_bytes(before)


def test_the_default_model_is_a_folder_of_the_package(folder, monkeypatch):
    monkeypatch.setattr(model_folder, "DEFAULT_FOLDER", folder)
    assert open_model().path == open_model("default").path == folder
    monkeypatch.setattr(model_folder, "DEFAULT_FOLDER", folder / "none")
    with pytest.raises(ModelFolderError, match="no default model"):
        open_model()


@pytest.mark.parametrize("name", ["nothing", "no/such/folder", "/nowhere/at/all", "../x", "./x", "a/", "/b"])
def test_a_name_that_is_no_folder_asks_nobody(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelFolderError, match=r"no such folder$"):
        open_model(name)


def test_a_file_is_not_a_folder(folder):
    with pytest.raises(ModelFolderError, match="not a folder; `treeformer export` makes one"):
        open_model(folder / WEIGHTS)


class TestHub:
    """A model of the Hugging Face hub, whose library is told what to answer."""

    def test_its_folder_is_opened_like_any_other(self, folder, monkeypatch):
        hub = pytest.importorskip("huggingface_hub")
        asked = []
        monkeypatch.setattr(
            hub, "snapshot_download", lambda name, allow_patterns: asked.append((name, allow_patterns)) or str(folder)
        )
        assert open_model("someone/some-model_1.0").path == folder
        [(name, patterns)] = asked
        assert name == "someone/some-model_1.0"
        assert set(patterns) == {CONFIG, WEIGHTS, GRAPH, INT8_GRAPH, "card.md"}

    def test_without_a_network_only_what_was_downloaded_before_opens(self, tmp_path, monkeypatch):
        pytest.importorskip("huggingface_hub")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
        with pytest.raises(
            ModelFolderError, match="someone/model: no such folder, and not to be had from the hub"
        ) as e:
            open_model("someone/model")
        assert "\n" not in str(e.value)

    def test_without_its_library_one_line_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)
        with pytest.raises(ModelFolderError, match=r"pip install 'treeformer\[hub\]'"):
            open_model("someone/model")
