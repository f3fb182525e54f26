"""Leaves of the open air: whole ones, where the branches are and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer.synthetic import generate
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import canopy
from treeformer.synthetic.scenes.outdoor.daylight import Daylight

LIGHT = Daylight("bright", 0.7, (0.8, -0.5, 0.4), 0.55, (1.0, 1.0, 1.0))
GREEN = ((80.0, 100.0, 40.0), 0.2)


def crown(seed: int, canvas: Canvas, points: np.ndarray, fullness: float, broad: bool = False) -> canopy.Canopy:
    return canopy.canopy_around(Rng(seed), canvas, points, fullness, LIGHT, GREEN, broad)


def painted(canvas: Canvas) -> np.ndarray:
    return (canvas.planes != 200).any(axis=0)


@pytest.mark.parametrize("broad", [False, True])
@pytest.mark.parametrize("size", [(256, 256), (70, 50), (90, 700), (1100, 300)])
def test_leaves_grow_near_the_branches_only(size: tuple[int, int], broad: bool) -> None:
    branch = np.asarray((size[0] * 0.3, size[1] * 0.3)) + np.linspace(-16, 16, 9)[:, None] * (0.6, 0.8)
    column, row = np.indices((size[1], size[0]))[::-1] + 0.5
    distance = np.hypot(column[..., None] - branch[:, 0], row[..., None] - branch[:, 1]).min(axis=-1)
    shares = []
    for seed in range(6):
        canvas = Canvas(size, (200, 200, 200))
        crown(seed, canvas, branch, 0.5 if broad else 0.9, broad).paint_behind(Rng(seed, 1), canvas)
        assert not painted(canvas)[distance > 100].any()
        shares.append(painted(canvas)[distance < 8].mean())
    assert np.mean(shares) > 0.25


POINTS = np.stack([Rng(1).array(200, low=80, high=180), Rng(2).array(200, low=80, high=180)], axis=1)


def test_fuller_crowns_have_more_leaves_and_most_of_them_behind_the_branches() -> None:
    behind, before = [], []
    for fullness in (0.1, 0.5, 0.9):
        for shares, paint in ((behind, canopy.Canopy.paint_behind), (before, canopy.Canopy.paint_before)):
            canvases = [Canvas((256, 256), (200, 200, 200)) for _ in range(8)]
            for seed, canvas in enumerate(canvases):
                paint(crown(seed, canvas, POINTS, fullness), Rng(5), canvas)
            shares.append(np.mean([painted(canvas).mean() for canvas in canvases]))
    assert behind[0] < behind[1] < behind[2]
    assert all(front < back for front, back in zip(before, behind, strict=True))


@pytest.mark.parametrize("kind", ["vine", "orchard"])
def test_most_of_the_branches_show_through_the_leaves(kind: str) -> None:
    """What cannot be seen cannot be learned: the fullest crowns leave half of the nodes free in the mean."""
    hidden = []
    for seed in range(12):
        canvas, nodes = Canvas((512, 512), (200, 200, 200)), generate(kind, seed).nodes
        crown(seed, canvas, nodes, 0.9 if kind == "orchard" else 0.5, kind == "vine").paint_before(Rng(seed), canvas)
        column, row = np.clip(nodes.astype(int), 0, 511).T
        hidden.append(painted(canvas)[row, column].mean())
    assert 0.05 < np.mean(hidden) < 0.5


def test_leaves_are_darker_behind_the_branches_and_lighter_on_the_side_of_the_sun() -> None:
    """Depth: the mean level of what each layer paints, and of the right half, where the sun is, and the left."""
    levels = []
    for paint in (canopy.Canopy.paint_behind, canopy.Canopy.paint_before):
        canvas = Canvas((256, 256), (0, 0, 0))
        paint(crown(4, canvas, POINTS, 0.9), Rng(5), canvas)
        levels.append(canvas.planes[1][canvas.planes[1] > 0].mean())
    assert levels[0] < 0.9 * levels[1]
    sides = [part[part > 0].mean() for part in (canvas.planes[1, :, :100], canvas.planes[1, :, 160:])]
    assert sides[0] < sides[1]


def test_shade_is_inside_the_crown_alone() -> None:
    canvas = Canvas((256, 256), (200, 200, 200))
    one = crown(4, canvas, POINTS, 0.9)
    one.shade(canvas, 24)
    inside = np.zeros((256, 256), dtype=bool)
    inside[one.rows, one.columns] = one.behind > canopy.FULL_MASS - 64
    assert inside.any()
    assert not (painted(canvas) & ~inside).any()
    assert painted(canvas).sum() > 0.9 * inside.sum()
    assert canvas.planes.min() > 110  # never black


@pytest.mark.parametrize("size", [0, 3, 8])
def test_a_leaf_is_shown_whole(size: int) -> None:
    """The likelihood is one number a leaf: few steps, in a tile that has many leaves, and no seam."""
    tile = canopy.leaf_tile(size)
    for values in (tile.unlikely, tile.tone, tile.hue):
        assert values.shape == (2 * noise.TILE, 2 * noise.TILE)
        assert not values.flags.writeable
    unlikely = tile.unlikely[: noise.TILE, : noise.TILE].astype(int)
    assert unlikely.min() >= 0
    same = (np.diff(unlikely, axis=1) == 0).mean()
    assert same > 0.1 + 0.03 * size  # the larger the leaves, the fewer the edges
    seam = (unlikely[:, 0] == unlikely[:, -1]).mean()
    assert seam == pytest.approx(same, abs=0.12)


def test_no_leaves_where_no_branch_is() -> None:
    canvas = Canvas((64, 64), (200, 200, 200))
    nothing = np.zeros((0, 0), np.int16)
    empty = canopy.Canopy(
        slice(0, 0), slice(0, 0), nothing, nothing, nothing, *GREEN, canopy.leaf_tile(0), np.zeros((0, 2, 2))
    )
    empty.paint_behind(Rng(1), canvas)
    empty.shade(canvas, 24)
    empty.paint_before(Rng(1), canvas)
    assert not painted(canvas).any()


def test_tufts_stand_off_the_limbs_at_all_distances_and_leave_gaps() -> None:
    """Leaves in a sleeve around a limb would be as dense at every place of it, and nowhere a little away from it."""
    limb = np.stack([np.full(50, 128.0), np.linspace(10, 240, 50)], axis=1)
    for fullness in (0.2, 0.9):
        one = crown(3, Canvas((256, 256), (200, 200, 200)), limb, fullness)
        assert (one.twigs[:, :1] == canopy.snapped(limb)[:, None].transpose(1, 0, 2)).all(axis=2).any(axis=1).all()
        off = one.twigs[:, 1] - one.twigs[:, 0]
        assert np.abs(off).max() < 0.5 * (5 + 17 * fullness) * 1.8 + 1 / 32
        assert np.abs(off[:, 0]).std() > 0.2 * (5 + 17 * fullness) * 0.5
        assert off[:, 1].mean() < 0  # rather up than down
    assert len(crown(3, Canvas((256, 256), (200, 200, 200)), limb, 0.5, broad=True).twigs) == 0


def test_cells_between_the_limbs_have_points_on_all_sides() -> None:
    """Against the same asked cell by cell."""
    count = (Rng(7).array(12, 15) < 0.06).astype(np.int32)
    inside = canopy._between(count)
    for row in range(12):
        for column in range(15):
            quarters = (
                count[: row + 1, : column + 1],
                count[: row + 1, column:],
                count[row:, : column + 1],
                count[row:, column:],
            )
            assert inside[row, column] == all(part.any() for part in quarters)
    assert 0 < inside.mean() < 1


def test_vines_do_not_blossom_white() -> None:
    white = canopy.LEAVES[-1][0]
    assert all(canopy.leaf_kind(Rng(seed), broad=True) != white for seed in range(300))
    assert any(canopy.leaf_kind(Rng(seed), broad=False) == white for seed in range(300))
