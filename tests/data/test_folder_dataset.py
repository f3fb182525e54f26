"""Folders as data sets: samples are read as they were written, and invalid ones are reported, skipped and counted."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.strategies import examples
from treeformer import Skeleton, TreeformerError, formats
from treeformer.data import FolderDataset, Sample, Skipped, SkipReport, samples
from treeformer.data.folder_dataset import has_pair, write_pair
from treeformer.results import ChoiceWarning


def add_pair(
    folder: Path, stem: str, skeleton: Skeleton, suffix: str = ".json", size: tuple[int, int] = (40, 50)
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(len(stem))
    Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)).save(folder / f"{stem}.png")
    formats.write(skeleton, folder / f"{stem}{suffix}")


def test_a_pair_comes_back_as_it_was_written(tmp_path: Path, comb: Skeleton) -> None:
    image = np.random.default_rng(0).integers(0, 256, (50, 40, 3), dtype=np.uint8)
    write_pair(image, comb, tmp_path, "a")
    assert has_pair(tmp_path, "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.png"]
    sample = FolderDataset(tmp_path)[0]
    assert sample.name == "a.png"
    assert np.array_equal(sample.image, image)
    assert sample.skeleton == comb.replace(image_name="a.png")


def test_any_known_format_next_to_an_image_is_read(tmp_path: Path, comb: Skeleton) -> None:
    for stem, suffix in (("a", ".rsml"), ("b", ".swc"), ("c", ".graphml"), ("d", ".json")):
        add_pair(tmp_path, stem, comb, suffix)
    (tmp_path / "notes.txt").write_text("not a skeleton")
    (tmp_path / ".hidden.png").write_bytes(b"left by an interrupted program")
    dataset = FolderDataset(tmp_path)
    assert [dataset.name(index) for index in range(len(dataset))] == ["a.png", "b.png", "c.png", "d.png"]
    assert dataset.skipped == []
    for sample in samples(dataset):
        assert sample.skeleton.length == pytest.approx(comb.length)
        assert sample.skeleton.image_size == (40, 50)


def test_splits_are_sub_folders(tmp_path: Path, comb: Skeleton) -> None:
    add_pair(tmp_path / "train", "a", comb)
    add_pair(tmp_path / "train", "b", comb)
    add_pair(tmp_path / "valid", "c", comb)
    assert len(FolderDataset(tmp_path, "train")) == 2
    assert FolderDataset(tmp_path, "valid")[0].name == "valid/c.png"
    for split, message in (
        (None, "choose a split, one of train, valid"),
        ("test", "no split 'test': it has train, valid"),
    ):
        with pytest.raises(TreeformerError, match=message):
            FolderDataset(tmp_path, split)


def test_exif_orientation_is_applied(tmp_path: Path, y_shape: Skeleton) -> None:
    stored = np.zeros((10, 20, 3), dtype=np.uint8)
    stored[:, :5] = 255  # a white left edge, which becomes the top
    exif = Image.Exif()
    exif[274] = 6
    Image.fromarray(stored).save(tmp_path / "a.png", exif=exif)
    formats.write(y_shape.replace(image_size=None), tmp_path / "a.json")
    sample = FolderDataset(tmp_path)[0]
    assert sample.image.shape == (20, 10, 3)
    assert sample.image[0].min() == 255
    assert sample.image[-1].max() == 0


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda folder: (folder / "b.png").unlink(), "b.json: no image"),
        (lambda folder: (folder / "b.json").unlink(), "b.png: no skeleton file"),
        (lambda folder: (folder / "b.json").rename(folder / "other.json"), "other.json: no image"),
        (lambda folder: (folder / "b.png").write_bytes(b""), "b.png"),
        (lambda folder: (folder / "b.png").write_bytes((folder / "b.png").read_bytes()[:900]), "b.png"),
        (lambda folder: (folder / "b.png").write_text("hello"), "b.png: not an image"),
        (lambda folder: (folder / "b.json").write_text("{"), "b.json: is"),
        (lambda folder: (folder / "b.jpg").write_bytes((folder / "b.png").read_bytes()), "has the same name"),
        (lambda folder: write_skeleton(folder, [(5, 5), (41.5, 5)], [(0, 1)]), r"node 1 at \(41.5, 5.0\) is outside"),
        (lambda folder: write_skeleton(folder, [(5, 5), (5, -2)], [(0, 1)]), "node 1 at .* is outside b.png"),
        (lambda folder: write_skeleton(folder, [(1, 1), (9, 1), (5, 9)], [(0, 1), (1, 2), (2, 0)]), "cycle"),
        (lambda folder: write_skeleton(folder, [(5, 5), (5, 9)], [(0, 1)], image_size=(80, 100)), "to an image of 80"),
    ],
)  # fmt: skip
def test_an_invalid_file_is_reported_in_one_line_and_the_rest_is_read(
    tmp_path: Path, comb: Skeleton, damage, expected
) -> None:
    import re

    for stem in "abc":
        add_pair(tmp_path, stem, comb)
    damage(tmp_path)
    dataset = FolderDataset(tmp_path)
    report = SkipReport(dataset.skipped)
    assert {sample.name for sample in samples(dataset, report)} == {"a.png", "c.png"}
    # A renamed skeleton leaves its image without a partner, too.
    assert len(report) == (2 if "other" in expected else 1)
    assert all("\n" not in skipped.reason for skipped in report)
    assert any(re.search(expected, skipped.reason) for skipped in report)


def test_one_of_several_skeleton_files_is_used_and_named(tmp_path: Path, comb: Skeleton) -> None:
    add_pair(tmp_path, "a", comb)
    (tmp_path / "a.swc").write_text("1 1 5 5 0 1 -1")
    with pytest.warns(ChoiceWarning, match=r"^1 image has several skeleton files; used: a.json \(not a.swc\)$"):
        dataset = FolderDataset(tmp_path)
    assert dataset.pairs == [(tmp_path / "a.png", tmp_path / "a.json")]
    assert not dataset.skipped


def test_only_accepted_and_annotated_images_are_ground_truth(tmp_path: Path, comb: Skeleton) -> None:
    predicted = comb.replace(edge_score=np.full(len(comb.edges), 0.5))
    states = {"accepted": {"editor": {"accepted": True}}, "corrected": {"editor": {"accepted": False}}, "predicted": {}}
    for stem, metadata in states.items():
        add_pair(tmp_path, stem, predicted.replace(metadata=metadata))
    add_pair(tmp_path, "annotated", comb)
    report = SkipReport()
    for used, option in ((["accepted", "annotated"], False), (["accepted", "annotated", "corrected"], True)):
        dataset = FolderDataset(tmp_path, include_unaccepted=option)
        assert [sample.name for sample in samples(dataset, report)] == [f"{stem}.png" for stem in used]
        for index in range(len(dataset)):  # as training reads them
            assert isinstance(dataset.open(index), Skipped) == isinstance(dataset.load(index), Skipped)
    assert [skipped.reason for skipped in report] == [
        f"{tmp_path / 'corrected.json'}: was corrected but not accepted; --include-unaccepted uses it",
        f"{tmp_path / 'predicted.json'}: is a prediction that was not corrected",
    ]


def test_what_is_written_as_ground_truth_is_read_as_such(tmp_path: Path, comb: Skeleton) -> None:
    corrected = comb.replace(edge_score=np.full(len(comb.edges), 0.5), metadata={"editor": {"accepted": False}})
    write_pair(np.zeros((50, 40, 3), np.uint8), corrected, tmp_path, "a")
    assert isinstance(FolderDataset(tmp_path).load(0), Sample)


def write_skeleton(folder: Path, nodes, edges, **arguments) -> None:
    formats.write(Skeleton(nodes, edges, **arguments), folder / "b.json")


def test_nodes_half_a_pixel_outside_are_moved_to_the_border(tmp_path: Path, comb: Skeleton) -> None:
    add_pair(tmp_path, "b", comb)
    write_skeleton(tmp_path, [(-0.5, 5), (40.5, 50.5)], [(0, 1)])
    assert FolderDataset(tmp_path)[0].skeleton.nodes.tolist() == [[0, 5], [40, 50]]


def test_an_empty_and_a_missing_folder(tmp_path: Path, comb: Skeleton) -> None:
    with pytest.raises(TreeformerError, match="no such folder"):
        FolderDataset(tmp_path / "nowhere")
    with pytest.raises(TreeformerError, match="no image with a skeleton file"):
        FolderDataset(tmp_path)
    add_pair(tmp_path, "a", comb)
    (tmp_path / "a.json").unlink()
    with pytest.raises(TreeformerError, match=r"a\.png: no skeleton file"):
        FolderDataset(tmp_path)
    with pytest.raises(TreeformerError, match="it has no folder train, valid, test"):
        FolderDataset(tmp_path, "train")


def test_load_returns_a_value_and_indexing_raises(tmp_path: Path, comb: Skeleton) -> None:
    add_pair(tmp_path, "a", comb)
    (tmp_path / "a.png").write_bytes(b"not an image")
    dataset = FolderDataset(tmp_path)
    loaded = dataset.load(0)
    assert isinstance(loaded, Skipped)
    assert loaded.name == "a.png"
    with pytest.raises(TreeformerError, match=r"a\.png"):
        dataset[0]
    with pytest.raises(IndexError):
        dataset[1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_an_image_with_damaged_bytes_never_crashes(tmp_path_factory, data) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 20, 3), dtype=np.uint8))
    suffix = data.draw(st.sampled_from([".png", ".jpg", ".tif", ".gif", ".bmp", ".webp"]))
    path = folder / f"a{suffix}"
    image.save(path)
    damaged = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 6))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged[: data.draw(st.integers(1, len(damaged)))])
    formats.write(Skeleton([(1, 1), (2, 2)], [(0, 1)]), folder / "a.json")
    loaded = FolderDataset(folder).load(0)
    assert isinstance(loaded, Sample | Skipped)
    assert "\n" not in getattr(loaded, "reason", "")


def test_images_skipped_by_workers_are_counted_once(tmp_path: Path, comb: Skeleton) -> None:
    """The data set is pickled for a worker, and so are the results, skipped or not."""
    for stem in "abcd":
        add_pair(tmp_path, stem, comb)
    (tmp_path / "b.png").write_bytes(b"corrupt")
    pickled = pickle.dumps(FolderDataset(tmp_path))
    report, good = SkipReport(), []
    for worker in range(2):
        in_worker = pickle.loads(pickled)
        for index in range(worker, 8, 2):
            loaded = pickle.loads(pickle.dumps(in_worker.load(index % 4)))
            report.add(loaded) if isinstance(loaded, Skipped) else good.append(loaded.name)
    assert sorted(good) == ["a.png", "a.png", "c.png", "c.png", "d.png", "d.png"]
    assert str(report).splitlines()[0] == "1 image was skipped"
    assert "b.png" in str(report)


def test_public_data_sets_are_read_as_published(real_data) -> None:
    """Folder data sets can be read from images with RSML or XML files, without `prepare`."""
    roots = FolderDataset(real_data("osr-roots"), "test")
    assert len(roots) == 5
    assert roots[0].skeleton.is_tree
    assert roots[0].image.shape == (2500, 1916, 3)
    trees = FolderDataset(real_data("branch-trees"))
    assert len(trees) == 558
    assert trees[0].skeleton.is_tree
