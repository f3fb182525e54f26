"""A folder of drawings with skeletons, and a small untrained model to start from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

import treeformer
from treeformer import Skeleton
from treeformer.hub.model_folder import GRAPH, INT8_GRAPH

SIDE = 64


def draw_tree(folder: Path, name: str, seed: int, size: int = SIDE) -> Skeleton:
    """Write a drawing of a stem with two branches and its skeleton. Return the skeleton."""
    rng = np.random.default_rng(seed)
    fork = rng.uniform(24, 40, 2)
    nodes = np.array([(32, 60), fork, fork + rng.uniform((-20, -20), (-8, -8)), fork + rng.uniform((8, -20), (20, -8))])
    nodes = nodes * size / SIDE
    image = Image.new("RGB", (size, size), "white")
    pen = ImageDraw.Draw(image)
    for u, v in ((0, 1), (1, 2), (1, 3)):
        pen.line([*nodes[u], *nodes[v]], fill="black", width=max(2, size // 32))
    image.save(folder / f"{name}.png")
    skeleton = Skeleton(nodes, [(0, 1), (1, 2), (1, 3)], root=0, image_size=(size, size))
    treeformer.write(skeleton, folder / f"{name}.json")
    return skeleton


@pytest.fixture(scope="session")
def drawings(tmp_path_factory) -> Path:
    """Six annotated drawings, 64×64 px."""
    folder = tmp_path_factory.mktemp("drawings")
    for number in range(6):
        draw_tree(folder, f"plant{number}", number)
    return folder


def write_no_graphs(folder: Path, _model: object, _settings: object, *, int8: bool = True, **_options: object) -> None:
    """Take the place of `write_graphs`, which traces the network for half a minute. The graphs cannot be run."""
    for name in (GRAPH, INT8_GRAPH) if int8 else (GRAPH,):
        (folder / name).write_bytes(b"no graph")


@pytest.fixture(scope="session")
def start_model(tmp_path_factory) -> Path:
    """A model folder with a small untrained network for inputs of 64 px. Only torch can run it."""
    from treeformer.models import TreeFormer, TreeFormerConfig, onnx_graph
    from treeformer.models.export import save_pretrained

    torch.manual_seed(5)
    small = {"backbone_blocks": (1, 1), "decoder_layers": 1, "relation_min_stride": 16, "tokens": 24}
    model = TreeFormer(TreeFormerConfig.tiny(**small)).eval()
    folder = tmp_path_factory.mktemp("models") / "tiny"
    thresholds = {"node_threshold": 0.3, "candidate_threshold": 0.1, "root_threshold": 0.6}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_graph, "write_graphs", write_no_graphs)
        save_pretrained(model, folder, input_size=SIDE, working_size=SIDE, int8=False, **thresholds)
    return folder


@pytest.fixture
def short_runs(monkeypatch):
    """Fix the schedule, which otherwise depends on the speed of the machine, and trace no graphs."""
    from treeformer.finetuning import measuring, plan
    from treeformer.models import onnx_graph

    monkeypatch.setattr(onnx_graph, "write_graphs", write_no_graphs)
    monkeypatch.setattr(measuring, "ENGINE", "torch")
    schedule = plan.Schedule(8, 4, 2, 2, 10.0)
    monkeypatch.setattr(plan, "make_schedule", lambda *_args, **_options: schedule)


@pytest.fixture
def improving(monkeypatch):
    """Let every validation be better than the one before, so that the result does not depend on four steps."""
    from treeformer.finetuning import measuring

    scores = iter(np.linspace(0.1, 0.9, 400))
    monkeypatch.setattr(
        measuring,
        "score",
        lambda *_: (
            dict.fromkeys(("topo_precision", "topo_recall", "length_error"), 0.5) | {"topo_f1": float(next(scores))}
        ),
    )
