"""Conversion of public data sets: small artificial ones in the same layouts, and a few real images."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from treeformer import FormatError, TreeformerError, formats
from treeformer.data import FolderDataset, check_splits, samples
from treeformer.data.generate import generate, read_backgrounds
from treeformer.data.prepare import SETS, prepare
from treeformer.data.prepare.barley_roots import validation_plates

RNG = np.random.default_rng(0)


def add_image(path: Path, size: tuple[int, int]) -> None:
    """Save a distinct random image, enlarged from 8×8 px."""
    path.parent.mkdir(parents=True, exist_ok=True)
    small = Image.fromarray(RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8))
    small.resize(size).save(path)


def barley_rsml(plants: list[list[list[tuple[float, float]]]]) -> str:
    """Return roots of order 0 with only <rootnavspline>, and a resolution that is not a number."""

    def root(points: list[tuple[float, float]]) -> str:
        inner = "".join(f'<point x="{x}" y="{y}" />' for x, y in points)
        return f'<root ID="1" label="primary"><geometry><rootnavspline>{inner}</rootnavspline></geometry></root>'

    body = "".join(f'<plant ID="{k}">{"".join(map(root, roots))}</plant>' for k, roots in enumerate(plants))
    return (
        "<rsml><metadata><version>1.0</version><unit>pixel</unit><resolution>xxx dpi</resolution></metadata>"
        f"<scene>{body}</scene></rsml>"
    )


@pytest.fixture
def barley(tmp_path: Path) -> Path:
    source = tmp_path / "barley"
    star = [[(200, 100), (180, 500)], [(200, 100), (300, 480)]]
    for folder, stems in (("train", ("401", "401R", "402", "403R", "404", "405R")), ("test", ("450", "450R"))):
        for stem in stems:
            add_image(source / folder / f"{stem}.jpg", (720, 768))
            (source / folder / f"{stem}.rsml").write_text(barley_rsml([star, []]))
    return source


@pytest.mark.slow
def test_files_and_report(barley: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    report = prepare("barley-roots", barley, tmp_path / "out", size=384, progress=lambda *call: calls.append(call))
    assert calls == [(done, 8) for done in range(9)]
    assert report.images == {"train": 4, "valid": 2, "test": 2}
    assert check_splits(tmp_path / "out") == report.images
    text = (tmp_path / "out" / "report.txt").read_text()
    assert text == f"{report}\n"
    assert text.count("1 plant without roots") == 8
    assert yaml.safe_load((tmp_path / "out" / "dataset.yaml").read_text()) == {
        "made_by": "treeformer prepare barley-roots",
        "license": "GPL-3.0",
        "size": 384,
        "spacing_px": 8.0,
        "one_image_per_plant": False,
        "merge_overlaps": True,
        "plate": r"\d+",
    }
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "dataset.yaml", "report.txt", "test", "train", "valid",
    ]  # fmt: skip


@pytest.mark.slow
def test_images_and_skeletons_are_scaled_together(barley: Path, tmp_path: Path) -> None:
    prepare("barley-roots", barley, tmp_path / "out", size=384)
    for sample in samples(FolderDataset(tmp_path / "out", "test")):
        assert sample.image.shape == (384, 360, 3)
        skeleton = sample.skeleton
        assert skeleton.is_tree
        assert skeleton.nodes[skeleton.root].tolist() == [100, 50]
        tips = skeleton.nodes[(skeleton.degree == 1)]
        assert {(90.0, 250.0), (150.0, 240.0)} <= {tuple(tip) for tip in tips.tolist()}
        assert np.median(skeleton.edge_length) == pytest.approx(8, abs=0.3)


@pytest.mark.slow
def test_small_images_are_not_enlarged_and_nodes_can_be_kept(barley: Path, tmp_path: Path) -> None:
    prepare("barley-roots", barley, tmp_path / "out", size=2000, spacing_px=0, merge_overlaps=False)
    sample = FolderDataset(tmp_path / "out", "test")[0]
    assert sample.image.shape == (768, 720, 3)
    assert sorted(sample.skeleton.nodes.tolist()) == [[180, 500], [200, 100], [300, 480]]


@pytest.mark.slow
def test_both_dates_of_a_plate_are_in_the_same_split(barley: Path, tmp_path: Path) -> None:
    prepare("barley-roots", barley, tmp_path / "out")
    plates = {
        split: {path.stem.rstrip("R") for path in (tmp_path / "out" / split).glob("*.png")}
        for split in ("train", "valid", "test")
    }
    assert plates == {"train": {"401", "403", "405"}, "valid": {"402", "404"}, "test": {"450"}}


def test_ten_plates_are_used_for_validation() -> None:
    images = [Path(f"{number}{date}.jpg") for number in range(95, 125) for date in ("", "R")]
    chosen = validation_plates(images)
    assert len(chosen) == 10
    assert chosen == {str(number) for number in range(96, 125, 3)}


@pytest.mark.slow
def test_writing_again_with_the_same_and_with_other_settings(barley: Path, tmp_path: Path) -> None:
    first = prepare("barley-roots", barley, tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert prepare("barley-roots", barley, tmp_path / "out") == first
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before
    with pytest.raises(TreeformerError, match="was created with size 512, not 256"):
        prepare("barley-roots", barley, tmp_path / "out", size=256)
    (barley / "test" / "450R.jpg").unlink()
    with pytest.raises(TreeformerError, match="images of another run"):
        prepare("barley-roots", barley, tmp_path / "out")


@pytest.mark.slow
def test_invalid_files_are_dropped_and_reported(barley: Path, tmp_path: Path) -> None:
    (barley / "train" / "402.jpg").write_bytes((barley / "train" / "402.jpg").read_bytes()[:300])
    (barley / "train" / "403R.rsml").write_text("<rsml>")
    (barley / "train" / "404.rsml").write_text(barley_rsml([[[(10, 10), (900, 10)]]]))
    (barley / "train" / "405R.rsml").unlink()
    (barley / "test" / "450R.rsml").write_text(barley_rsml([[]]))
    report = prepare("barley-roots", barley, tmp_path / "out")
    assert report.images == {"train": 2, "test": 1}
    dropped = "\n".join(report.notes.dropped)
    for text in ("402.jpg", "403R.rsml", "404.rsml: node 1 at (900.0, 10.0) is outside", "405R.jpg: no skeleton file"):
        assert text in dropped
    assert "test/450R.jpg: the image: it has no roots" in dropped
    assert all("\n" not in line for line in report.notes.dropped)


def test_a_set_without_usable_images_names_the_reason(tmp_path: Path) -> None:
    add_image(tmp_path / "in" / "train" / "400.jpg", (72, 76))  # has no annotation
    add_image(tmp_path / "in" / "train" / "401.jpg", (72, 76))
    (tmp_path / "in" / "train" / "401.rsml").write_text(barley_rsml([[]]))
    with pytest.raises(TreeformerError, match=r"no usable image: train/401\.jpg: the image: it has no roots"):
        prepare("barley-roots", tmp_path / "in", tmp_path / "out")


def test_a_leak_in_the_source_writes_nothing(barley: Path, tmp_path: Path) -> None:
    shutil.copy(barley / "train" / "401.jpg", barley / "test" / "499.jpg")
    shutil.copy(barley / "train" / "401.rsml", barley / "test" / "499.rsml")
    with pytest.raises(TreeformerError, match=r"499\.jpg \(test\) is the same image as .*401\.jpg"):
        prepare("barley-roots", barley, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_drops_no_image_silently(barley: Path, tmp_path: Path, monkeypatch) -> None:
    """It ends the run, and the folder is not taken for a complete one."""
    write = formats.write

    def full(skeleton, path, **options):
        if path.stem == "404":
            raise FormatError(f"{path.name}: cannot be written (No space left on device)")
        write(skeleton, path, **options)

    with monkeypatch.context() as patch:
        patch.setattr("treeformer.data.folder_dataset.formats.write", full)
        with pytest.raises(TreeformerError, match=r"out: 404\.json: cannot be written \(No space left on device\)"):
            prepare("barley-roots", barley, tmp_path / "out", size=64)
    for folder, split in ((tmp_path / "out", "train"), (tmp_path / "out" / "train", None)):
        with pytest.raises(TreeformerError, match="is incomplete"):
            FolderDataset(folder, split)
    with pytest.raises(TreeformerError, match="is incomplete"):
        check_splits(tmp_path / "out")
    prepare("barley-roots", barley, tmp_path / "out", size=64)
    assert sum(check_splits(tmp_path / "out").values()) == 8


@pytest.mark.slow
def test_one_image_per_plant(barley: Path, tmp_path: Path) -> None:
    """Separate plants get an image each. A plant whose crop contains others is dropped."""
    apart = [[[(100, 100), (90, 300)]], [[(400, 100), (440, 300)]]]
    crossing = [[[(100, 100), (300, 300)]], [[(300, 100), (100, 300)]]]
    for stem, plants in (("401", apart), ("401R", crossing)):
        (barley / "train" / f"{stem}.rsml").write_text(barley_rsml(plants))
    report = prepare("barley-roots", barley, tmp_path / "out", size=768, one_image_per_plant=True)
    names = {path.name for path in (tmp_path / "out" / "train").glob("40*.png")}
    assert {"401-1.png", "401-2.png"} <= names
    assert not {"401R-1.png", "401R-2.png"} & names
    assert sum("its crop shows others, 100% of its own length" in line for line in report.notes.dropped) == 2
    crops = {sample.name: sample for sample in samples(FolderDataset(tmp_path / "out", "train"))}
    second = crops["train/401-2.png"]
    assert second.image.shape == (232, 72, 3)  # 200×40 px and a margin of 16
    assert second.skeleton.is_tree
    assert second.skeleton.nodes[second.skeleton.root].tolist() == [16, 16]
    whole = FolderDataset(barley, "train")[0].image
    assert np.array_equal(second.image, whole[84:316, 384:456])


@pytest.mark.slow
def test_osr_roots_layout(tmp_path: Path) -> None:
    """Nested roots with empty labels, a lateral that begins next to its parent, and both kinds of geometry."""
    lateral = (
        '<root ID="" label=""><geometry><polyline><point x="1010" y="800" /><point x="1300" y="900" /></polyline>'
        "</geometry></root>"
    )
    rsml = (
        '<rsml><metadata><version></version><unit>pixel</unit></metadata><scene><plant ID="1" label="">'
        '<root ID="" label=""><geometry><polyline><point x="1000" y="100" /><point x="1000" y="2300" /></polyline>'
        f'<rootnavspline><point x="1" y="1" /></rootnavspline></geometry>{lateral}</root></plant></scene></rsml>'
    )
    for split, stem in (("train", "B_1"), ("valid", "A_1"), ("test", "C_1")):
        add_image(tmp_path / "osr" / split / f"{stem}.jpg", (1916, 2500))
        (tmp_path / "osr" / split / f"{stem}.rsml").write_text(rsml)
    report = prepare("osr-roots", tmp_path / "osr", tmp_path / "out")
    assert report.images == {"train": 1, "valid": 1, "test": 1}
    sample = FolderDataset(tmp_path / "out", "valid")[0]
    assert sample.image.shape == (1024, 785, 3)
    skeleton = sample.skeleton
    assert skeleton.is_tree
    junction = skeleton.nodes[skeleton.degree == 3]
    assert junction.tolist() == [pytest.approx([1000 * 785 / 1916, 800 * 1024 / 2500])]
    assert report.farthest_snap_px == pytest.approx(10 * 785 / 1916)
    assert skeleton.edge_length.max() < 12
    assert [axis.parent for axis in skeleton.axes] == [None, 0]


@pytest.mark.slow
def test_branch_trees_layout(tmp_path: Path) -> None:
    source = tmp_path / "trees"
    xml = (
        '<file name="C:/x/pic.png"><level0><point>[(250.5, 460.0), (250.0, 120.0)]</point>'
        "<branch0>[(250.5, 460.0), (250.0, 120.0)]</branch0></level0>"
        "<level1><branch0>[(252.0, 300.0), (400.0, 200.0)]</branch0></level1></file>"
    )
    for number in range(21):
        add_image(source / f"pic{number}.jpg", (512, 512))
        (source / f"pic{number}.xml").write_text(xml)
    report = prepare("branch-trees", source, tmp_path / "out")
    assert report.images == {"train": 19, "valid": 2}
    assert {path.stem for path in (tmp_path / "out" / "valid").glob("*.png")} == {"pic9", "pic19"}
    for sample in samples(FolderDataset(tmp_path / "out", "train")):
        assert sample.image.shape == (512, 512, 3)
        assert sample.skeleton.is_tree
        assert (sample.skeleton.degree == 3).sum() == 1


@pytest.mark.slow
def test_backgrounds_stand_behind_rendered_trees(tmp_path: Path) -> None:
    rows = ["file,dataset,commit,path"]
    for number in range(20):
        add_image(tmp_path / "source" / f"{number:02d}.jpg", (80, 64))
        rows.append(f"{number:02d}.jpg,{'VegAnn' if number % 2 else 'orchard'},0,x")
    shutil.copy(tmp_path / "source" / "00.jpg", tmp_path / "source" / "copy.jpg")
    rows += ["copy.jpg,orchard,0,x", "missing.jpg,orchard,0,x"]
    (tmp_path / "source" / "SOURCES.csv").write_text("\n".join(rows))
    report = prepare("backgrounds", tmp_path / "source", tmp_path / "out")
    assert report.images == {"train": 16, "valid": 2, "test": 2}
    assert report.notes.dropped == ["copy.jpg: the same image as 00.jpg", "missing.jpg: no such file"]
    assert all(len(sample.skeleton) == 0 for sample in samples(FolderDataset(tmp_path / "out", "train")))
    photos = read_backgrounds(tmp_path / "out" / "train")
    assert (len(photos.side), len(photos.above)) == (8, 8)

    options = {"count": 2, "preset": "orchard-row", "style": "photo", "size": (96, 96)}
    generate(tmp_path / "composites", backgrounds=tmp_path / "out" / "train", **options)
    generate(tmp_path / "painted", **options)
    composites, painted = (list(samples(FolderDataset(tmp_path / name))) for name in ("composites", "painted"))
    for composite, plain in zip(composites, painted, strict=True):
        assert composite.skeleton.nodes.tolist() == plain.skeleton.nodes.tolist()
        assert np.abs(composite.image.astype(int) - plain.image).mean() > 10
    with pytest.raises(TreeformerError, match="was created with backgrounds"):
        generate(tmp_path / "composites", **options)
    with pytest.raises(TreeformerError, match="has no photographs"):
        read_backgrounds(tmp_path)


def vine_annotation(width: int) -> str:
    """Return a trunk, a cane and two shoots in the 3D2cut format, for an image width in px."""
    places = [(500, 700), (500, 500), (500, 400), (300, 380), (700, 390), (300, 100)]
    parents = [None, 0, 1, 2, 2, 3]
    kinds = ["rootCrown", "branchNode", "branchNode", "branchNode", "growingTip", "pruningCut"]
    features = [
        {
            "FeatureID": number,
            "FeatureType": kind,
            "FeatureCoordinates": [x * width / 1008, y * width / 1008],
            "ParentID": parent,
            "BranchLabel": "mainTrunk" if number < 3 else "shoot",
        }
        for number, ((x, y), parent, kind) in enumerate(zip(places, parents, kinds, strict=True))
    ]
    return json.dumps({"VineImage": [{"ImageName": "vine.jpeg", "VineFeature": [features]}]})


@pytest.mark.slow
@pytest.mark.parametrize(("width", "count", "by_split"), [(1008, 21, (19, 2)), (2016, 3, (2, 1))])
def test_single_guyot_layout(tmp_path: Path, width: int, count: int, by_split: tuple[int, int]) -> None:
    """Any image size is reduced to half of 1008×756; nodes are kept; splits have the paper's proportions."""
    source = tmp_path / "guyot"
    for folder, in_folder in (("01-TrainAndValidationSet", count), ("02-IndependentTestSet", 2)):
        for number in range(in_folder):
            stem = f"Set04_IMG_{number:04d}" if folder.startswith("01") else f"Set07_IMG_{number:04d}"
            add_image(source / folder / f"{stem}.jpeg", (width, width * 3 // 4))
            (source / folder / f"{stem}_annotation.json").write_text(vine_annotation(width))
    report = prepare("single-guyot", source, tmp_path / "out")
    assert report.images == {"train": by_split[0], "valid": by_split[1], "test": 2}
    assert report.notes.dropped == []
    sample = FolderDataset(tmp_path / "out", "test")[0]
    assert sample.name == "test/Set07_IMG_0000.png"
    assert sample.image.shape == (378, 504, 3)
    skeleton = sample.skeleton
    assert skeleton.is_tree
    assert skeleton.root == 0
    assert np.allclose(
        skeleton.nodes, np.array([(500, 700), (500, 500), (500, 400), (300, 380), (700, 390), (300, 100)]) / 2
    )
    assert skeleton.parents.tolist() == [-1, 0, 1, 2, 2, 3]


def test_a_plant_with_a_single_node_has_no_crop(tmp_path: Path) -> None:
    annotation = json.loads(vine_annotation(1008))
    isolated = {"FeatureID": 99, "ParentID": None, "FeatureCoordinates": [20, 20]}
    annotation["VineImage"][0]["VineFeature"][0].append(isolated)
    for folder in ("01-TrainAndValidationSet", "02-IndependentTestSet"):
        add_image(tmp_path / "guyot" / folder / f"{folder}.jpeg", (1008, 756))
        (tmp_path / "guyot" / folder / f"{folder}_annotation.json").write_text(json.dumps(annotation))
    report = prepare("single-guyot", tmp_path / "guyot", tmp_path / "out", one_image_per_plant=True)
    assert sum(report.images.values()) == 2
    assert [line.split(": ", 1)[1] for line in report.notes.dropped] == ["plant 1: it has no length"] * 2


@pytest.mark.slow
def test_the_paper_s_split_sizes(tmp_path: Path) -> None:
    """1,248 images in the first folder give 1,185 for training and 63 for validation; 255 are for the test."""
    from treeformer.data.prepare.single_guyot import find

    for folder, count in (("01-TrainAndValidationSet", 1248), ("02-IndependentTestSet", 255)):
        (tmp_path / folder).mkdir()
        for number in range(count):
            (tmp_path / folder / f"{number:04d}.jpeg").touch()
            (tmp_path / folder / f"{number:04d}_annotation.json").touch()
    images, skipped = find(tmp_path)
    counts = {split: sum(image.split == split for image in images) for split in ("train", "valid", "test")}
    assert counts == {"train": 1185, "valid": 63, "test": 255}
    assert skipped == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("barley-roots", {"workers": -1}, "workers must be 0"),
        ("wheat-roots", {}, "no public data set 'wheat-roots': choose one of osr-roots, barley-roots"),
        ("barley-roots", {"size": 8}, "32 px or more, not 8"),
        ("barley-roots", {"spacing_px": -1}, "spacing must be from 0"),
        ("osr-roots", {"source": "nowhere"}, "nowhere: no such folder"),
        ("osr-roots", {"source": "."}, "no image of osr-roots with its annotation"),
        ("single-guyot", {"source": "."}, "has no folder 01-TrainAndValidationSet"),
    ],
)
def test_invalid_arguments_are_one_line(barley: Path, tmp_path: Path, name, options, message) -> None:
    source = tmp_path / options.pop("source") if "source" in options else barley
    with pytest.raises(TreeformerError, match=message) as error:
        prepare(name, source, tmp_path / "out", **options)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def copy_images(source: Path, to: Path, stems: list[str]) -> Path:
    for stem in stems:
        for suffix in (".jpg", ".rsml"):
            (to / stem).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / f"{stem}{suffix}", to / f"{stem}{suffix}")
    return to


