"""Round trips of RSML: written files are valid and read back the same."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.formats.rsml_documents import METADATA, written
from tests.strategies import examples
from treeformer import Axis, AxisFunction, Plant, Skeleton
from treeformer.formats.junctions import join_axes
from treeformer.formats.rsml import reader as rsml
from treeformer.skeleton.validation import MAX_PX

TEXT = st.text(max_size=8).filter(lambda text: not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", text))
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
COORDINATE = st.one_of(st.integers(-5, 5).map(float), st.floats(-1e6, 1e6)).map(lambda value: value + 0.0)
NAME = st.sampled_from(["species", "parent-node", "größe", "two words", "1st", "a:b", "{u}v", ""])


@st.composite
def functions(draw: st.DrawFn, points: int) -> AxisFunction:
    count = draw(st.sampled_from([points, 1, 3]))
    name = draw(st.sampled_from(["diameter", "confidence", "µ & <σ>"]))
    value = st.floats(-2 * MAX_PX, 2 * MAX_PX) if name == "diameter" else NUMBER
    samples = st.lists(NUMBER, min_size=count, max_size=count).map(tuple)
    return AxisFunction(
        name=name,
        samples=draw(st.lists(value, min_size=count, max_size=count).map(tuple)),
        domain=draw(st.sampled_from(["polyline", "uniform", "length"])),
        origin=draw(st.sampled_from(["", "base", "tip"])),
        positions=draw(st.none() | samples),
    )


@st.composite
def forests(draw: st.DrawFn) -> Skeleton:
    """Draw a skeleton as read from a file: axes in document order, laterals at, on and off their parents' lines."""
    axes: list[Axis] = []
    lines: list[np.ndarray[Any, np.dtype[np.float64]]] = []

    def add(parent: int | None, plant: int, order: int) -> None:
        points = draw(st.lists(st.tuples(COORDINATE, COORDINATE), min_size=1, max_size=5))
        if parent is not None and draw(st.booleans()):
            points[0] = tuple(lines[parent][draw(st.integers(0, len(lines[parent]) - 1))].tolist())
        if len(points) == 2 and points[0] == points[1]:
            del points[1]  # such a line is read as one point
        number = len(axes)
        lines.append(np.array(points))
        axes.append(
            Axis(
                nodes=(),
                id=draw(TEXT),
                label=draw(TEXT),
                accession=draw(TEXT),
                parent=parent,
                plant=plant,
                properties=draw(st.dictionaries(NAME, TEXT, max_size=3)),
                functions=tuple(draw(st.lists(functions(len(points)), max_size=2))),
            )
        )
        for _ in range(draw(st.integers(0, 2 if order < 2 else 0))):
            add(number, plant, order + 1)

    plants = []
    for plant in range(draw(st.integers(1, 3))):
        plants.append(Plant(draw(TEXT), draw(TEXT), draw(st.dictionaries(NAME, TEXT, max_size=2))))
        for _ in range(draw(st.integers(1, 2))):
            add(None, plant, 0)
    joined = join_axes(lines, [axis.parent for axis in axes], [axis.plant for axis in axes])
    axes = [replace(axis, nodes=nodes) for axis, nodes in zip(axes, joined.axis_nodes, strict=True)]
    return Skeleton(
        joined.nodes,
        joined.edges,
        root=joined.roots,
        radius=slow_radius(axes, len(joined.nodes)),
        axes=axes,
        edge_axis=joined.edge_axis,
        plant=joined.plant,
        plant_records=plants,
        image_name=draw(st.sampled_from([None, "plate 7 ä.png"])),
        metadata={"rsml": METADATA},
    )


def slow_radius(axes: list[Axis], count: int) -> list[float] | None:
    """Return the radius of each node from the first axis through it with one diameter per point."""
    given_by = [
        next(
            (
                f
                for f in axis.functions
                if f.name == "diameter" and f.domain == "polyline" and len(f.samples) == len(axis.nodes)
            ),
            None,
        )
        for axis in axes
    ]
    if not any(given_by):
        return None
    radius = []
    for node in range(count):
        found = [
            f.samples[axis.nodes.index(node)]
            for axis, f in zip(axes, given_by, strict=True)
            if f and node in axis.nodes
        ]
        radius.append(found[0] / 2 if found and found[0] >= 0 else float("nan"))
    return radius


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(skeleton=forests())
def test_written_files_are_valid_and_read_back_the_same(
    skeleton: Skeleton, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert written(skeleton, tmp_path_factory.getbasetemp() / "forest.rsml") == skeleton


@pytest.mark.slow
@settings(max_examples=examples(30), deadline=None)
@given(skeleton=forests())
def test_smartroot_reads_back_the_same_lines(skeleton: Skeleton, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "forest.rsml"
    rsml.write(skeleton, path, dialect="smartroot")
    again = rsml.read(path)
    np.testing.assert_array_equal(again.nodes, skeleton.nodes)
    assert [axis.nodes for axis in again.axes] == [axis.nodes for axis in skeleton.axes]
    assert [axis.id for axis in again.axes] == [axis.id for axis in skeleton.axes]
    assert [axis.functions for axis in again.axes] == [axis.functions for axis in skeleton.axes]
    assert rsml.resolution_px_per_mm(again) == pytest.approx(11.8)


@st.composite
def forests_without_axes(draw: st.DrawFn) -> Skeleton:
    """Draw a forest without axes, ids or metadata, as from a model or an SWC file, without coinciding nodes."""
    count = draw(st.integers(2, 25))
    points = st.tuples(COORDINATE, COORDINATE)
    nodes = draw(st.lists(points, min_size=count, max_size=count, unique=True))
    parents = [-1, 0, *(draw(st.integers(-1, node - 1)) for node in range(2, count))]
    scores = draw(st.none() | st.lists(st.floats(0, 1), min_size=count, max_size=count))
    radius = draw(st.none() | st.lists(st.floats(0, 1e7) | st.just(float("nan")), min_size=count, max_size=count))
    return Skeleton.from_parents(nodes, parents, node_score=scores, radius=radius)


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(skeleton=forests_without_axes())
def test_a_forest_without_axes_keeps_its_edges(skeleton: Skeleton, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "tree.rsml"
    again = written(skeleton, path)

    def edges(forest: Skeleton) -> set[frozenset[tuple[float, ...]]]:
        return {frozenset((tuple(forest.nodes[u].tolist()), tuple(forest.nodes[v].tolist()))) for u, v in forest.edges}

    assert edges(again) == edges(skeleton)
    assert len(again) == len(skeleton)
    assert [len(plant) for plant in again.plants] == [len(plant) for plant in skeleton.plants]
    assert {tuple(p) for p in again.nodes[again.roots].tolist()} == {
        tuple(p) for p in skeleton.nodes[skeleton.roots].tolist()
    }
    assert written(again, path) == again

    roots = list(etree.parse(path).iter("root"))
    assert len({root.get("id") for root in roots}) == len(roots)
    for root in roots:
        order = sum(above.tag == "root" for above in root.iterancestors())
        assert root.get("accession") == ("PO:0020121" if order else "PO:0020127")
        if order:
            points = [dict(point.attrib) for point in root.getparent().find("geometry/polyline")]
            assert dict(root.find("geometry/polyline/point").attrib) in points
