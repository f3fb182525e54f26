"""Use all cores of a CPU by computing several items of a batch at once, each on one thread.

An item has many small operations, which gain little from a second thread, and threads that wait for each other after
every operation are slow if other programs use the cores as well. Items side by side wait once per step.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import nn

Item = TypeVar("Item")
Result = TypeVar("Result")

# More replicas need more memory than a laptop has.
MAX_WORKERS = 4


class Workers:
    """Threads that share the cores. A single worker is the calling thread."""

    def __init__(self, count: int) -> None:
        self.count = count
        threads = max(1, torch.get_num_threads() // count)
        self._pool = ThreadPoolExecutor(count, initializer=lambda: torch.set_num_threads(threads))

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Call a function for all items. Return the results in the order of the items."""
        return map(function, items) if self.count == 1 else self._pool.map(function, items)


def usable_workers() -> int:
    """Return the number of items to compute at the same time: one per core that torch uses, at most 4."""
    return max(1, min(MAX_WORKERS, torch.get_num_threads()))


class Replicas:
    """A network and copies of it that share its weights, but have gradients of their own. Each worker has one."""

    def __init__(self, model: nn.Module, workers: Workers) -> None:
        self.model, self.workers = model, workers
        self.replicas = [model, *(_replica(model) for _ in range(workers.count - 1))]

    def backward(self, work: Callable[[Any, Item], float], items: Sequence[Item]) -> float:
        """Add the gradients of several items to the network, similar items beside each other. Return the loss.

        `work` adds the gradient of one item to a replica and returns the loss. The result depends on the number of
        workers, by rounding, but not on which of them is faster.
        """

        def share(index: int) -> float:
            return sum(work(self.replicas[index], item) for item in items[index :: len(self.replicas)])

        loss = sum(self.workers.map(share, range(len(self.replicas))))
        for replica in self.replicas[1:]:
            for parameter, copied in zip(self.model.parameters(), replica.parameters(), strict=True):
                if copied.grad is not None:
                    parameter.grad = copied.grad if parameter.grad is None else parameter.grad.add_(copied.grad)
                    copied.grad = None
        return loss


def _replica(model: nn.Module) -> nn.Module:
    """Return a copy whose parameters and buffers have the same storage as those of the model."""
    shared: dict[int, torch.Tensor] = {id(buffer): buffer for buffer in model.buffers()}
    for parameter in model.parameters():
        shared[id(parameter)] = nn.Parameter(parameter.detach(), parameter.requires_grad)
    return copy.deepcopy(model, shared)