def test_real_barley(real_data, tmp_path: Path) -> None:
    """On plate 426 tips are traced from all three seeds; on 604 and 633R plants begin at two points."""
    source = copy_images(
        real_data("barley-roots"), tmp_path / "source", ["train/426", "train/604", "train/633R", "test/450"]
    )
    report = prepare("barley-roots", source, tmp_path / "out")
    assert sum(report.images.values()) == 4
    by_plate = {
        sample.name.split("/")[1].removesuffix(".png"): sample.skeleton
        for split in report.images
        for sample in samples(FolderDataset(tmp_path / "out", split))
    }
    for skeleton in by_plate.values():
        assert skeleton.is_forest
        assert len(skeleton.component_root) == len(skeleton.plants)  # one tree per plant
    tips = by_plate["426"].degree == 1
    tips[by_plate["426"].roots] = False
    assert tips.sum() == 9  # instead of 27
    assert by_plate["426"].length < 2500  # annotated: 11,800 px
    assert any("426.jpg: roots traced to the tip of another plant's root" in line for line in report.notes.dropped)


def test_real_osr(real_data, tmp_path: Path) -> None:
    source = copy_images(real_data("osr-roots"), tmp_path / "source", ["valid/A_osr_0057"])
    report = prepare("osr-roots", source, tmp_path / "out")
    skeleton = FolderDataset(tmp_path / "out", "valid")[0].skeleton
    assert skeleton.is_tree
    assert report.plants == 1
    assert 0 < report.merged_px < 0.3 * report.drawn_px
    assert skeleton.edge_length.min() > 0.5
    assert skeleton.edge_length.max() < 12


def test_every_data_set_has_a_license() -> None:
    assert set(SETS) == {"osr-roots", "barley-roots", "branch-trees", "single-guyot", "backgrounds"}
    assert all(public_set.license for public_set in SETS.values())
