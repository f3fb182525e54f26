"""Every file that is written can be read again, whatever the skeleton: touching trees, strange names, no node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import treeformer
from tests.strategies import examples, forests
from treeformer import FormatError, Skeleton
from treeformer.formats import FORMATS
from treeformer.skeleton import Plant

NAMES = ("a.png", "übung “q”.png", "a\"b'.png", "a\nb,c;d.png", "a&b<c>]]>.png", "\udce4.png", "\x0b", "a\\b.png", "#x")


@st.composite
def awkward(draw: st.DrawFn) -> Skeleton:
    """Forests on a grid of few points, often far away, with trees that share plants and with strange names."""
    skeleton = draw(forests(max_nodes=12, max_plants=8))
    scale = draw(st.sampled_from([0.01, 1, 1e-9, 30_000]))
    names = st.none() | st.sampled_from(NAMES)
    skeleton = skeleton.replace(nodes=np.round(skeleton.nodes / 100) * scale, image_name=draw(names))
    if not len(skeleton) or draw(st.booleans()):
        return skeleton
    plant = skeleton.component % draw(st.integers(1, 3))
    records = [Plant(id=f"{number}{draw(names)}") for number in range(plant.max() + 1)]
    return skeleton.replace(plant=plant, plant_records=draw(st.sampled_from([[], records])))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, entry in FORMATS.items() if entry.write])
@settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(skeleton=awkward())
def test_what_is_written_can_be_read(tmp_path: Path, name: str, skeleton: Skeleton):
    path = tmp_path / f"a{FORMATS[name].suffixes[0]}"
    try:
        treeformer.write(skeleton, path, format=name)
    except FormatError as error:
        if "cannot represent the character" not in str(error):
            raise
        return
    again = treeformer.read(path)
    assert again.length == pytest.approx(skeleton.length, rel=1e-3, abs=0.01)
