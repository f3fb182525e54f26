"""The two roots: what is listed, at which cost, and where predictions left their record."""

from __future__ import annotations

import builtins
import json
import os
import shutil
from pathlib import Path

import pytest

import treeformer
from tests.web.conftest import gradient
from treeformer import Skeleton
from treeformer.errors import FormatError
from treeformer.inference.batch import plan
from treeformer.results.item import expected_errors
from treeformer.results.record import NAME, ImageRecord, read_record, write_record
from treeformer.web.folder import Workspace, open_workspace


@pytest.fixture
def calls(monkeypatch):
    """Count what asks the file system: listings, status calls and opened files."""
    counts = dict.fromkeys(("scandir", "listdir", "stat", "lstat", "open"), 0)

    def count(owner, name):
        original = getattr(owner, name)

        def call(*arguments, **options):
            counts[name] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    for name in ("scandir", "listdir", "stat", "lstat"):
        count(os, name)
    count(builtins, "open")
    original = Path.open
    monkeypatch.setattr(Path, "open", lambda *a, **k: (counts.update(open=counts["open"] + 1), original(*a, **k))[1])
    return counts


@pytest.mark.slow
def test_a_thousand_images_are_listed_with_few_operations(tmp_path, calls):
    first = gradient(tmp_path / "images" / "0000.png", (8, 8))
    for number in range(1, 1000):
        os.link(first, tmp_path / "images" / f"{number:04d}.png")
    skeleton = Skeleton([(1, 1), (5, 5)], [(0, 1)], node_score=[1, 1], edge_score=[0.5])
    for number in range(0, 1000, 2):
        treeformer.write(skeleton, tmp_path / "results" / f"{number:04d}.json")
    workspace = Workspace(tmp_path / "images", tmp_path / "results")
    states = workspace.summaries(workspace.refresh())
    assert sum(one.state == "predicted" for one in states) == 500
    calls.update(dict.fromkeys(calls, 0))
    states = workspace.summaries(workspace.refresh())
    assert sum(one.state == "missing" for one in states) == 500
    assert calls["open"] == 0  # nothing has changed, no file is read
    assert calls["scandir"] + calls["listdir"] < 20
    assert calls["stat"] < 3 * 1000
    assert calls["lstat"] < 20 * 1000
    # One result has changed: one file is read.
    treeformer.write(Skeleton([(1, 1)], []), tmp_path / "results" / "0000.json")
    calls.update(dict.fromkeys(calls, 0))
    assert workspace.summaries(workspace.refresh())[0].nodes == 1
    assert 1 <= calls["open"] <= 4


def stems(workspace):
    return {entry.image: entry.stem.relative_to(workspace.results_root).as_posix() for entry in workspace.refresh()}


def test_results_are_where_predict_writes_them(tmp_path):
    for name in ("b.png", "b.tif", "day 2/b.png", "c.jpg"):
        gradient(tmp_path / "images" / name)
    workspace = Workspace(tmp_path / "images", tmp_path / "results")
    planned = {
        os.path.relpath(job.image, tmp_path / "images"): os.path.relpath(job.skeletons["json"], tmp_path / "results")[
            :-5
        ]
        for job in plan([tmp_path / "images"], tmp_path / "results")
    }
    assert stems(workspace) == planned
    assert planned["b.png"] == "b.png"
    assert planned["c.jpg"] == "c"


def test_results_below_the_images_are_not_listed(tmp_path):
    gradient(tmp_path / "a.png")
    gradient(tmp_path / "out" / "b.png")
    gradient(tmp_path / "a.overlay.jpg")
    assert list(stems(Workspace(tmp_path, tmp_path / "out"))) == ["a.png"]


def test_one_image(tmp_path):
    gradient(tmp_path / "a.png")
    gradient(tmp_path / "b.png")
    assert list(stems(open_workspace(tmp_path / "a.png"))) == ["a.png"]


def predicted(sources, output):
    jobs = plan(sources, output)
    for job in jobs:
        treeformer.write(Skeleton([(1, 1)], [], node_score=[1.0]), job.skeletons["json"])
    write_record(output, sources, jobs)


