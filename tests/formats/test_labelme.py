"""LabelMe: one linestrip per axis, one group per plant; other shapes are counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.formats.annotated import distinct_forests, graph, plants
from tests.strategies import examples
from treeformer import FormatError, Skeleton
from treeformer.formats import labelme
from treeformer.formats import read as read_any

in_one_folder = settings(
    deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.slow
@in_one_folder
@given(distinct_forests())
def test_round_trip(tmp_path: Path, skeleton: Skeleton):
    labelme.write(skeleton, tmp_path / "forest.json")
    again = labelme.read(tmp_path / "forest.json")
    assert graph(again, values=False) == graph(skeleton, values=False)
    assert plants(again) == plants(skeleton)
    assert again.image_size == skeleton.image_size
    assert again.plant_records == ()
    assert again.metadata == {}


def test_fields_required_by_labelme(tmp_path: Path, y_shape: Skeleton):
    labelme.write(y_shape.replace(image_name="übung.png"), tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert {k: document[k] for k in ("imagePath", "imageData", "imageHeight", "imageWidth", "flags")} == {
        "imagePath": "übung.png",
        "imageData": None,
        "imageHeight": 10,
        "imageWidth": 10,
        "flags": {},
    }
    assert document["shapes"][0] == {
        "label": "axis",
        "points": [[5, 9], [5, 5], [2, 1]],
        "group_id": 0,
        "shape_type": "linestrip",
        "flags": {},
    }
    assert [(s["shape_type"], s["label"]) for s in document["shapes"][1:]] == [("linestrip", "axis"), ("point", "root")]


def test_a_cycle_is_opened_at_one_node(tmp_path: Path, ring: Skeleton):
    labelme.write(ring, tmp_path / "ring.json")
    again = labelme.read(tmp_path / "ring.json")
    assert again.is_tree
    assert again.length == ring.length


def test_trees_of_a_plant_that_touch_are_read_as_one(tmp_path: Path):
    """Otherwise the file has two roots in one tree, and cannot be read."""
    nodes = [(5, 9), (5, 5), (5, 5), (9, 1), (5, 5), (5, 5), (20, 9)]
    skeleton = Skeleton(nodes, [(0, 1), (2, 3)], root=[0, 2, 4, 5, 6], plant=[0] * 7)
    labelme.write(skeleton, tmp_path / "a.json")
    again = labelme.read(tmp_path / "a.json")
    assert again.length == skeleton.length
    assert again.nodes[again.roots].tolist() == [[5, 9], [20, 9]]


def test_roots_that_cross_at_a_point_stay_separate(tmp_path: Path):
    lines = [[[5, 0], [0, 5], [9, 9]], [[5, 0], [9, 5], [0, 5], [0, 9]], [[9, 9], [20, 20]]]
    skeleton = read(tmp_path, [shape("linestrip", line, 1) for line in lines])
    assert skeleton.is_tree
    assert len(skeleton) == 3 + 3 + 1
    # The second begins at the start of the first but has its own node at (0, 5). The third continues at a tip.
    assert skeleton.degree[skeleton.nodes.tolist().index([5, 0])] == 2
    assert skeleton.degree[skeleton.nodes.tolist().index([9, 9])] == 2


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]])
def test_laterals_may_precede_their_parent_and_have_either_direction(tmp_path: Path, order: list[int]):
    lines = [[[0, 0], [0, 5], [0, 9]], [[0, 5], [4, 4]], [[-4, 4], [0, 5]], [[0, 0], [7, 7]]]
    skeleton = read(tmp_path, [shape("linestrip", lines[at]) for at in order])
    assert skeleton.is_tree
    assert sorted(skeleton.degree.tolist()) == [1, 1, 1, 1, 2, 4]


def test_a_tip_that_touches_its_own_plant_is_not_joined_instead_of_the_base(tmp_path: Path):
    main, lateral = [[0, 0], [0, 5], [0, 9]], [[0, 5], [4, 4], [0, 0]]
    skeleton = read(tmp_path, [shape("linestrip", lateral), shape("linestrip", main)])
    assert skeleton.is_tree
    assert skeleton.degree.max() == 3
    assert skeleton.nodes[skeleton.degree.argmax()].tolist() == [0, 5]


def test_real_roots_keep_their_length(tmp_path: Path, real_data: Callable[[str], Path]):
    """Barley roots have integer coordinates, so that points of different roots often coincide."""
    for path in sorted(real_data("barley-roots").rglob("*.rsml"))[:30]:
        skeleton = read_any(path)
        labelme.write(skeleton, tmp_path / "a.json")
        again = labelme.read(tmp_path / "a.json")
        assert again.is_forest
        assert again.length == pytest.approx(skeleton.length)


def shape(kind: str, points: list[Any], group: Any = None, label: str = "root axis") -> dict[str, Any]:
    return {"label": label, "points": points, "group_id": group, "shape_type": kind, "flags": {}}


def read(tmp_path: Path, shapes: Any, **more: Any) -> Skeleton:
    (tmp_path / "drawn.json").write_text(json.dumps({"version": "5.2.1", "shapes": shapes, **more}))
    return labelme.read(tmp_path / "drawn.json")


def test_shapes_join_where_points_coincide_but_not_across_plants(tmp_path: Path):
    skeleton = read(
        tmp_path,
        [
            shape("linestrip", [[0, 0], [0, 5], [0, 9]], 4),
            shape("line", [[0, 5], [5, 5]], 4),
            shape("linestrip", [[0, 5], [9, 9]], 7),
            shape("polygon", [[0, 0], [1, 0], [1, 1]], 4),
            shape("point", [[3, 3]], 4, label="flower"),
            shape("linestrip", [[50, 50], [60, 60]]),
        ],
        imagePath="..\\plates\\a.jpg",
        imageHeight=100,
        imageWidth=80,
    )
    assert len(skeleton.nodes) == 4 + 2 + 2
    assert [len(plant.nodes) for plant in skeleton.plants] == [4, 2, 2]
    assert [plant.id for plant in skeleton.plant_records] == ["4", "7"]
    assert skeleton.metadata == {"labelme": {"ignored_shapes": 2}}
    assert skeleton.image_name == "..\\plates\\a.jpg"
    assert skeleton.image_size == (80, 100)


def test_without_groups_each_component_is_a_plant(tmp_path: Path):
    skeleton = read(tmp_path, [shape("line", [[9, 0], [9, 5]]), shape("line", [[0, 0], [0, 5]])])
    assert skeleton.plant is None
    assert len(skeleton.plants) == 2


def test_an_image_without_shapes_is_an_empty_skeleton(tmp_path: Path):
    assert len(read(tmp_path, [])) == 0


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (3, "shapes is 3, not a list"),
        ([3], r"shapes\[0\] is 3, not an object"),
        ([shape("line", [[0, 0], [1]])], r"shapes\[0\].points\[1\] is \[1\], not a pair"),
        ([shape("line", [[0, 0], [1, "a"]])], r"shapes\[0\].points\[1\] is 'a', not a number"),
        ([shape("line", [[0, 0], [1, 1]], group=[2])], r"shapes\[0\].group_id is \[2\]"),
        ([shape("polygon", [[0, 0], [1, 1]])], "has no linestrip and no line, only 1 other shapes"),
        ([shape("line", [[0, 0], [1, 1]]), shape("point", [[0, 0], [1, 1]], label="root")], "nodes 0 and 1 are both"),
    ],
)
def test_bad_files(tmp_path: Path, shapes: Any, message: str):
    with pytest.raises(FormatError, match=rf"^drawn\.json: {message}") as caught:
        read(tmp_path, shapes)
    assert "\n" not in str(caught.value)


def test_an_edge_across_plants_cannot_be_written(tmp_path: Path):
    with pytest.raises(FormatError, match="edge 0 joins two plants"):
        labelme.write(Skeleton([(0, 0), (1, 1)], [(0, 1)], plant=[0, 1]), tmp_path / "a.json")
