"""Inference with CUDA graphs, compared with eager inference. On a CPU, a stand-in replaces CUDA graphs."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_flatten

from tests.models.untrained import SIDE, THRESHOLDS, network
from tests.nn.kernels import needs_cuda
from treeformer.hub.model_folder import GRAPH, WEIGHTS, ModelSettings, write_config
from treeformer.inference import cuda_graphs
from treeformer.inference.cuda_graphs import CudaGraphCache, CudaGraphInference, padded_batch_size, round_up
from treeformer.inference.torch_engine import TorchEngine
from treeformer.models import InferenceModel, TreeFormer, TreeFormerConfig
from treeformer.models.export import ARCHITECTURE, write_weights
from treeformer.synthetic import make_image

CANDIDATE_SCORE = 0.25
FEW_HEADS = {"node_kinds": False, "center_lines": False}
STAGES = ("encode", "decode_tokens", "predict_edges")


class FakeGraph:
    """A stand-in for a CUDA graph: runs its stage again and writes into the tensors of its first outputs.

    Like graphs that share memory, a replay overwrites the outputs of all graphs that were captured later.
    """

    def __init__(self, stage, share_with) -> None:
        stage()
        self.stage, self.outputs = stage, stage()
        self.all = share_with.all if share_with else []
        self.all.append(self)

    def tensors(self):
        return [leaf for leaf in tree_flatten(self.outputs)[0] if isinstance(leaf, torch.Tensor)]

    def replay(self):
        for later in self.all[self.all.index(self) + 1 :]:
            for tensor in later.tensors():
                tensor.fill_(torch.nan if tensor.is_floating_point() else 1)
        fresh = tree_flatten(self.stage())[0]
        for old, new in zip(self.tensors(), (leaf for leaf in fresh if isinstance(leaf, torch.Tensor)), strict=True):
            old.copy_(new)
        return self.outputs


def random_images(count: int, seed: int) -> torch.Tensor:
    """Return plants, noise and blank pages, which have very different numbers of peaks and candidates."""
    random = np.random.default_rng(seed)
    images = []
    for number in range(count):
        kind = random.integers(4)
        if kind == 0:
            images.append(np.full((SIDE, SIDE, 3), random.integers(256), np.uint8))
        elif kind == 1:
            images.append(random.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8))
        else:
            images.append(make_image("paper", ("paper", "photo")[kind - 2], 97 * seed + number, (SIDE, SIDE))[0])
    return torch.from_numpy(np.stack(images))


def assert_same(plain, groups, atol=1e-4) -> int:
    """Check that the candidates of each image are the same; return their total number."""
    all_rows, total = [], 0
    for rows, candidates in groups:
        assert len(rows) == len(candidates[0])
        all_rows += rows
        for index, row in enumerate(rows):
            count = int((plain[0][row] > 0).sum())
            total += count
            assert int((candidates[0][index] > 0).sum()) == count
            for whole, part in zip(plain, candidates, strict=True):
                own = (slice(None if whole.dtype == torch.uint8 else count),) * (2 if whole is plain[2] else 1)
                torch.testing.assert_close(part[index][own], whole[row][own], atol=atol, rtol=1e-3)
    assert sorted(all_rows) == list(range(len(plain[0])))
    return total


def predict_groups(model: CudaGraphInference, images: torch.Tensor):
    return [(rows, [part.clone() for part in candidates]) for rows, candidates in model.predict_in_groups(images)]


@pytest.fixture
def small_steps(monkeypatch):
    """Reduce the steps, so that 24 tokens give several token counts, and six images give several groups."""
    monkeypatch.setattr(cuda_graphs, "STEPS", (6, 3))
    monkeypatch.setattr(cuda_graphs, "COARSE_STEPS", (8, 8))
    monkeypatch.setattr(cuda_graphs, "GROUP_SIZE", 4)
    monkeypatch.setattr("treeformer.models.inference_model.GROUP_SIZE", 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("min_peak_heat", "heads"), [(0.0, {}), (THRESHOLDS["min_peak_heat"], {}), (THRESHOLDS["min_peak_heat"], FEW_HEADS)]
)
@torch.inference_mode()
def test_graphs_change_nothing_for_any_order_of_shapes(small_steps, one_thread, min_peak_heat, heads):
    plain = InferenceModel(network(**heads), CANDIDATE_SCORE, min_peak_heat)
    cache = CudaGraphCache(FakeGraph)
    model = CudaGraphInference(plain, cache)
    total = 0
    for turn, count in enumerate([1, 6, 8, 1, 5, 1, 7, 8, 2, 1, 6, 8, 1, 3, 5, 8, 1, 1, 7, 8, 6]):
        images = random_images(count, seed=turn)
        total += assert_same(plain(images), predict_groups(model, images))
    assert total > 200
    captured = [stage for stage, *_ in cache._graphs]
    assert all(captured.count(stage) >= 2 for stage in STAGES), "graphs have been used"
    assert captured.count("predict_edges") > captured.count("encode"), "for several numbers of candidates"


@pytest.mark.slow
@torch.inference_mode()
def test_graphs_with_learned_tokens(small_steps, one_thread):
    torch.manual_seed(0)
    config = TreeFormerConfig.tiny(tokens=10, token_source="learned", grid_px=0.0, backbone_blocks=(1, 1, 1))
    plain = InferenceModel(TreeFormer(config).eval(), 0.05, 0.03)
    cache = CudaGraphCache(FakeGraph)
    model = CudaGraphInference(plain, cache)
    for turn in range(6):
        images = random_images(2, seed=turn)
        assert assert_same(plain(images), predict_groups(model, images)) > 0
    assert {stage for stage, *_ in cache._graphs} == set(STAGES)


def test_a_shape_is_captured_at_its_third_use_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(cuda_graphs, "MAX_GRAPHS", 2)
    cache = CudaGraphCache(FakeGraph)
    for _ in range(4):
        for key in "abc":
            assert cache.run(key, lambda key=key: key) == key
    assert list(cache._graphs) == ["a", "b"]
    fresh = CudaGraphCache(FakeGraph)
    assert [fresh.has("a", lambda: None) for _ in range(4)] == [False, False, True, True]


def test_a_stage_runs_eagerly_if_its_capture_is_out_of_memory():
    attempts = []

    class TooLarge:
        def __init__(self, *_) -> None:
            attempts.append(self)
            raise torch.OutOfMemoryError("CUDA out of memory")

    cache = CudaGraphCache(TooLarge)
    assert [cache.run("a", lambda: 7) for _ in range(5)] == [7] * 5
    assert len(attempts) == 1, "the capture is not repeated"


def test_other_errors_of_a_capture_are_raised():
    def fails(*_):
        raise RuntimeError("operation not permitted when stream is capturing")

    cache = CudaGraphCache(fails)
    with pytest.raises(RuntimeError, match="not permitted"):
        [cache.run("a", lambda: 7) for _ in range(3)]


def test_sizes_of_batches_and_steps():
    sizes = [padded_batch_size(count) for count in (1, 2, 3, 5, 16, 33, 64, 65, 130)]
    assert sizes == [1, 2, 4, 8, 16, 64, 64, 128, 192]
    assert [round_up(count, 16, 40) for count in (2, 16, 17, 39, 40)] == [16, 16, 32, 40, 40]


@pytest.fixture(scope="module", params=[{}, FEW_HEADS], ids=["all heads", "few heads"])
def folder(request, tmp_path_factory):
    """Return a model folder with an empty ONNX graph, which torch does not read."""
    path, model = tmp_path_factory.mktemp("tiny"), network(**request.param)
    write_weights(path / WEIGHTS, model)
    (path / GRAPH).touch()
    settings = json.loads(json.dumps(asdict(model.config)))
    return write_config(path, ModelSettings(ARCHITECTURE, settings, input_size=SIDE, **THRESHOLDS))


@pytest.mark.slow
def test_an_engine_with_graphs_gives_the_same_arrays(folder, small_steps, one_thread):
    """Covers everything of an engine on a GPU but the graphs."""
    plain, graphed = (TorchEngine(folder, device="cpu") for _ in range(2))
    graphed._model = CudaGraphInference(graphed._model, CudaGraphCache(FakeGraph))
    for turn, count in enumerate([6, 1, 8, 7, 1, 6, 1, 1, 8, 8, 5, 1]):
        images = random_images(count, seed=turn).numpy()
        expected, found = plain(images), graphed(images)
        for first, second in zip(expected, found, strict=True):
            if first is None:
                assert second is None
            else:
                assert first.shape == second.shape
                assert first.dtype == second.dtype
        if expected.lines is not None:
            assert np.abs(expected.lines.astype(int) - found.lines).max() <= 1
        for row, count in enumerate((expected.node_score > 0).sum(1)):
            for first, second in zip(expected[:6], found[:6], strict=True):
                if first is None:
                    continue
                own = (row, *(slice(count),) * (2 if first is expected.edge_cost else 1))
                np.testing.assert_allclose(second[own], first[own], atol=1e-4, rtol=1e-3)
    assert len(graphed._model.cache) > 5


def is_close(first, second) -> bool:
    """Return True if two arrays of an image differ only by the rounding of another kernel."""
    return first.shape == second.shape and np.allclose(first, second, atol=0.02, rtol=0.02)


@needs_cuda
def test_graphs_and_single_kernels_give_the_same(folder):
    """Two engines, each with its own graphs, and one that launches the same kernels one by one."""
    first, second, plain = (TorchEngine(folder, device="cuda") for _ in range(3))
    plain._model = CudaGraphInference(plain._model.model, CudaGraphCache(FakeGraph))
    same = []
    for turn, count in enumerate([1, 40, 1, 64, 40, 1, 64, 64, 5, 1, 40, 33, 64, 1, 6, 64, 64, 1, 1, 8, 64]):
        images = random_images(count, seed=turn).numpy()
        expected = plain(images)
        for found in (first(images), second(images)):
            for row in range(count):
                own, theirs = ((raw.node_score[row] > 0).sum() for raw in (expected, found))
                cost, other_cost = expected.edge_cost[row, :own, :own], found.edge_cost[row, :theirs, :theirs]
                score, other_score = expected.node_score[row, :own], found.node_score[row, :theirs]
                same.append(is_close(score, other_score) and is_close(cost, other_cost))
    # A graph may use another kernel, whose rounding can hide a peak. Stale memory would make all numbers wrong.
    assert np.mean(same) > 0.97
    captured = [{stage for stage, *_ in engine._model.cache._graphs} for engine in (first, second, plain)]
    assert captured == [set(STAGES)] * 3
    assert len(first._model.cache) >= 7
    graph, number = torch.cuda.CUDAGraph(), torch.zeros(1, device="cuda", requires_grad=True)
    with torch.cuda.graph(graph):  # a capture in training, outside inference mode
        twice = number * 2
    graph.replay()
    assert twice.item() == 0
