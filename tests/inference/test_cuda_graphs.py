"""Recorded inference against the plain one; on a CPU with a stand-in for CUDA graphs, as forgetful as they are."""

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
from treeformer.inference.cuda_graphs import CudaGraphCache, CudaGraphInference, full_size, rounded
from treeformer.inference.torch_engine import TorchEngine
from treeformer.models import InferenceModel, TreeFormer, TreeFormerConfig
from treeformer.models.export import ARCHITECTURE, write_weights
from treeformer.synthetic import make_image

CANDIDATE_SCORE = 0.25
KINDS = ("encode", "decode_tokens", "predict_edges")


class Repetition:
    """In place of a CUDA graph: runs its stage again, and writes into the tensors that it gave at first.

    As with graphs that share memory, running one spoils what all later ones gave: their memory was free before.
    """

    def __init__(self, stage, before) -> None:
        stage()
        self.stage, self.outputs = stage, stage()
        self.all = before.all if before else []
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
    """Plants, noise, and blank pages, which have very different numbers of peaks and candidates."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        kind = random.integers(4)
        if kind == 0:
            found.append(np.full((SIDE, SIDE, 3), random.integers(256), np.uint8))
        elif kind == 1:
            found.append(random.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8))
        else:
            found.append(make_image("paper", ("paper", "photo")[kind - 2], 97 * seed + number, (SIDE, SIDE))[0])
    return torch.from_numpy(np.stack(found))


def assert_same(plain, groups, atol=1e-4) -> int:
    """Each image's own candidates are the same; returns how many there were."""
    rows_seen, total = [], 0
    for rows, numbers in groups:
        assert len(rows) == len(numbers[0])
        rows_seen += rows
        for place, row in enumerate(rows):
            count = int((plain[0][row] > 0).sum())
            total += count
            assert int((numbers[0][place] > 0).sum()) == count
            for whole, part in zip(plain, numbers, strict=True):
                own = (slice(count),) * (2 if whole is plain[2] else 1)
                torch.testing.assert_close(part[place][own], whole[row][own], atol=atol, rtol=1e-3)
    assert sorted(rows_seen) == list(range(len(plain[0])))
    return total


def by_recordings(model: CudaGraphInference, images: torch.Tensor):
    return [(rows, [part.clone() for part in numbers]) for rows, numbers in model.in_groups(images)]


@pytest.fixture
def small_steps(monkeypatch):
    """So that a network of 24 tokens has several numbers of them, and six images are several groups."""
    monkeypatch.setattr(cuda_graphs, "STEPS", (6, 3))
    monkeypatch.setattr(cuda_graphs, "COARSE_STEPS", (8, 8))
    monkeypatch.setattr(cuda_graphs, "GROUP", 4)
    monkeypatch.setattr("treeformer.models.inference_model.GROUP", 4)


@pytest.mark.parametrize("min_peak_heat", [0.0, THRESHOLDS["min_peak_heat"]])
@torch.inference_mode()
def test_recordings_change_nothing_in_whatever_order_shapes_come(small_steps, one_thread, min_peak_heat):
    plain = InferenceModel(network(), CANDIDATE_SCORE, min_peak_heat)
    recorder = CudaGraphCache(Repetition)
    model = CudaGraphInference(plain, recorder)
    total = 0
    for turn, count in enumerate([1, 6, 8, 1, 5, 1, 7, 8, 2, 1, 6, 8, 1, 3, 5, 8, 1, 1, 7, 8, 6]):
        images = random_images(count, seed=turn)
        total += assert_same(plain(images), by_recordings(model, images))
    assert total > 200
    made = [kind for kind, *_ in recorder._kept]
    assert all(made.count(kind) >= 2 for kind in KINDS), "this has to have been about recordings"
    assert made.count("predict_edges") > made.count("encode"), "and about several numbers of candidates"


@torch.inference_mode()
def test_learned_tokens_are_recorded_too(small_steps, one_thread):
    torch.manual_seed(0)
    config = TreeFormerConfig.tiny(tokens=10, token_source="learned", grid_px=0.0, backbone_blocks=(1, 1, 1))
    plain = InferenceModel(TreeFormer(config).eval(), 0.05, 0.03)
    recorder = CudaGraphCache(Repetition)
    model = CudaGraphInference(plain, recorder)
    for turn in range(6):
        images = random_images(2, seed=turn)
        assert assert_same(plain(images), by_recordings(model, images)) > 0
    assert {kind for kind, *_ in recorder._kept} == set(KINDS)


