"""Model folders: written from a network, run by both engines, and read back."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from typer.testing import CliRunner

from tests.models.untrained import LARGE, SIDE, THRESHOLDS, drawn_and_painted, network
from treeformer.cli import app
from treeformer.decoding.decode import decode
from treeformer.decoding.node_kinds import WIDTH
from treeformer.errors import TreeformerError
from treeformer.hub import safetensors
from treeformer.hub.model_folder import GRAPH, INT8_GRAPH, WEIGHTS, ModelFolderError, open_model
from treeformer.inference.engine import RawPrediction
from treeformer.inference.open_engine import open_engine
from treeformer.models import (
    InferenceModel,
    TreeFormer,
    TreeFormerConfig,
    from_pretrained,
    onnx_graph,
    save_pretrained,
)
from treeformer.models.export import find_start_model
from treeformer.nn.node_kind import probabilities

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def images():
    return drawn_and_painted(4)


def test_the_weights_are_stored_once(folder):
    assert sorted(file.name for file in folder.path.iterdir()) == [
        "card.md", "config.json", INT8_GRAPH, GRAPH, WEIGHTS,
    ]  # fmt: skip
    entries, _ = safetensors.read_header(folder.weights)
    for precision in ("float32", "int8"):
        graph = onnx.load(folder.graph(precision), load_external_data=False).graph
        outside = [tensor for tensor in graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL]
        assert len(outside) > 0.9 * len(entries)  # auxiliary heads of the losses are not exported
        inside = sum(len(tensor.SerializeToString()) for tensor in graph.initializer) + sum(
            len(node.SerializeToString()) for node in graph.node if node.op_type == "Constant"
        )
        assert inside < 150_000 < folder.weights.stat().st_size


@pytest.mark.parametrize("part", [slice(0, 1), slice(1, 4)], ids=["one image", "three"])
def test_both_engines_give_the_same_numbers_and_trees(folder, images, part):
    batch = images[part]
    onnx_raw = open_engine(folder, "onnx", precision="float32")(batch)
    torch_raw = open_engine(folder, "torch")(batch)
    np.testing.assert_allclose(onnx_raw.node_score, torch_raw.node_score, atol=2e-3, rtol=1e-3)
    np.testing.assert_allclose(onnx_raw.lines.astype(float), torch_raw.lines, atol=1)
    assert onnx_raw.lines.dtype == torch_raw.lines.dtype == np.uint8
    assert onnx_raw.lines.shape == (len(batch), SIDE // 2, SIDE // 2, 3)
    for first, second in zip(onnx_raw[:6], torch_raw[:6], strict=True):
        assert first.shape == second.shape
        assert first.dtype == second.dtype == np.float32
        for row, count in enumerate((onnx_raw.node_score > 0).sum(1)):
            own = (row, *[slice(count)] * (2 if first is onnx_raw.edge_cost else 1))
            np.testing.assert_allclose(first[own], second[own], atol=2e-3, rtol=1e-3)
    for first, second in zip(trees(onnx_raw, folder), trees(torch_raw, folder), strict=True):
        assert np.array_equal(first.edges, second.edges)
        assert np.array_equal(first.root, second.root)
        np.testing.assert_allclose(first.nodes, second.nodes, atol=2e-3)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("value", [0, 255])
def test_a_blank_image_gives_a_forest(folder, precision, value):
    # All cells are equal, so that rounding decides which of them an untrained network turns into nodes.
    raw = open_engine(folder, "onnx", precision=precision)(np.full((2, SIDE, SIDE, 3), value, np.uint8))
    assert all(np.isfinite(array).all() for array in raw)
    np.testing.assert_allclose(raw.node_score[0], raw.node_score[1], atol=1e-6)
    assert all(tree.is_forest for tree in trees(raw, folder))


def trees(raw, folder):
    thresholds = {name: getattr(folder.config, name) for name in ("node_threshold", "root_threshold")}
    return [decode(*arrays, **thresholds) for arrays in zip(*raw[:4], strict=True)]


def test_candidates_are_exactly_the_tokens_above_the_threshold(folder, images):
    engine = open_engine(folder, "torch")
    everything = InferenceModel(from_pretrained(folder.path), 0.0, THRESHOLDS["min_peak_heat"])
    counts = set()
    for image in images:
        raw = engine(image[None])
        with torch.no_grad():
            full = RawPrediction(*(tensor.numpy() for tensor in everything(torch.from_numpy(image[None]))))
        kept = max(2, int((full.node_score >= THRESHOLDS["candidate_threshold"]).sum()))
        assert full.node_score.shape[1] <= 24
        np.testing.assert_allclose(raw.node_score, full.node_score[:, :kept], atol=1e-5)
        np.testing.assert_allclose(raw.edge_cost, full.edge_cost[:, :kept, :kept], atol=1e-4)
        counts.add(kept)
    assert len(counts) > 1


def test_8_bits_are_close(folder):
    """Candidates are compared by position: many scores of an untrained network are equal, so their ranks differ."""
    images = drawn_and_painted(20)
    exact = open_engine(folder, "onnx", precision="float32")(images)
    rough = open_engine(folder, "onnx")(images)
    differences, candidates = [], 0
    for scores, points, rough_scores, rough_points in zip(
        exact.node_score, exact.points, rough.node_score, rough.points, strict=True
    ):
        rough_points = rough_points[rough_scores > 0]
        for score, point in zip(scores[scores > 0], points[scores > 0], strict=True):
            candidates += 1
            distance = np.hypot(*(rough_points - point).T)
            if distance.min(initial=np.inf) < 2:
                differences.append(abs(score - rough_scores[distance.argmin()]))
    assert len(differences) > 0.8 * candidates > 0
    assert np.mean(differences) < 0.02


def test_attributes_are_those_of_the_head(folder, images):
    """Both engines return, for each candidate, the attribute head's output at the token with the candidate's point."""
    network = from_pretrained(folder.path)
    with torch.no_grad():
        found = network.detect(
            torch.from_numpy(images[:1]).permute(0, 3, 1, 2).float() / 255, min_peak_heat=THRESHOLDS["min_peak_heat"]
        )
        expected = found.decoded.tokens[0] @ network.attribute_head.weight.T + network.attribute_head.bias
    for engine in ("onnx", "torch"):
        raw = open_engine(folder, engine, **({"precision": "float32"} if engine == "onnx" else {}))(images[:1])
        assert raw.attributes.shape == (*raw.node_score.shape, 3)
        assert np.ptp(raw.attributes, axis=1).min() > 0.1, "the attributes differ between nodes"
        for point, values in zip(raw.points[0], raw.attributes[0], strict=True):
            token = (found.decoded.points[-1][0] - torch.from_numpy(point)).abs().sum(-1).argmin()
            np.testing.assert_allclose(values, expected[token], atol=5e-3)


def test_kinds_and_lines_are_those_of_the_heads(folder, images):
    network = from_pretrained(folder.path)
    with torch.no_grad():
        found = network.detect(
            torch.from_numpy(images[:1]).permute(0, 3, 1, 2).float() / 255, min_peak_heat=THRESHOLDS["min_peak_heat"]
        )
        expected = probabilities(network.kind_head(found.decoded.tokens[0]))
    for engine in ("onnx", "torch"):
        raw = open_engine(folder, engine, **({"precision": "float32"} if engine == "onnx" else {}))(images[:1])
        assert raw.kinds.shape == (*raw.node_score.shape, WIDTH)
        for point, values in zip(raw.points[0], raw.kinds[0], strict=True):
            token = (found.decoded.points[-1][0] - torch.from_numpy(point)).abs().sum(-1).argmin()
            np.testing.assert_allclose(values, expected[token], atol=5e-3)
        np.testing.assert_allclose(raw.lines[0, ..., 0] / 255, found.features.lines[0, 0].sigmoid(), atol=0.01)
        assert np.ptp(raw.lines[..., 1]) > 5, "the tangents differ between cells"


def test_a_model_without_attributes_has_no_such_output(tmp_path, images, monkeypatch):
    torch.manual_seed(0)
    small = {"backbone_blocks": (1, 1), "decoder_layers": 1, "relation_min_stride": 16, "node_attributes": False}
    outputs: dict[str, torch.Tensor] = {}

    class Program:
        """What the export returns. Exporting a second network would take as long as all other tests of this file."""

        model_proto = onnx.ModelProto()

    def export(module, arguments, *, output_names, **_options):
        outputs.update(zip(output_names, module(*arguments), strict=True))
        return Program()

    with monkeypatch.context() as patch, torch.inference_mode():
        patch.setattr(torch.onnx, "export", export)
        model = TreeFormer(TreeFormerConfig.tiny(tokens=8, **small))
        folder = save_pretrained(model, tmp_path, input_size=SIDE, int8=False)
    assert list(outputs) == ["node_score", "points", "edge_cost", "root_logit"]
    assert [array.dim() for array in outputs.values()] == [2, 3, 3, 2]
    assert open_engine(folder, "torch")(images[:1]).attributes is None
    default = open_model("default")
    image = np.zeros((1, default.config.input_size, default.config.input_size, 3), np.uint8)
    attributes = open_engine(default, "onnx")(image).attributes
    assert attributes is not None
    assert attributes.shape[::2] == (1, 3)
    # A run that starts from this model adds the head. Its export still takes over the sizes and thresholds.
    weights, path = safetensors.read(folder.weights), tmp_path / "best.safetensors"
    weights |= {"attribute_head.weight": np.zeros((3, 64)), "attribute_head.bias": np.zeros(3)}
    safetensors.write(path, weights, {"start_from": str(tmp_path)})
    assert find_start_model(path) == (str(tmp_path), folder)
    safetensors.write(path, weights | {"other.bias": np.zeros(3)}, {"start_from": str(tmp_path)})
    assert find_start_model(path) == (str(tmp_path), None)


def test_saved_weights_and_config_are_loaded(folder, model):
    loaded = from_pretrained(folder.path)
    assert loaded.config == model.config
    assert not loaded.training
    for name, tensor in model.state_dict().items():
        rounded = tensor.half().float() if tensor.dim() > 1 else tensor
        assert torch.equal(loaded.state_dict()[name], rounded), name
    assert open_model(folder.path) == folder


def test_a_graph_is_reused_for_other_weights(folder, images, tmp_path, monkeypatch):
    def no_trace(*_args):
        raise AssertionError("traced again")

    monkeypatch.setattr(onnx_graph, "trace", no_trace)
    changed = network()
    with torch.no_grad():
        for tensor in (*changed.neck.parameters(), *changed.decoder.parameters()):
            tensor.mul_(0.8)
    other = save_pretrained(changed, tmp_path / "other", input_size=SIDE, like=folder, **THRESHOLDS)
    raw = open_engine(other, "onnx", precision="float32")(images)
    expected = open_engine(other, "torch")(images)
    np.testing.assert_allclose(raw.node_score, expected.node_score, atol=2e-3, rtol=1e-3)
    before = open_engine(folder, "torch")(images)
    width = min(before.node_score.shape[1], expected.node_score.shape[1])
    assert np.abs(before.node_score[:, :width] - expected.node_score[:, :width]).max() > 0.01
    # With the first weights again, the files are those of the full export, the 8-bit graph included.
    again = save_pretrained(network(), tmp_path / "again", input_size=SIDE, like=other, **THRESHOLDS)
    assert again.hashes == folder.hashes
    for difference in ({"min_peak_heat": 0.1}, {"candidate_threshold": 0.1}, {"input_size": 128}):
        settings = replace(folder.config, **difference)
        assert not onnx_graph.has_same_graph(folder.path, settings, folder)
    more_tokens = replace(folder.config, settings={**folder.config.settings, "tokens": 32})
    assert not onnx_graph.has_same_graph(folder.path, more_tokens, folder)
    shutil.copyfile(open_model("default").weights, tmp_path / WEIGHTS)
    assert not onnx_graph.has_same_graph(tmp_path, folder.config, folder)
    assert onnx_graph.has_same_graph(folder.path, replace(folder.config, node_threshold=0.5), folder)


def test_the_onnx_engine_needs_no_torch(folder, images, tmp_path):
    np.save(tmp_path / "images.npy", images)
    code = f"""
