"""Distillation: losses against slow references, no loss between equal networks, and gradients for the student only."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch

from treeformer.errors import TreeformerError
from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.models.distillation import Teacher, check_student, distillation_losses, soft_cross_entropy
from treeformer.nn.targets import Targets
from treeformer.skeleton import Skeleton

SIZES = {"backbone_channels": 8, "width": 32, "fine_width": 16, "heads": 2, "feed_forward": 32, "relation_hidden": 16}
CONFIG = TreeFormerConfig.tiny(tokens=6, segment_channels=8, segment_points=4, **SIZES)


@pytest.fixture(scope="module")
def images():
    return torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


def network(seed: int, **changes) -> TreeFormer:
    """Return a network whose heads differ between tokens, unlike those of a new one."""
    torch.manual_seed(seed)
    model = TreeFormer(replace(CONFIG, **changes))
    for name, parameter in model.named_parameters():
        if name.startswith(("root_head", "decoder.node_heads", "attribute_head", "heat_map")):
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def teacher_of(model: TreeFormer, tokens: int = 6, edge_tokens: int = 4, min_peak_heat: float = 0.0) -> Teacher:
    return Teacher(model, tokens=tokens, edge_tokens=edge_tokens, min_peak_heat=min_peak_heat)


def test_equal_networks_have_no_loss(images):
    last_layer = {"auxiliary_losses": False}  # the layers before it are compared with the teacher's last one too
    guide = teacher_of(network(1, **last_layer))(images)
    for value in distillation_losses(CONFIG, network(1, **last_layer)(images, guide=guide), guide).values():
        assert abs(value.item()) < 1e-4
    others = distillation_losses(CONFIG, network(2)(images, guide=guide), guide)
    names = ["heat", "offset", "node", "point", "root", "edge", "attributes"]
    assert list(others) == [f"teacher_{name}" for name in names]
    assert min(value.item() for value in others.values()) > 1e-3


@pytest.mark.parametrize("has_heads", [(True, False), (False, True), (True, True)], ids=["teacher", "student", "both"])
def test_a_teacher_says_nothing_about_kinds_and_center_lines(images, has_heads):
    """They are learned from the ground truth."""
    teacher, student = (
        network(seed, node_kinds=has, center_lines=has) for seed, has in zip((1, 2), has_heads, strict=True)
    )
    guide = teacher_of(teacher)(images)
    targets = Targets.from_skeletons([Skeleton([(10, 10), (40, 50)], [(0, 1)], root=0)] * 2, 4)
    output = student(images, targets, None, guide)
    assert len(distillation_losses(student.config, output, guide)) == 7
    assert ("line" in student.loss(output, targets)) == ("kind" in student.loss(output, targets)) == has_heads[1]


def test_the_tokens_of_the_guide_do_not_change_the_own_ones(images):
    student, guide = network(2), teacher_of(network(1))(images)
    targets = Targets.from_skeletons([Skeleton([(10, 10), (40, 50)], [(0, 1)], root=0)] * 2, 4)
    plain, guided, unlabeled = student(images, targets), student(images, targets, None, guide), None
    unlabeled = student(images, guide=guide)
    for other in (guided, unlabeled):
        torch.testing.assert_close(other.node_logits, plain.node_logits, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(other.points, plain.points, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(guided.edge_logits, plain.edge_logits, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(guided.guided.edge_logits, unlabeled.guided.edge_logits, atol=1e-5, rtol=1e-4)
    assert plain.guided is None
    assert guided.guided.edge_logits.shape == (2, 4, 4, 2)
    assert unlabeled.edge_logits.shape == (2, 0, 0, 2)


def kl(p: float, q: float) -> float:
    return sum(a * math.log(a / b) if a else 0.0 for a, b in ((p, q), (1 - p, 1 - q)))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_soft_cross_entropy_is_the_divergence():
    logits = torch.tensor([-3.0, 0.2, 5.0, 1.0, -1.0])
    target = torch.tensor([0.1, 0.9, 0.5, 1.0, 0.0])
    expected = [kl(p, sigmoid(x)) for p, x in zip(target.tolist(), logits.tolist(), strict=True)]
    assert soft_cross_entropy(logits, target).tolist() == pytest.approx(expected, abs=1e-5)


def test_the_losses_are_those_of_loops(images):
    """Masked tokens, tokens without edges and the diagonal do not count."""
    guide = teacher_of(network(1))(images)
    guide.mask[0, 3:] = False
    guide.mask[1, 5:] = False
    output = network(2)(images, guide=guide)
    found = {name: value.item() for name, value in distillation_losses(CONFIG, output, guide).items()}
    student = output.guided
    sums = dict.fromkeys(found, 0.0)
    count = 0.0
    for b in range(2):
        score = [sigmoid(x) * float(m) for x, m in zip(guide.node_logits[b].tolist(), guide.mask[b], strict=True)]
        count += sum(score)
        for row in range(32):
            for column in range(32):
                p, x = sigmoid(guide.heat[b, row, column].item()), output.heat[b, row, column].item()
                sums["teacher_heat"] += kl(p, sigmoid(x)) * (sigmoid(x) - p) ** 2
                ours, theirs = (offsets[b, row * 32 + column] for offsets in (output.offsets, guide.offsets))
                sums["teacher_offset"] += p * (ours - theirs).abs().sum().item()
        for token in range(6):
            if not guide.mask[b, token]:
                continue
            for layer in range(2):
                x = student.layer_node_logits[layer, b, token].item()
                sums["teacher_node"] += kl(sigmoid(guide.node_logits[b, token].item()), sigmoid(x))
                distance = (student.layer_points[layer, b, token] - guide.points[b, token]).abs().sum().item()
                sums["teacher_point"] += 4 * math.log1p(distance / 4) * score[token]
            root = guide.root_logits[b, token].item(), student.root_logits[b, token].item()
            sums["teacher_root"] += kl(sigmoid(root[0]), sigmoid(root[1])) * score[token]
            for channel in range(3):
                error = abs((student.attributes - guide.attributes)[b, token, channel].item())
                loss = error - 0.05 if error > 0.1 else error**2 / 0.2
                sums["teacher_attributes"] += (1.0, 0.5, 0.5)[channel] * loss * score[token]
        for i in range(4):
            for j in range(i):
                u, v = (guide.selection[b, k].item() for k in (i, j))
                p, q = (
                    sigmoid((logits[b, i, j, 1] - logits[b, i, j, 0]).item())
                    for logits in (guide.edge_logits, student.edge_logits)
                )
                sums["teacher_edge"] += kl(p, q) * score[u] * score[v]
    weights = {"teacher_offset": 0.2 * 2, "teacher_node": 2.0, "teacher_point": 0.2}
    expected = {name: weights.get(name, 1.0) * value / max(count, 1) for name, value in sums.items()}
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_only_the_student_gets_gradients_and_the_teacher_stays_in_evaluation_mode(images):
    teacher, student = teacher_of(network(1, dropout=0.5)), network(2)
    teacher.train()
    assert not teacher.model.training
    guide = teacher(images)
    torch.testing.assert_close(teacher(images).edge_logits, guide.edge_logits)
    sum(distillation_losses(CONFIG, student(images, guide=guide), guide).values()).backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    without = {name for name, parameter in student.named_parameters() if parameter.grad is None}
    assert without == set()


def test_cold_peaks_are_masked(images):
    guide = teacher_of(network(1))(images)
    middle = torch.sigmoid(guide.heat).flatten(1).topk(6).values.mean().item()
    assert guide.mask.all()
    mask = teacher_of(network(1), min_peak_heat=middle)(images).mask
    assert mask.any()
    assert not mask.all()


def test_a_teacher_has_at_most_one_token_per_cell(images):
    """The heat map of an image of 32 px has 16·16 cells."""
    images = images[:1, :, :32, :32]
    guide = teacher_of(network(1), tokens=100_000, edge_tokens=8)(images)
    assert (guide.mask.shape, guide.selection.shape) == ((1, 256), (1, 8))
    assert teacher_of(network(1), tokens=100_000, edge_tokens=50_000)(images).selection.shape == (1, 256)


def test_students_that_do_not_fit_are_rejected():
    check_student(CONFIG, TreeFormerConfig.default())
    with pytest.raises(TreeformerError, match="the student has 4 and 44 px, the teacher 2 and 44 px"):
        check_student(replace(CONFIG, heatmap_upsampling=1), CONFIG)
    with pytest.raises(TreeformerError, match="the student has 2 and 0 px, the teacher 2 and 44 px"):
        check_student(replace(CONFIG, grid_px=0.0), CONFIG)
    with pytest.raises(TreeformerError, match="set denoising to false"):
        check_student(replace(CONFIG, denoising=True), CONFIG)
    with pytest.raises(TreeformerError, match="tokens from a heat map"):
        check_student(CONFIG, TreeFormerConfig.paper())
    with pytest.raises(TreeformerError, match="tokens are learned"):
        teacher_of(TreeFormer(replace(CONFIG, token_source="learned")))
    with pytest.raises(TreeformerError, match="pass the guide"):
        guide = teacher_of(network(1))(torch.zeros(1, 3, 64, 64))
        distillation_losses(CONFIG, network(2)(torch.zeros(1, 3, 64, 64)), guide)
