"""3D2cut annotations: synthetic files in the layout given by the description of the dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from treeformer import FormatError, Skeleton
from treeformer.formats import single_guyot


def feature(name: Any, place: Any, parent: Any, **more: Any) -> dict[str, Any]:
    return {"FeatureID": name, "FeatureCoordinates": place, "ParentID": parent} | more


def read(tmp_path: Path, features: Any, **image: Any) -> Skeleton:
    path = tmp_path / "vine 1_annotation.json"
    path.write_text(json.dumps({"VineImage": [{"VineFeature": [features]} | image], "Version": 2}))
    return single_guyot.read(path)


def test_a_vine(tmp_path: Path):
    skeleton = read(
        tmp_path,
        [
            feature(0, [504, 700], None, FeatureType="trunk"),
            feature(1, [500, 400], 0, FeatureType="head"),
            feature(3, [300, 380], 1, FeatureType="cane", EdgeType=2),
            feature(2, [700.5, 390], 1, FeatureType="cane"),
        ],
        ImageName="00001.jpg",
        Season="winter",
    )
    assert skeleton.nodes.tolist() == [[504, 700], [500, 400], [300, 380], [700.5, 390]]
    assert skeleton.parents.tolist() == [-1, 0, 1, 1]
    assert skeleton.root == 0
    assert skeleton.image_name == "00001.jpg"
    assert skeleton.metadata["single_guyot"]["features"][2] == {"FeatureType": "cane", "EdgeType": 2}
    assert skeleton.metadata["single_guyot"]["image"]["Season"] == "winter"


@pytest.mark.parametrize("place", [[12.5, 40], ["12.5", "40"], {"x": 12.5, "y": 40}, {"X": 12.5, "Y": 40, "Z": 3},
                                   "12.5,40", "(12.5; 40.0)", [[12.5, 40]], [12.5, 40, 0]])  # fmt: skip
@pytest.mark.parametrize("root", [None, -1, "", "-1", "a", "None"])
def test_other_spellings(tmp_path: Path, place: Any, root: Any):
    skeleton = read(tmp_path, [feature("a", place, root), feature("b", [0, 0], "a")])
    assert skeleton.nodes[0].tolist() == [12.5, 40]
    assert skeleton.parents.tolist() == [-1, 0]


def test_ids_may_be_numbers_or_strings(tmp_path: Path):
    assert read(tmp_path, [feature(1, [0, 0], -1), feature(2, [1, 1], "1"), feature("3", [2, 2], 2.0)]).is_tree


def test_features_without_an_inner_list(tmp_path: Path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"VineImage": {"VineFeature": [feature(1, [0, 0], -1)]}}))
    assert len(single_guyot.read(path)) == 1


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([feature(1, [0, 0], 5)], r"VineImage\[0\].VineFeature\[0\]\[0\] has ParentID 5, which does not exist"),
        ([feature(1, [0, 0], 2), feature(2, [0, 0], 1)], r".*is its own ancestor"),
        ([feature(1, [0, 0], -1), feature(1, [0, 0], 1)], r".*\[1\] repeats the FeatureID 1"),
        ([{"FeatureCoordinates": [0, 0]}], r".*\[0\] has no FeatureID"),
        ([feature(1, [0], -1)], r".*FeatureCoordinates is \[0\], not x and y"),
        ([feature(1, {"a": 1}, -1)], r".*FeatureCoordinates is None, not a number"),
        ([feature(1, None, -1)], r".*FeatureCoordinates is None, not a list"),
        ([feature(1, "nowhere", -1)], r".*FeatureCoordinates is \[\], not x and y"),
        ([feature(1, "1e999, 0", -1)], "node 0 is at .*finite"),
        ([7], r"VineImage\[0\].VineFeature\[0\]\[0\] is 7, not an object"),
    ],
)
def test_bad_files(tmp_path: Path, features: Any, message: str):
    with pytest.raises(FormatError, match=rf"^vine 1_annotation\.json: {message}") as caught:
        read(tmp_path, features)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("document", [{"VineImage": []}, {"VineImage": 3}, {"VineImage": [{}]}])
def test_no_features(tmp_path: Path, document: Any):
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(FormatError, match=r"^a\.json: VineImage"):
        single_guyot.read(tmp_path / "a.json")
