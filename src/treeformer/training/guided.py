"""Training batches with the predictions of a teacher, each used once or several times.

The teacher takes most of the time of a step if the student is small. A batch that is used again costs neither the
teacher nor the loader any time. It comes back among others: batches are kept in a pool on the device, and the next one
is drawn from it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch

from treeformer.data.loader import Batch
from treeformer.models.outputs import TeacherOutput
from treeformer.training.step import Distillation, pixels_of


class GuidedBatch(NamedTuple):
    """A batch on the device, and what a step needs to know about it.

    Attributes:
        batch: the batch.
        guide: predictions of the teacher, None without a teacher.
        is_new: False if the batch was used before.
    """

    batch: Batch
    guide: TeacherOutput | None
    is_new: bool = True

    @property
    def images(self) -> int:
        """Number of images."""
        return len(self.batch.images)

    @property
    def shape(self) -> torch.Size:
        """What the step is compiled for."""
        return self.batch.images.shape


def guided_batches(
    batches: Iterable[Batch],
    distillation: Distillation | None,
    *,
    bf16: bool,
    reuse: int = 1,
    pool_size: int = 64,
    seed: int = 0,
) -> Iterator[GuidedBatch]:
    """Add the predictions of the teacher to batches, and repeat each batch.

    The pool is filled first: until then every new batch is used once. Afterwards each new batch is followed by `reuse`
    draws from the pool. A batch leaves the pool when it has been used `reuse` times.
    """
    rng = random.Random(seed)
    pool: list[tuple[GuidedBatch, int]] = []  # with the number of uses that are left
    for batch in batches:
        new = GuidedBatch(batch, None if distillation is None else _guide(distillation, batch, bf16))
        if reuse == 1:
            yield new
        elif len(pool) < pool_size:
            pool.append((new._replace(is_new=False), reuse - 1))
            yield new
        else:
            pool.append((new, reuse))
            for _ in range(reuse):
                place = rng.randrange(len(pool))
                drawn, left = pool[place]
                if left > 1:
                    pool[place] = drawn._replace(is_new=False), left - 1
                else:
                    pool[place] = pool[-1]
                    del pool[-1]
                yield drawn


def _guide(distillation: Distillation, batch: Batch, bf16: bool) -> TeacherOutput:
    with torch.autocast(batch.images.device.type, dtype=torch.bfloat16, enabled=bf16):
        guide: TeacherOutput = distillation.teacher(pixels_of(batch.images))
    return guide
