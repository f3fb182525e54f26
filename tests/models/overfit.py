"""Helpers for tests that overfit a model to a few images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from treeformer.nn.targets import Targets
from treeformer.skeleton import Skeleton


def is_the_same_tree(found: Skeleton, target: Skeleton, within_px: float = 2.0) -> bool:
    """Return True if both trees have the same edges and root, and each node lies within `within_px` of its match."""
    if len(found) != len(target):
        return False
    node, distance = found.nearest(target.nodes)
    edges = {frozenset(edge) for edge in node[target.edges].tolist()}
    return (
        len(set(node.tolist())) == len(target)
        and distance.max() < within_px
        and edges == {frozenset(edge) for edge in found.edges.tolist()}
        and found.roots.tolist() == [node[target.root]]
    )


def learn_by_overfitting(
    model: Any,
    images: Tensor,
    trees: Sequence[Skeleton],
    decode: Callable[[Any], list[Skeleton]],
    *,
    learning_rate: float,
    steps: int,
    within_px: float = 2.0,
) -> None:
    """Train until `decode` of the model's output gives all trees. Fail the test if that takes more than `steps`."""
    model.to(memory_format=torch.channels_last)
    images = images.to(memory_format=torch.channels_last)
    targets = Targets.from_skeletons(trees, size=8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    for step in range(1, steps + 1):
        total = sum(model.loss(model.train()(images, targets), targets).values())
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            with torch.no_grad():
                found = decode(model.eval()(images))
            if all(is_the_same_tree(*pair, within_px) for pair in zip(found, trees, strict=True)):
                return
    pytest.fail(f"after {steps} steps: {found}")
