"""Daylight: one light per outdoor image, shared by sky, ground, bark, leaves and shadows."""

from __future__ import annotations

from dataclasses import dataclass

from treeformer.synthetic.painting.canvas import Color
from treeformer.synthetic.rng import Rng

WEIGHTS = (("overcast", 0.5), ("bright", 0.3), ("low sun", 0.12), ("backlit", 0.08))


@dataclass(frozen=True, slots=True)
class Daylight:
    """Direction, strength and color of the light."""

    kind: str  # "overcast", "bright", "low sun" or "backlit"
    sun: float  # strength of the direct light, 0 to 1
    sun_direction: tuple[float, float, float]  # direction to the sun: right, down, towards the viewer
    ambient: float  # strength of the light from the sky
    tint: Color  # color of the direct light, one factor per channel

    @property
    def casts_shadows(self) -> bool:
        """Whether objects have a shadow with an outline."""
        return self.sun > 0.2

    @property
    def level(self) -> float:
        """Brightness of level ground, about 1."""
        return self.ambient + self.sun * 0.5


def choose_daylight(rng: Rng, weights: tuple[tuple[str, float], ...] = WEIGHTS) -> Daylight:
    """Choose a random light: mostly overcast or sunny, sometimes a low sun from the side or from behind."""
    kind = rng.weighted(weights)
    if kind == "overcast":
        return overcast(rng)
    side = rng.uniform(-1.0, 1.0)
    if kind == "bright":
        return Daylight(kind, rng.uniform(0.5, 0.85), (side * 0.8, -0.55, 0.45), 0.55, (1.05, 1.0, 0.9))
    if kind == "low sun":
        side = 0.85 if side > 0 else -0.85
        return Daylight(kind, rng.uniform(0.5, 0.9), (side, -0.2, 0.4), 0.5, (1.15, 0.98, 0.74))
    return Daylight(kind, 0.35, (side * 0.6, -0.5, -0.6), 0.5, (1.1, 1.0, 0.85))


def overcast(rng: Rng) -> Daylight:
    """Choose the light of a random overcast day, which comes from the whole sky."""
    side = rng.uniform(-1.0, 1.0)
    return Daylight("overcast", 0.0, (side * 0.3, -0.9, 0.3), rng.uniform(0.86, 1.02), (1.0, 1.0, 1.0))
