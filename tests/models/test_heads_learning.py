"""The heads of center lines and of kinds learn two images together with everything else."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.models.test_treeformer import BENT, FORKED, draw
from treeformer.decoding.node_kinds import DEGREE, DIRECTIONS, KIND
from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.models.outputs import Output, rows_of
from treeformer.nn.center_line import line_targets
from treeformer.nn.node_kind import direction_targets, kind_targets
from treeformer.nn.targets import Targets

GOALS = {"line": 0.9, "tangent": 0.95, "kind": 0.9, "degree": 0.9, "directions": 0.75}


def correlation(first: Tensor, second: Tensor) -> float:
    return torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1].item()


def figures(output: Output, targets: Targets) -> dict[str, float]:
    """How well each head agrees with its ground truth; 1 is perfect."""
    presence, tangent, is_known = line_targets(targets.lines, *output.lines.shape[-2:])
    on_line = is_known & (presence > 0.5)
    found = output.lines[:, 1:]
    cosine = (found * tangent).sum(1) / found.norm(dim=1).clamp(min=1e-6)
    kinds, matched = rows_of(output.kinds, output.matching.token), output.matching.found
    kind, degree = kind_targets(targets)
    return {
        "line": correlation(output.lines[:, 0].sigmoid(), presence),
        "tangent": cosine[on_line].mean().item(),
        "kind": (kinds[..., KIND].argmax(-1) == kind)[matched].float().mean().item(),
        "degree": (kinds[..., DEGREE].argmax(-1) == degree)[matched].float().mean().item(),
        "directions": correlation(
            kinds[..., DIRECTIONS].sigmoid()[matched], direction_targets(targets.points, targets.adjacency)[matched]
        ),
    }


@pytest.mark.slow
def test_every_head_learns(one_thread):
    torch.manual_seed(0)
    model = TreeFormer(TreeFormerConfig.tiny(node_kinds=True, center_lines=True, hard_pair_weight=3.0)).train()
    model.to(memory_format=torch.channels_last)
    images = torch.stack([draw(FORKED), draw(BENT)]).contiguous(memory_format=torch.channels_last)
    targets = Targets.from_skeletons([FORKED, BENT], size=8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(160):
        output = model(images, targets)
        if step % 10 == 0:
            with torch.no_grad():
                reached = figures(output, targets)
            if step == 0:
                assert all(reached[name] < goal - 0.2 for name, goal in GOALS.items())
            if all(reached[name] >= goal for name, goal in GOALS.items()):
                assert model.relation_head.even_evidence.weight.abs().max() > 0.01, "the edges read the evidence"
                return
        optimizer.zero_grad()
        sum(model.loss(output, targets).values()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    pytest.fail(f"after {step} steps: {reached}")
