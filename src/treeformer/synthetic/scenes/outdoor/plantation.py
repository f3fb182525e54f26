"""Rows of plants in perspective: where each plant, post and wire of an orchard or vineyard appears in the image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting.canvas import snapped
from treeformer.synthetic.rng import Rng

MIN_SCALE, MAX_SCALE = 0.16, 1.02  # relative size of the plants that are placed; the subject has 1
MAX_PLANTS = 6
# Plants nearly as large as the subject stand at the sides of the image, so that the subject is the one in the middle.
LARGE, SIDE_SHARE = 0.8, 0.27
CLEAR_HEIGHTS = 0.1  # distance that smaller plants keep from the subject, in heights of the subject
EXTENT = 12  # number of plants per row, to each side


@dataclass(frozen=True, slots=True)
class Plantation:
    """Parallel rows on level ground. The subject stands in row 0; row 1 is the first behind it.

    Lengths on the ground are in heights of the subject.
    """

    foot: tuple[float, float]  # (x, y) px at which the subject stands
    horizon_y: float  # y of the horizon, px
    height_px: float  # height of the subject, px
    middle_x: float  # x to which the camera points, px
    distance: float  # distance of the camera from the subject
    cosine: float  # cosine of the angle between the rows and the image plane
    sine: float  # sine of this angle
    row_gap: float  # distance between rows
    plant_gap: float  # distance between the plants of a row

    def project(self, along: FloatArray, row: FloatArray | float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return where points on the ground appear: x, y and the size relative to the subject, (K,) each.

        `along` (K,) is the position along the row from the subject's place. The size is 0 behind the camera.
        """
        across = np.zeros(len(along)) + row * self.row_gap
        right = along * self.cosine - across * self.sine
        behind = along * self.sine + across * self.cosine
        depth = self.distance + behind
        scale = np.where(depth > 0.1, self.distance / np.maximum(depth, 0.1), 0.0)
        x = self.middle_x + (self.foot[0] - self.middle_x + right * self.height_px) * scale
        y = self.horizon_y + (self.foot[1] - self.horizon_y) * scale
        return x, y, scale

    def on_ground(self, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return which row (H,W), not rounded, is seen at columns (W,) and rows (H,) of pixels; inverse of `project`.

        The second result is the size relative to the subject, (H,1).
        """
        scale = ((y - self.horizon_y) / max(self.foot[1] - self.horizon_y, 1.0))[:, None]
        behind = self.distance / np.maximum(scale, 1e-3) - self.distance
        right = (
            (x - self.middle_x)[None, :] / np.maximum(scale, 1e-3) - (self.foot[0] - self.middle_x)
        ) / self.height_px
        return (behind * self.cosine - right * self.sine) / self.row_gap, scale


def lay_out(
    rng: Rng, size: tuple[int, int], foot: tuple[float, float], height_px: float, horizon_y: float, *, vines: bool
) -> Plantation:
    """Draw the rows around a subject: seen from the side, or along the alley between them.

    Vines stand farther apart relative to their height.
    """
    # A half-angle formula gives an exact point on the circle without sine and cosine.
    oblique = rng.choice((-1.0, 1.0)) * rng.uniform(0.2, 0.62)
    half_tangent = rng.uniform(-0.09, 0.09) if rng.chance(0.62) else oblique
    square = half_tangent * half_tangent
    return Plantation(
        foot=(float(snapped(foot[0])), float(snapped(foot[1]))),
        horizon_y=horizon_y,
        height_px=max(height_px, 40.0),
        middle_x=size[0] * rng.uniform(0.35, 0.65),
        distance=rng.uniform(1.0, 2.6),
        cosine=(1 - square) / (1 + square),
        sine=2 * half_tangent / (1 + square),
        row_gap=rng.uniform(0.8, 1.6),
        plant_gap=rng.uniform(0.8, 1.35) if vines else rng.uniform(0.36, 0.9),
    )


def places(rng: Rng, rows: Plantation, width: int) -> FloatArray:
    """Place the other plants of the rows, the farthest first.

    The result is (K,4): x and y of the foot, size relative to the subject, and number of the row.
    """
    found = []
    number = np.arange(-EXTENT, EXTENT + 1)
    for row in range(5):
        offset = 0.0 if row == 0 else rng.uniform(-0.5, 0.5)
        along = (number + offset + rng.array(len(number), low=-0.12, high=0.12)) * rows.plant_gap
        missing = rng.array(len(number)) < 0.05
        x, y, scale = rows.project(along, float(row))
        reach = 0.45 * rows.height_px * scale
        kept = (scale > MIN_SCALE) & (scale < MAX_SCALE) & (x > -reach) & (x < width + reach) & ~missing
        kept &= (np.abs(x - rows.foot[0]) > CLEAR_HEIGHTS * rows.height_px) | (scale < 0.68)
        aside = np.abs(x - 0.5 * width) - abs(rows.foot[0] - 0.5 * width)
        kept &= (aside > SIDE_SHARE * width) | (scale < LARGE)
        if row == 0:
            kept &= number != 0
        found.append(np.stack([x, y, scale, np.full(len(x), float(row))], axis=1)[kept])
    every = np.concatenate(found)
    order = np.argsort(every[:, 2], kind="stable")
    return np.asarray(every[order][-MAX_PLANTS:])
