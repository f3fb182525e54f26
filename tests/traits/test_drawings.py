"""The drawings of docs/traits.md show what the page and `measure` say."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from treeformer import Skeleton, measure
from treeformer.traits.definitions import TRAITS

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def drawing(name: str) -> ElementTree.Element:
    return ElementTree.parse(DOCS / "images" / f"traits-{name}.svg").getroot()


def drawn(name: str) -> Skeleton:
    """The skeleton that the first lines of a drawing show; lines that share a point are joined there."""
    lines = [line.get("points", "") for line in drawing(name).find(f"{SVG}g").iter(f"{SVG}polyline")]
    points = [[tuple(map(float, point.split(","))) for point in line.split()] for line in lines]
    nodes = list(dict.fromkeys(point for line in points for point in line))
    edges = [(nodes.index(a), nodes.index(b)) for line in points for a, b in pairwise(line)]
    return Skeleton(nodes, edges, root=0)


def stated(caption: str) -> dict[str, float]:
    """The values that follow these words in a paragraph of the page."""
    text = (DOCS / "traits.md").read_text(encoding="utf-8")
    text = re.sub(r"(?<!\n)\n(?!\n)", " ", text)  # paragraphs are wrapped
    paragraph = text.split(caption)[1].split("\n\n")[0]
    return {name: float(value) for name, value in re.findall(r"`(\w+)`\s+([\d.]*\d)", paragraph)}


def test_the_drawn_plant_has_the_stated_traits():
    plant = drawn("plant")
    values = stated("The drawn plant has")
    assert len(values) >= 8
    assert measure(plant).iloc[0][list(values)].to_dict() == pytest.approx(values, rel=5e-3)


def test_the_drawn_orders_tips_and_crossings_are_those_of_the_skeleton():
    plant, root = drawn("plant"), drawing("plant")
    lines = [line.get("class") for line in root.find(f"{SVG}g").iter(f"{SVG}polyline")]
    assert sorted(lines) == sorted(f"order{order}" for order in plant.axis_order)
    place = {
        kind: {(float(c.get("cx")), float(c.get("cy"))) for c in root.iter(f"{SVG}circle") if c.get("class") == kind}
        for kind in ("tip", "fork")
    }
    degree = plant.degree
    assert {tuple(p) for p in plant.nodes[(degree == 1) & (plant.parents >= 0)].tolist()} <= place["tip"]
    assert {tuple(p) for p in plant.nodes[degree >= 3].tolist()} <= place["fork"]
    assert len(place["tip"]) == 5 + 1  # one more in the legend
    assert len(place["fork"]) == 4 + 1
    crossings = [line for line in root.iter(f"{SVG}path") if "H215" in line.get("d", "")]
    numbers = [text.text for text in root.iter(f"{SVG}text") if (text.text or "").isdigit()]
    heights = [float(re.search(r"M45 (\d+)", line.get("d"))[1]) for line in crossings]
    ends = plant.nodes[plant.edges][:, :, 1]
    assert [int(number) for number in numbers] == [
        int(((ends.min(axis=1) <= y) & (y < ends.max(axis=1))).sum()) for y in heights
    ]


def test_the_drawn_axis_has_the_stated_angles():
    axis = measure(drawn("axis"), level="axis").set_index("order").loc[1]
    values = stated("The drawn lateral has")
    assert set(values) >= {"emergence_angle", "branching_angle", "chord_angle", "tip_angle", "length", "curve_index"}
    assert axis[list(values)].to_dict() == pytest.approx(values, rel=5e-3)


def test_the_names_in_the_drawings_are_traits():
    known = {re.sub(r"_\{\w+\}$", "", trait.name) for trait in TRAITS}
    for name in ("plant", "axis"):
        names = {text.text for text in drawing(name).iter(f"{SVG}text") if text.get("class") == "name"}
        assert names
        assert names <= known
