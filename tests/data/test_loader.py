"""Plans of batches: they continue exactly after a restart, and processes share every step."""

from __future__ import annotations

import faulthandler
import itertools
import os
from multiprocessing.util import Finalize

import pytest

pytest.importorskip("torch")

import torch

from treeformer.data.config import DataConfig, SourceConfig
from treeformer.data.loader import BatchPlan, BatchSizes, ResumableSampler, shut_down, training_loader
from treeformer.data.mixture import MixtureDataset

SIZES = BatchSizes(4, crowded=2, crowded_every=3)


def plans(count: int, sizes: BatchSizes = SIZES, **options: int) -> list[BatchPlan]:
    sampler = ResumableSampler(sizes, **({"start": 0, "step": 0, "rank": 0, "world": 1} | options))
    return list(itertools.islice(sampler, count))


def test_every_third_batch_is_dense_and_no_position_is_left_out():
    found = plans(9)
    assert [plan.is_crowded for plan in found] == [False, False, True] * 3
    assert [len(plan.positions) for plan in found] == [4, 4, 2] * 3
    assert [position for plan in found for position in plan.positions] == list(range(30))
    assert SIZES.mean == pytest.approx(10 / 3)


def test_without_dense_batches_all_have_one_size():
    assert plans(3, BatchSizes(5)) == [BatchPlan(range(5 * i, 5 * i + 5), False) for i in range(3)]
    assert BatchSizes(5).mean == 5


@pytest.mark.parametrize("done", range(7))
def test_a_restart_continues_with_the_next_batch(done):
    whole = plans(10)
    start = sum(len(plan.positions) for plan in whole[:done])
    assert plans(10 - done, start=start, step=done) == whole[done:]


def test_processes_share_the_positions_of_a_step():
    one = plans(6)
    halves = [plans(6, BatchSizes(2, crowded=1, crowded_every=3), rank=rank, world=2) for rank in range(2)]
    for whole, *parts in zip(one, *halves, strict=True):
        assert [position for part in parts for position in part.positions] == list(whole.positions)
        assert {part.is_crowded for part in parts} == {whole.is_crowded}


def stream(**changes) -> MixtureDataset:
    sources = [
        SourceConfig(weight=3, presets=("paper",)),
        SourceConfig(weight=1, crowded_weight=1, presets=("orchard", "vine"), grid_px=24),
    ]
    settings = {"image_size": 128, "max_nodes": 40, "crowded_every": 2, "crowded_max_nodes": 90} | changes
    return MixtureDataset(sources, DataConfig(**settings), seed=3)


def abort_at_exit(_worker):
    faulthandler.disable()  # no traceback in the output of the tests
    Finalize(None, os.abort, exitpriority=1)


@pytest.mark.slow
def test_workers_that_abort_while_they_end_do_not_end_the_run():
    loader = training_loader(stream(), BatchSizes(2), workers=2)
    loader.worker_init_fn = abort_at_exit
    batches = iter(loader)
    next(batches)
    workers = loader._iterator._workers
    shut_down(loader)
    assert all(worker.exitcode is not None for worker in workers)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_have_the_shape_of_their_kind(workers):
    """Batches are the same for any number of worker processes."""
    loader = training_loader(stream(), BatchSizes(3, crowded=2, crowded_every=2), workers=workers)
    try:
        ordinary, crowded, third = itertools.islice(loader, 3)
    finally:
        shut_down(loader)
    assert [batch.is_crowded for batch in (ordinary, crowded, third)] == [False, True, False]
    assert ordinary.images.shape == third.images.shape == (3, 3, 128, 128)
    assert ordinary.images.dtype == torch.uint8
    assert crowded.images.shape == (2, 3, 128, 128)
    assert ordinary.targets.points.shape == third.targets.points.shape == (3, 40, 2)
    assert crowded.targets.points.shape == (2, 90, 2)
    assert (crowded.targets.mask.sum(1) > 40).all(), "crowded batches have images that do not fit ordinary ones"
    again = stream()
    for position, (name, image) in enumerate(zip(ordinary.names, ordinary.images, strict=True)):
        sample, _ = again[position]
        assert name == sample.name
        assert (image.permute(1, 2, 0).numpy() == sample.image).all()
    sample, _ = again.draw(3, crowded=True)
    assert (crowded.images[0].permute(1, 2, 0).numpy() == sample.image).all()
    # Rendered plants have radii.
    assert crowded.targets.radius[crowded.targets.mask].isfinite().all()


def test_lines_follow_the_curves_before_nodes_are_left_out():
    sources = [SourceConfig(presets=("vine",), grid_px=64)]
    batch = next(iter(training_loader(MixtureDataset(sources, DataConfig(image_size=128), seed=0), BatchSizes(2))))
    along_curves = 2 * torch.nansum(torch.hypot(batch.targets.lines[..., 2], batch.targets.lines[..., 3]), dim=1)
    ends = batch.targets.points[:, :, None] - batch.targets.points[:, None]
    along_edges = (ends.square().sum(-1).sqrt() * batch.targets.adjacency).sum((1, 2)) / 2
    assert (along_curves > 1.002 * along_edges).all()
    assert (along_curves < 2 * along_edges).all()