def test_a_shape_is_recorded_at_its_third_use_and_only_so_many_are(monkeypatch):
    monkeypatch.setattr(cuda_graphs, "MOST_RECORDINGS", 2)
    recorder = CudaGraphCache(Repetition)
    for _ in range(4):
        for key in "abc":
            assert recorder.run(key, lambda key=key: key) == key
    assert list(recorder._kept) == ["a", "b"]
    again = CudaGraphCache(Repetition)
    assert [again.has("a", lambda: None) for _ in range(4)] == [False, False, True, True]


def test_without_memory_for_a_recording_the_stage_runs_plainly():
    tries = []

    class TooLarge:
        def __init__(self, *_) -> None:
            tries.append(self)
            raise torch.OutOfMemoryError("CUDA out of memory")

    recorder = CudaGraphCache(TooLarge)
    assert [recorder.run("a", lambda: 7) for _ in range(5)] == [7] * 5
    assert len(tries) == 1, "and is not tried again"


def test_any_other_failure_is_not_hidden():
    def fails(*_):
        raise RuntimeError("operation not permitted when stream is capturing")

    recorder = CudaGraphCache(fails)
    with pytest.raises(RuntimeError, match="not permitted"):
        [recorder.run("a", lambda: 7) for _ in range(3)]


def test_sizes_of_batches_and_steps():
    sizes = [full_size(count) for count in (1, 2, 3, 5, 16, 33, 64, 65, 130)]
    assert sizes == [1, 2, 4, 8, 16, 64, 64, 128, 192]
    assert [rounded(count, 16, 40) for count in (2, 16, 17, 39, 40)] == [16, 16, 32, 40, 40]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder whose graph is empty: torch does not read it."""
    path, model = tmp_path_factory.mktemp("tiny"), network()
    write_weights(path / WEIGHTS, model)
    (path / GRAPH).touch()
    settings = json.loads(json.dumps(asdict(model.config)))
    return write_config(path, ModelSettings(ARCHITECTURE, settings, input_size=SIDE, **THRESHOLDS))


def test_an_engine_of_recordings_gives_the_same_arrays(folder, small_steps, one_thread):
    """Everything but the graphs of an engine on a GPU."""
    plain, other = (TorchEngine(folder, device="cpu") for _ in range(2))
    other._model = CudaGraphInference(other._model, CudaGraphCache(Repetition))
    for turn, count in enumerate([6, 1, 8, 7, 1, 6, 1, 1, 8, 8, 5, 1]):
        images = random_images(count, seed=turn).numpy()
        expected, found = plain(images), other(images)
        for one, two in zip(expected, found, strict=True):
            assert one.shape == two.shape
            assert two.dtype == np.float32
        for row, own in enumerate((expected.node_score > 0).sum(1)):
            for one, two in zip(expected, found, strict=True):
                where = (row, *(slice(own),) * (2 if one is expected.edge_cost else 1))
                np.testing.assert_allclose(two[where], one[where], atol=1e-4, rtol=1e-3)
    assert len(other._model.recorder) > 5


def alike(one, other) -> bool:
    """Whether two arrays of an image are the same but for the rounding of another kernel."""
    return one.shape == other.shape and np.allclose(one, other, atol=0.02, rtol=0.02)


@needs_cuda
def test_graphs_give_what_their_kernels_give(folder):
    """Two engines side by side, each with graphs of its own, and one that starts the same kernels one by one."""
    first, second, plain = (TorchEngine(folder, device="cuda") for _ in range(3))
    plain._model = CudaGraphInference(plain._model.model, CudaGraphCache(Repetition))
    same = []
    for turn, count in enumerate([1, 40, 1, 64, 40, 1, 64, 64, 5, 1, 40, 33, 64, 1, 6, 64, 64, 1, 1, 8, 64]):
        images = random_images(count, seed=turn).numpy()
        expected = plain(images)
        for found in (first(images), second(images)):
            for row in range(count):
                own, theirs = ((raw.node_score[row] > 0).sum() for raw in (expected, found))
                cost, other_cost = expected.edge_cost[row, :own, :own], found.edge_cost[row, :theirs, :theirs]
                score, other_score = expected.node_score[row, :own], found.node_score[row, :theirs]
                same.append(alike(score, other_score) and alike(cost, other_cost))
    # Where a graph has chosen another kernel after all, a peak may just miss being one; stale numbers are all wrong.
    assert np.mean(same) > 0.97
    made = [{kind for kind, *_ in engine._model.recorder._kept} for engine in (first, second, plain)]
    assert made == [set(KINDS)] * 3
    assert len(first._model.recorder) >= 7
    graph, number = torch.cuda.CUDAGraph(), torch.zeros(1, device="cuda", requires_grad=True)
    with torch.cuda.graph(graph):  # as training does beside it, not in inference mode
        twice = number * 2
    graph.replay()
    assert twice.item() == 0