@pytest.mark.parametrize(("scores", "state"), [({"edge_score": [0.5]}, "predicted"), ({}, "edited")])
def test_rsml_files_of_predictions_are_not_edited(tmp_path, scores, state):
    """`treeformer series` writes RSML files alone; a file without scores is the work of a person."""
    gradient(tmp_path / "a.png")
    treeformer.write(Skeleton([(1, 1), (5, 9)], [(0, 1)], root=0, **scores), tmp_path / "a.rsml")
    workspace = Workspace(tmp_path, tmp_path)
    assert [one.state for one in workspace.summaries(workspace.refresh())] == [state]


def test_the_editor_finds_the_images_of_results(tmp_path, monkeypatch):
    for name in ("a.png", "sub/b.png", "c.png", "c.tif"):
        gradient(tmp_path / "images" / name)
    monkeypatch.chdir(tmp_path)
    predicted([Path("images")], Path("results"))
    workspace = open_workspace(Path("results"))
    assert stems(workspace) == {"a.png": "a", "sub/b.png": "sub/b", "c.png": "c.png", "c.tif": "c.tif"}
    assert {one.state for one in workspace.summaries(workspace.refresh())} == {"predicted"}
    # The folder of the images with the same results is the same.
    assert stems(open_workspace(Path("images"), Path("results"))) == stems(workspace)
    # Images that were added later are listed, too, and keep the others where they are.
    gradient(tmp_path / "images" / "a.tif")
    assert stems(open_workspace(Path("results"))) | {"a.tif": "a.tif"} == stems(open_workspace(Path("results")))
    assert stems(open_workspace(Path("results")))["a.png"] == "a"


def test_images_and_results_can_be_moved_together(tmp_path):
    gradient(tmp_path / "old" / "images" / "sub" / "a.png")
    predicted([tmp_path / "old" / "images"], tmp_path / "old" / "results")
    shutil.move(tmp_path / "old", tmp_path / "new")
    assert stems(open_workspace(tmp_path / "new" / "results")) == {"sub/a.png": "sub/a"}
    shutil.rmtree(tmp_path / "new" / "images")
    with pytest.raises(FormatError, match="does not exist"):
        open_workspace(tmp_path / "new" / "results")


def test_several_runs_share_a_record(tmp_path):
    for name in ("x/a.png", "y/a.png", "y/b.png", "z.png"):
        gradient(tmp_path / name)
    out = tmp_path / "out"
    predicted([tmp_path / "x"], out)
    predicted([tmp_path / "y"], out)  # replaces the result of x/a.png
    predicted([tmp_path / "z.png"], out)
    workspace = open_workspace(out)
    assert workspace.images_root == tmp_path
    found = stems(workspace)
    assert found.pop("x/a.png") not in ("a", "b", "z")
    assert found == {"y/a.png": "a", "y/b.png": "b", "z.png": "z"}
    entries = workspace.refresh()
    missing = [e.image for e, one in zip(entries, workspace.summaries(entries), strict=True) if one.state == "missing"]
    assert missing == ["x/a.png"]


def test_a_record_can_be_read_back(tmp_path):
    gradient(tmp_path / "images" / "ä" / "b c.png")
    predicted([tmp_path / "images"], tmp_path / "deep" / "er" / "results")
    record = read_record(tmp_path / "deep" / "er" / "results")
    assert record == ImageRecord(tmp_path / "images", (".",), {"ä/b c.png": "ä/b c"})
    assert read_record(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"5", b"{}", b"\xff", b"[" * 99_999,
        b'{"format": "treeformer-images", "version": 2, "images": ".", "sources": [], "results": {}}',
        b'{"format": "treeformer-images", "version": 1, "images": 5, "sources": [], "results": {}}',
        b'{"format": "treeformer-images", "version": 1, "images": ".", "sources": [3], "results": {}}',
        b'{"format": "treeformer-images", "version": 1, "images": ".", "sources": [], "results": {"a": 1}}',
        b'{"format": "treeformer-images", "version": 1, "images": "\\u0000", "sources": [], "results": {}}',
    ],
)  # fmt: skip
def test_a_damaged_record_is_one_line_and_predict_replaces_it(tmp_path, content):
    gradient(tmp_path / "images" / "a.png")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / NAME).write_bytes(content)
    with pytest.raises(FormatError, match=NAME):
        open_workspace(tmp_path / "results")
    predicted([tmp_path / "images"], tmp_path / "results")
    assert stems(open_workspace(tmp_path / "results")) == {"a.png": "a"}


