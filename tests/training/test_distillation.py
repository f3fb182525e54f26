"""Training with a teacher: the student approaches it without ground truth, and mistakes are one line."""

from __future__ import annotations

import csv
import itertools
import json
from collections import Counter
from dataclasses import asdict, replace

import pytest

pytest.importorskip("torch")

import torch

from treeformer._util.config import ConfigError
from treeformer.data.loader import Batch
from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import GRAPH, WEIGHTS, ModelSettings, write_config
from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.models.distillation import Teacher
from treeformer.models.export import write_weights
from treeformer.nn.targets import Targets
from treeformer.skeleton import Skeleton
from treeformer.training.config import DistillationConfig, load_config
from treeformer.training.guided import guided_batches
from treeformer.training.loop import train
from treeformer.training.setup import make_distillation, make_model
from treeformer.training.step import CudaGraphSteps, TrainingStep

LABELS = {"heat", "offset", "node", "point", "root", "edge", "edge_constrained", "radius", "direction"}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """Return a model folder whose network has another width than the student; its graph cannot be run."""
    folder = tmp_path_factory.mktemp("models") / "teacher"
    folder.mkdir()
    torch.manual_seed(5)
    model = TreeFormer(TreeFormerConfig.tiny(width=32, tokens=8))
    for name, parameter in model.named_parameters():
        if name.startswith(("root_head", "decoder.node_heads", "heat_map.layers.2")):
            torch.nn.init.normal_(parameter, std=0.5)
    write_weights(folder / WEIGHTS, model)
    (folder / GRAPH).write_bytes(b"a graph")
    write_config(folder, ModelSettings("TreeFormer", json.loads(json.dumps(asdict(model.config))), min_peak_heat=0.01))
    return folder


@pytest.fixture
def config(config_file, teacher):
    settings = [f"distillation.teacher={teacher}", "distillation.tokens=8", "distillation.edge_tokens=6"]
    return load_config(config_file, [*settings, "distillation.label_weight=0"])


def figures(out):
    """Return the logged figures by name, in the order of steps."""
    result: dict[str, list[float]] = {}
    with (out / "log.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            result.setdefault(row["figure"], []).append(float(row["value"]))
    return result


@pytest.mark.slow
def test_a_student_approaches_its_teacher_without_ground_truth(config, tmp_path):
    config = replace(config, steps=40, validate_every=40)
    train(config, tmp_path / "out", accelerator="cpu", measure=lambda _model: {"edge_f1": 0.0})
    logged = figures(tmp_path / "out")
    assert not LABELS & logged.keys()
    assert len(logged["teacher_node"]) == 2
    assert logged["loss"][-1] < 0.9 * logged["loss"][0]
    for name in ("teacher_heat", "teacher_node", "teacher_point", "teacher_edge"):
        assert logged[name][-1] < logged[name][0], name


@pytest.mark.slow
def test_both_kinds_of_losses_have_their_weights(config):
    """The step on the CPU is the function that a CUDA graph captures."""
    model = make_model(config)
    distillation = make_distillation(replace(config, distillation=replace(config.distillation, weight=2.0)), model)
    images = torch.randint(0, 255, (2, 3, 64, 64), dtype=torch.uint8)
    targets = Targets.from_skeletons([Skeleton([(10, 10), (40, 50)], [(0, 1)], root=0)] * 2, 8)
    count = torch.tensor(4.0)
    [(batch, guide, _)] = guided_batches([Batch(images, targets)], distillation, bf16=False)
    both = TrainingStep(model, bf16=False, distillation=distillation._replace(label_weight=0.5))
    half = both(images, targets, count, None, guide)
    alone = TrainingStep(model, bf16=False)(images, targets, count)
    plain = TrainingStep(model, bf16=False, distillation=distillation._replace(weight=1.0))
    once = plain(images, targets, count, None, guide)
    assert half.keys() == alone.keys() | once.keys()
    for name in alone.keys() - {"loss"}:
        torch.testing.assert_close(half[name], 0.5 * alone[name], rtol=1e-3, atol=1e-5)
    for name in once.keys() - {"loss"}:
        torch.testing.assert_close(half[name], 2 * once[name], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(half["loss"], sum(half[name] for name in half if name != "loss"))
    graphs = CudaGraphSteps(model, bf16=False, distillation=distillation, capture=lambda *_a, **options: options)
    with pytest.raises(TypeError):  # the stand-in cannot be called; it only keeps the options
        graphs(batch, count, None, guide)
    [options] = graphs.graphs.values()
    assert options["distillation"] is distillation
    assert options["guide"] is guide


def test_a_copied_guide_gives_the_same_losses(config):
    """A CUDA graph reads the guide from tensors of its own."""
    model = make_model(config).eval()
    distillation = make_distillation(config, model)
    targets = Targets.from_skeletons([Skeleton([(10, 10), (40, 50)], [(0, 1)], root=0)] * 2, 8)
    images = torch.randint(0, 255, (2, 2, 3, 64, 64), dtype=torch.uint8)
    (_, first, _), (_, second, _) = guided_batches(
        [Batch(images[0], targets), Batch(images[1], targets)], distillation, bf16=False
    )
    step = TrainingStep(model, bf16=False, distillation=distillation)
    own = first.clone()
    own.copy_(second)
    found, expected = (step(images[1], targets, torch.tensor(4.0), None, guide) for guide in (own, second))
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name])
    other = step(images[1], targets, torch.tensor(4.0), None, first)
    assert not torch.isclose(other["loss"], expected["loss"])


