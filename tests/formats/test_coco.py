"""COCO: pycocotools opens written files; files of many images give one skeleton per image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pycocotools.coco import COCO

from tests.formats.annotated import distinct_forests, graph, plants
from tests.strategies import examples
from treeformer import FormatError, Skeleton
from treeformer.formats import coco

in_one_folder = settings(
    deadline=None, max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@in_one_folder
@given(distinct_forests())
def test_round_trip_and_pycocotools(tmp_path: Path, skeleton: Skeleton):
    path = tmp_path / "forest.json"
    skeleton = skeleton.replace(image_name="a.png")
    coco.write(skeleton, path)
    again = coco.read(path)
    assert graph(again) == graph(skeleton)
    assert plants(again) == plants(skeleton)
    assert (again.image_name, again.image_size) == ("a.png", skeleton.image_size)

    theirs = COCO(str(path))
    (image,) = theirs.loadImgs(theirs.getImgIds())
    annotations = theirs.loadAnns(theirs.getAnnIds(imgIds=image["id"], catIds=theirs.getCatIds("plant")))
    assert len(annotations) == len(skeleton.plants)
    for annotation in annotations:
        xs, ys = annotation["keypoints"][0::3], annotation["keypoints"][1::3]
        assert annotation["num_keypoints"] == len(xs)
        left, top, width, height = annotation["bbox"]
        assert (left, top) == (min(xs), min(ys))
        assert (left + width, top + height) == pytest.approx((max(xs), max(ys)))
        assert annotation["area"] == pytest.approx(width * height)
        assert all(1 <= end <= len(xs) for pair in annotation["skeleton"] for end in pair)
    pairs = sum(len(annotation["skeleton"]) for annotation in annotations)
    assert pairs == len(skeleton.edges)


def image(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "file_name": f"{number}.jpg", "width": 100, "height": 80} | more


def annotation(number: int, **more: Any) -> dict[str, Any]:
    return {"id": 1, "image_id": number, "category_id": 1, "keypoints": [1, 2, 2, 3, 4, 1, 5, 6, 2]} | more


def write(tmp_path: Path, images: Any, annotations: Any, categories: Any = ()) -> Path:
    path = tmp_path / "set.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": list(categories)}))
    return path


def test_many_images(tmp_path: Path):
    path = write(
        tmp_path,
        [image(7), image(3), image(5)],
        [
            annotation(3, skeleton=[[1, 2]]),
            annotation(7, skeleton=[[1, 3]]),
            annotation(3, skeleton=[]),
            {"id": 9, "image_id": 5, "category_id": 2, "bbox": [0, 0, 1, 1]},
        ],
    )
    first, second, third = coco.read_all(path)
    assert [s.image_name for s in (first, second, third)] == ["7.jpg", "3.jpg", "5.jpg"]
    assert first.edges.tolist() == [[0, 2]]
    assert [len(plant) for plant in second.plants] == [3, 3]
    assert third.metadata == {"coco": {"ignored_annotations": 1}}
    assert len(third) == 0
    with pytest.raises(FormatError, match=r"^set\.json: contains 3 images, not one: use read_all"):
        coco.read(path)


def test_the_skeleton_of_the_category_and_unlabeled_keypoints(tmp_path: Path):
    keypoints = [1, 2, 2, 0, 0, 0, 5, 6, 1]
    categories = [{"id": 1, "name": "maize", "keypoints": ["a", "b", "c"], "skeleton": [[1, 2], [2, 3], [1, 3]]}]
    skeleton = coco.read(write(tmp_path, [image(1)], [annotation(1, keypoints=keypoints)], categories))
    assert skeleton.nodes.tolist() == [[1, 2], [5, 6]]
    assert skeleton.edges.tolist() == [[0, 1]]


def test_values_follow_their_keypoints(tmp_path: Path):
    skeleton = coco.read(
        write(
            tmp_path,
            [image(1)],
            [
                annotation(
                    1,
                    keypoints=[1, 2, 2, 0, 0, 0, 5, 6, 1],
                    skeleton=[[1, 2], [1, 3]],
                    radius=[7, 8, None],
                    node_score=[0.1, 0.2, 0.3],
                    edge_score=[0.4, 0.5],
                    roots=[3, 2],
                )
            ],
        )
    )
    at = {(1.0, 2.0): 0.1, (5.0, 6.0): 0.3}
    assert graph(skeleton)["node_score"] == at
    assert graph(skeleton)["radius"] == {(1.0, 2.0): 7.0}
    assert skeleton.edge_score is not None
    assert skeleton.edge_score.tolist() == [0.5]
    assert skeleton.roots.tolist() == [1]


@pytest.mark.parametrize(
    ("images", "annotations", "message"),
    [
        (3, [], "images is 3, not a list"),
        ([], [], "contains 0 images"),
        ([{"file_name": "a"}], [], r"images\[0\].id is None"),
        ([image(1)], [annotation(2)], r"annotations\[0\] refers to image 2, which does not exist"),
        ([image(1)], [annotation(1, keypoints=[1, 2])], r"annotations\[0\].keypoints has 2 numbers, not three"),
        ([image(1)], [annotation(1, keypoints=[1, 2, "a"])], r"annotations\[0\].keypoints\[2\] is 'a'"),
        ([image(1)], [annotation(1, skeleton=[[0, 1]])], r"annotations\[0\].skeleton\[0\] refers to keypoint 0"),
        ([image(1)], [annotation(1, skeleton=[[1, 4]])], r"annotations\[0\].skeleton\[0\] refers to keypoint 4"),
        ([image(1)], [annotation(1, skeleton=[[1, 2], [2, 1]])], r"edge 1 \(1, 0\) repeats edge 0"),
        ([image(1, width=0)], [], "image_size must be positive"),
    ],
)
def test_bad_files(tmp_path: Path, images: Any, annotations: Any, message: str):
    with pytest.raises(FormatError, match=rf"^set\.json: {message}") as caught:
        coco.read(write(tmp_path, images, annotations))
    assert "\n" not in str(caught.value)


def test_two_images_of_one_id(tmp_path: Path):
    with pytest.raises(FormatError, match=r"images\[1\] repeats the id 1"):
        list(coco.read_all(write(tmp_path, [image(1), image(1)], [])))


def test_an_edge_across_plants_cannot_be_written(tmp_path: Path):
    with pytest.raises(FormatError, match=r"^a\.json: edge 0 joins two plants"):
        coco.write(Skeleton([(0, 0), (1, 1)], [(0, 1)], plant=[0, 1]), tmp_path / "a.json")
