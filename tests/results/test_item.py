"""What a skeleton file is, and which one an image has."""

from __future__ import annotations

import pytest

import treeformer
from treeformer import Skeleton, formats
from treeformer.hub.model_folder import ModelFolder, ModelSettings
from treeformer.inference.provenance import prediction_metadata
from treeformer.results.item import Item, Origin, Reader, is_unchanged, open_places, origin_in, origin_of
from treeformer.results.saved import write_saved

TREE = Skeleton([(1, 1), (5, 5), (9, 9)], [(0, 1), (1, 2)], root=0)
PREDICTED = TREE.replace(edge_score=[0.1, 0.9], node_score=[0.9] * 3)

EMPTY = Skeleton([], [], node_score=[], edge_score=[])


def edited(skeleton: Skeleton, **editor) -> Skeleton:
    return skeleton.replace(metadata={**skeleton.metadata, "editor": editor})


@pytest.mark.parametrize(
    ("skeleton", "origin"),
    [
        (TREE, Origin.annotation),
        (PREDICTED, Origin.prediction),
        (edited(PREDICTED, accepted=False), Origin.correction),
        (edited(TREE, accepted=False), Origin.correction),
        (edited(PREDICTED, accepted=True), Origin.accepted),
        (edited(PREDICTED, accepted=False, written={"origin": "prediction"}), Origin.correction),  # without its digest
        (edited(PREDICTED, accepted=False, written={"origin": ["x"], "json": "0"}), Origin.correction),
        (PREDICTED.replace(metadata={"editor": "vim"}), Origin.prediction),
    ],
)  # fmt: skip
def test_origins(skeleton, origin):
    assert origin_of(skeleton) is origin


@pytest.mark.parametrize(
    ("skeleton", "name"),
    [
        *((PREDICTED, name) for name in ("json", "rsml", "swc", "graphml", "node-link")),
        *((EMPTY, name) for name in ("json", "rsml", "swc")),
    ],
)
def test_predictions_are_recognized_in_the_formats_that_say_so(tmp_path, skeleton, name):
    """Without a plant, RSML has no axis that could state a score. SWC never states one."""
    model = ModelFolder(tmp_path / "vines", ModelSettings("vines", {}, working_size=64))
    made = skeleton.replace(metadata=prediction_metadata(model, {"working_size": 64}))
    file = tmp_path / f"a{formats.FORMATS[name].suffixes[0]}"
    formats.write(made, file, format=name)
    assert origin_in(file) is Origin.prediction
    formats.write(skeleton.replace(node_score=None, edge_score=None), file, format=name)
    assert origin_in(file) is Origin.annotation


def test_a_file_that_cannot_be_read_has_no_origin(tmp_path):
    (tmp_path / "a.json").write_text("{")
    assert [origin_in(tmp_path / name) for name in ("a.json", "b.json")] == [None, None]


@pytest.mark.parametrize(("skeleton", "origin"), [(PREDICTED, Origin.prediction), (TREE, Origin.annotation)])
def test_what_is_saved_unchanged_stays_what_it_was(tmp_path, skeleton, origin):
    files = tmp_path / "a.json", tmp_path / "a.rsml"
    treeformer.write(skeleton, files[0])
    assert write_saved(*files, edited(skeleton, accepted=False, px_per_mm=4.0), origin) is None
    assert origin_in(files[0]) is origin
    treeformer.write(treeformer.read(files[0]).replace(nodes=skeleton.nodes + 1), files[0])
    assert origin_in(files[0]) is Origin.correction, "another program has changed it"
    assert (tmp_path / "a.orig.json").exists()


def test_open_places():
    assert [open_places(one) for one in (TREE, PREDICTED)] == [0, 1]
    assert open_places(edited(PREDICTED, edge_source=["accepted", "predicted"])) == 0
    assert open_places(edited(PREDICTED, edge_source=["predicted", "accepted"])) == 1
    assert open_places(edited(PREDICTED, edge_source=["predicted"])) == 1, "one source for two edges says nothing"
    assert open_places(edited(PREDICTED, accepted=True)) == 0
    assert open_places(PREDICTED.replace(metadata={"low_confidence_threshold": 0.95})) == 2


def test_a_change():
    assert is_unchanged(edited(PREDICTED, px_per_mm=2, edge_source=["predicted"] * 2), PREDICTED)
    assert not is_unchanged(edited(PREDICTED, edge_source=["predicted", "accepted"]), PREDICTED)
    assert not is_unchanged(PREDICTED.replace(nodes=PREDICTED.nodes + 1), PREDICTED)
    before = edited(PREDICTED, edge_source=["edited", "predicted"])
    assert is_unchanged(edited(PREDICTED, edge_source=["edited", "predicted"]), before)
    assert not is_unchanged(edited(PREDICTED, edge_source=["predicted", "predicted"]), before)


def test_results_come_before_files_beside_the_image(tmp_path):
    image, results = tmp_path / "images" / "a.png", tmp_path / "results"
    item = Item(image, results / "a")
    assert Reader().choose(item) is None
    treeformer.write(TREE, image.with_suffix(".json"))
    assert Reader().choose(item) == image.with_suffix(".json")
    treeformer.write(TREE, results / "a.swc")
    assert Reader().choose(item) == results / "a.swc"
    (results / "a.json").write_text('{"camera": "f/8"}')
    assert Reader().choose(item) == results / "a.swc", "settings of a camera are no skeleton"
    (results / "a.json").write_text("{")
    assert Reader().choose(item) == results / "a.json", "a damaged skeleton is reported, not replaced by another"


def test_a_file_is_parsed_once_until_it_changes(tmp_path, monkeypatch):
    calls = []
    read = formats.read
    monkeypatch.setattr(formats, "read", lambda path: (calls.append(path.name), read(path))[1])
    for suffix in (".json", ".swc"):
        treeformer.write(TREE, tmp_path / f"a{suffix}")
    reader, item = Reader(), Item(tmp_path / "a.png", tmp_path / "a")
    for _ in range(2):
        chosen = reader.choose(item)
        reader.about(chosen)
        reader.read(chosen)
    assert calls == ["a.json"]
    treeformer.write(TREE.replace(nodes=TREE.nodes + 1.5), chosen)
    assert reader.read(chosen).nodes[0].tolist() == [2.5, 2.5]


def test_choices_are_named_unless_the_files_were_written_together(tmp_path):
    items = [Item(tmp_path / f"{name}.png", tmp_path / name) for name in "abc"]
    for suffix in (".json", ".rsml"):
        treeformer.write(PREDICTED, tmp_path / f"a{suffix}")
    write_saved(items[1].json, items[1].rsml, edited(PREDICTED, accepted=True))
    assert Reader().choices(items) is None
    for suffix in (".rsml", ".swc"):
        treeformer.write(TREE, tmp_path / f"c{suffix}")
    assert Reader().choices(items) == "1 image has several skeleton files; used: c.rsml (not c.swc)"
    treeformer.write(TREE, tmp_path / "a.rsml")
    used = "a.json (not a.rsml), c.rsml (not c.swc)"
    assert Reader().choices(items) == f"2 images have several skeleton files; used: {used}"