import sys; sys.modules["torch"] = None
import numpy as np
from treeformer.inference.open_engine import open_engine
from treeformer.hub.model_folder import open_model
engine = open_engine(open_model({str(folder.path)!r}), threads=1)
print(engine.name, engine(np.load({str(tmp_path / "images.npy")!r})).points.shape[0])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["onnx", "int8", "4"]


def test_invalid_arguments_give_one_line_errors(folder, model, images, tmp_path):
    engine = open_engine(folder, "onnx", threads=1)
    for wrong in (images[:, :32], images.astype(float), images[0], images[:0]):
        with pytest.raises(TreeformerError, match=r"\(B,64,64,3\) of uint8 is needed"):
            engine(wrong)
    with pytest.raises(TreeformerError, match="engine must be auto, onnx or torch, not 'tensorflow'"):
        open_engine(folder, "tensorflow")
    for engine in ("onnx", "torch"):
        with pytest.raises(TreeformerError, match="threads must be an integer of at least 1, not 0"):
            open_engine(folder, engine, threads=0)
    with pytest.raises(TreeformerError, match="device 'toaster'"):
        open_engine(folder, "torch", device="toaster")
    with pytest.raises(ModelFolderError, match="input_size is 100, a multiple of 32"):
        save_pretrained(model, tmp_path, input_size=100)
    coarse = TreeFormer(TreeFormerConfig.tiny(backbone_blocks=(1, 1, 1, 1)))
    with pytest.raises(ModelFolderError, match="input_size 96 is not a multiple of 64"):
        save_pretrained(coarse, tmp_path, input_size=96)
    dense = TreeFormer(TreeFormerConfig.tiny(tokens=257))
    with pytest.raises(ModelFolderError, match="257 tokens are more than the 256 cells of the heat map of 32 px"):
        save_pretrained(dense, tmp_path, input_size=32)
    with pytest.raises(TypeError):
        save_pretrained(model, tmp_path, color="green")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_graph_gives_a_one_line_error(folder, tmp_path):
    (tmp_path / GRAPH).write_bytes(b"no graph")
    broken = type(folder)(tmp_path, folder.config)
    with pytest.raises(TreeformerError, match=GRAPH) as caught:
        open_engine(broken, "onnx")
    assert "\n" not in str(caught.value)