def test_a_hostile_record_reaches_nothing_outside(tmp_path):
    gradient(tmp_path / "images" / "a.png")
    gradient(tmp_path / "secret.png")
    (tmp_path / "results").mkdir()
    document = {
        "format": "treeformer-images",
        "version": 1,
        "images": "../images",
        "sources": [".", "../secret.png", str(tmp_path / "secret.png"), ".."],
        "results": {"a.png": "../../evil", "../secret.png": "s"},
    }
    (tmp_path / "results" / NAME).write_text(json.dumps(document))
    assert stems(open_workspace(tmp_path / "results")) == {"a.png": "a"}


@pytest.mark.parametrize("name", ["none", "empty", "notes.txt"])
def test_a_mistake_is_one_line(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("no image")
    with pytest.raises(FormatError, match=f"{name}: is not an image" if name == "notes.txt" else name):
        open_workspace(tmp_path / name)
    gradient(tmp_path / "images" / "a.png")
    with pytest.raises(FormatError, match="not a folder"):
        open_workspace(tmp_path / "images", tmp_path / "notes.txt")


def test_names_that_are_no_unicode_are_left_out(tmp_path):
    gradient(tmp_path / "a.png")
    try:
        shutil.copy(tmp_path / "a.png", os.fsencode(tmp_path) + b"/\xfc.png")
    except OSError:
        pytest.skip("this file system needs names in UTF-8")
    assert list(stems(Workspace(tmp_path, tmp_path))) == ["a.png"]


@pytest.mark.parametrize("results", [".", "results"])
def test_an_image_keeps_its_result_if_another_image_of_its_name_is_added(tmp_path, results):
    """The results of a.png and a.jpg have the names a.png.json and a.jpg.json, but a.json is older than a.jpg."""
    gradient(tmp_path / "a.png")
    root = tmp_path / results
    tree = Skeleton([(1, 1), (9, 9)], [(0, 1)], root=0, image_name="a.png", metadata={"editor": {"accepted": True}})
    treeformer.write(tree, root / "a.json")
    treeformer.write(tree, root / "a.rsml")
    gradient(tmp_path / "a.jpg")
    workspace = open_workspace(tmp_path, root)
    entries = workspace.entries()
    assert [entry.image for entry in entries] == ["a.jpg", "a.png"]
    assert [summary.state for summary in workspace.summaries(entries)] == ["missing", "accepted"]
    assert [entry.result.relative_to(root).as_posix() for entry in entries] == ["a.jpg.json", "a.json"]


def test_a_skeleton_without_the_name_of_its_image_is_offered_to_all_images_of_its_name(tmp_path):
    for name in ("a.png", "a.jpg"):
        gradient(tmp_path / name)
    treeformer.write(Skeleton([(1, 1), (9, 9)], [(0, 1)], root=0), tmp_path / "a.swc")
    workspace = open_workspace(tmp_path)
    assert [summary.state for summary in workspace.summaries(workspace.entries())] == ["edited", "edited"]


def test_a_skeleton_beside_two_images_of_its_name_belongs_to_the_one_that_it_names(tmp_path):
    for name in ("a.png", "a.jpg"):
        gradient(tmp_path / "images" / name)
    treeformer.write(Skeleton([(1, 1), (9, 9)], [(0, 1)], root=0, image_name="a.png"), tmp_path / "images" / "a.json")
    workspace = open_workspace(tmp_path / "images", tmp_path / "results")
    assert [summary.state for summary in workspace.summaries(workspace.entries())] == ["missing", "edited"]


def test_edges_of_a_file_that_names_no_model_count_until_they_are_checked():
    tree = Skeleton([(1, 1), (9, 9), (9, 20)], [(0, 1), (1, 2)], root=0, edge_score=[0.6, 0.3])
    saved = tree.replace(metadata={"editor": {"edge_source": ["imported", "accepted"]}})
    assert [expected_errors(one) for one in (tree, saved)] == pytest.approx([1.1, 0.4])