@pytest.mark.parametrize(("reuse", "pool"), [(1, 5), (2, 1), (3, 4), (4, 10)])
def test_each_batch_is_used_equally_often_and_not_in_a_row(reuse, pool):
    drawn = [
        (guided.batch, guided.is_new)
        for guided in guided_batches(range(2000), None, bf16=False, reuse=reuse, pool_size=pool)
    ]
    uses = Counter(batch for batch, _ in drawn)
    complete = [uses[batch] for batch in range(1000)]
    assert set(complete) == {reuse}
    assert Counter(batch for batch, is_new in drawn if is_new) == Counter(set(uses))
    first = {batch: step for step, (batch, _) in reversed(list(enumerate(drawn)))}
    assert all(drawn[step][1] for step in first.values())
    if reuse > 1 and pool > 1:
        again = sum(a == b for (a, _), (b, _) in itertools.pairwise(drawn)) / len(drawn)
        assert again < 2 / pool


@pytest.mark.slow
def test_the_teacher_predicts_each_batch_once(config, tmp_path, monkeypatch):
    predicted = []
    forward = Teacher.forward

    def counted(self, images):
        predicted.append(len(images))
        return forward(self, images)

    monkeypatch.setattr(Teacher, "forward", counted)
    config = replace(config, steps=14, distillation=replace(config.distillation, reuse=3, pool=2))
    state = train(config, tmp_path / "out", accelerator="cpu", measure=lambda _model: {"edge_f1": 0.0})
    assert state.step == 14
    assert 0 < state.position <= sum(predicted)
    assert 14 / 3 <= len(predicted) <= 8  # the first ones fill the pool and are used once until then


def test_mistakes_are_one_line(config, config_file):
    with pytest.raises(ConfigError, match=r"distillation\.tokens must be at least 2, not 0"):
        load_config(config_file, ["distillation.tokens=0"])
    model = make_model(config)
    missing = replace(config, distillation=DistillationConfig(teacher="no/such/teacher/folder"))
    with pytest.raises(TreeformerError, match="no such folder"):
        make_distillation(missing, model)
    with pytest.raises(ConfigError, match=r"distillation\.teacher: the model 'ggt' cannot learn from a teacher"):
        make_distillation(replace(config, model="ggt"), torch.nn.Linear(1, 1))
    assert make_distillation(replace(config, distillation=DistillationConfig()), model) is None