def test_weights_too_large_for_their_type_are_refused(tmp_path):
    model = network()
    with torch.no_grad():
        model.backbone.conv1.weight[0] = LARGE
    with pytest.raises(ModelFolderError, match=r"backbone\.conv1\.weight has values that float16 cannot hold"):
        save_pretrained(model, tmp_path, input_size=SIDE)


def test_an_export_that_stops_leaves_the_model_that_was_there(folder, tmp_path, monkeypatch):
    mine = tmp_path / "mine"
    shutil.copytree(folder.path, mine)
    before = {file.name: file.read_bytes() for file in mine.iterdir()}
    changed = network()
    with torch.no_grad():
        for tensor in changed.neck.parameters():
            tensor += 1

    def stop(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(onnx_graph, "write_graphs", stop)
    with pytest.raises(KeyboardInterrupt):
        save_pretrained(changed, mine, input_size=SIDE)
    assert {file.name: file.read_bytes() for file in mine.iterdir()} == before

    def write_one(path, *_args, **_options):
        (path / GRAPH).write_bytes(b"new")

    monkeypatch.setattr(onnx_graph, "write_graphs", write_one)
    new = save_pretrained(changed, mine, input_size=SIDE, int8=False)
    assert open_model(mine) == new
    assert sorted(file.name for file in mine.iterdir()) == ["card.md", "config.json", GRAPH, WEIGHTS]


def test_info_describes_a_model(folder):
    result = CliRunner().invoke(app, ["info", str(folder.path)])
    assert result.exit_code == 0
    for text in ("TreeFormer", "64 × 64 px", "0.25", "Untrained.", folder.hashes[GRAPH][:16], "24 per input"):
        assert text in result.stdout
