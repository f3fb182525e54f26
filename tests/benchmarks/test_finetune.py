"""The fine-tuning benchmark: its images, node density, learning curves, and tables that can be continued."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.finetune import curve, folds, gpu_factors, self_training, table
from benchmarks.finetune.__main__ import main
from benchmarks.finetune.density import density
from benchmarks.finetune.domains import domain_images
from benchmarks.finetune.variants import BASE, FACTORS

from treeformer import Skeleton, synthetic
from treeformer.data.folder_dataset import write_pair
from treeformer.finetuning import plan, whole_network
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.finetuning.plan import CropSettings
from treeformer.hub.model_folder import open_model


def test_density_counts_nodes_and_views_above_a_limit():
    row = density("seedling", 3, [10_000, 1]).strip("| ").split(" | ")
    seeds = synthetic.SPLITS["train"][6000:6003]
    nodes = [len(synthetic.generate("seedling", seed).sample_at_grid_crossings(44)) for seed in seeds]
    assert row[:4] == ["seedling", "3", f"{np.mean(nodes):.0f}", f"{max(nodes)}"]
    assert row[4:6] == ["1.00", "1.00"]
    assert row[6] == "0%"
    assert 0.5 <= float(row[7]) <= 1.5  # the range of the augmentation
    assert row[8] == "100%"


def test_rows_are_appended_and_recognized(tmp_path):
    path = tmp_path / "table.csv"
    assert table.keys(path) == set()
    row = dict.fromkeys(table.FIELDS, "1")
    for variant in ("base", "other"):
        table.append(path, {**row, "variant": variant})
    assert table.keys(path) == {("1", "1", "base", "1", "1"), ("1", "1", "other", "1", "1")}
    assert [one["variant"] for one in table.read_rows(path)] == ["base", "other"]


def test_every_factor_has_a_name_of_its_own_and_one_change():
    names = [variant.name for variant in FACTORS]
    assert len(set(names)) == len(names)
    for variant in FACTORS[1:]:
        fields = [name for name in vars(variant) if name != "name"]
        changed = [name for name in fields if getattr(variant, name) != getattr(BASE, name)]
        assert len(changed) == 1, variant.name


def test_every_factor_of_the_gpu_mode_changes_the_recipe_in_its_own_way():
    base = whole_network.training_config(
        open_model("small"), Path("images"), 256, CropSettings(512, 248), learning_rate=2e-4, workers=0, bf16=False
    )
    found = [
        (variant.change(base), variant.images, variant.runs, variant.share) for variant in gpu_factors.FACTORS.values()
    ]
    assert found[0] == (base, gpu_factors.TRAINED, 1, 1.0)
    assert all(one != other for number, one in enumerate(found) for other in found[:number])


def test_gpu_factors_are_summarized_per_threshold():
    def row(variant: str, choice: int, f1: float) -> dict[str, str]:
        return {"variant": variant, "choice": str(choice), "topo_paper_f1": "0.5", "topo_f1": str(f1)}

    rows = [
        row(variant, choice, f1) | {"threshold": str(threshold)}
        for variant, choice, f1 in (("base", 0, 0.25), ("base", 1, 0.75), ("longer", 0, 1.0))
        for threshold in gpu_factors.THRESHOLDS
    ]
    lines = gpu_factors.summary(rows)
    assert lines[2] == "| base | 2 |" + " 0.500 / 0.500 |" * len(gpu_factors.THRESHOLDS)
    assert lines[3] == "| longer | 1 |" + " 0.500 / 1.000 |" * len(gpu_factors.THRESHOLDS)


@pytest.mark.slow
def test_a_factor_is_trained_and_its_weights_are_averaged(tmp_path, monkeypatch):
    from treeformer.models import TreeFormer, TreeFormerConfig, onnx_graph
    from treeformer.models.export import load_weights, save_pretrained

    monkeypatch.setattr(onnx_graph, "write_graphs", lambda folder, *_, **__: (folder / "model.onnx").touch())
    monkeypatch.setattr(plan, "SYNTHETIC_PRESETS", ("seedling",))
    config = TreeFormerConfig.tiny(backbone_blocks=(1, 1), decoder_layers=1, relation_min_stride=16, tokens=64)
    sizes = {"input_size": 64, "working_size": 64, "node_threshold": 0.3, "candidate_threshold": 0.1}
    start = save_pretrained(TreeFormer(config).eval(), tmp_path / "start", int8=False, **sizes)
    skeleton = Skeleton([(32, 60), (32, 20)], [(0, 1)], root=0, image_size=(64, 64))
    write_pair(np.zeros((64, 64, 3), np.uint8), skeleton, tmp_path / "images", "one")
    image = AnnotatedImage(tmp_path / "images/one.png", tmp_path / "images/one.json", "one", skeleton)
    short = gpu_factors.fields(steps=1, batch_size=2)
    whole, half = (
        gpu_factors.trained(gpu_factors.Variant(short, share=share), start, [image], tmp_path / "run", 64).state_dict()
        for share in (1.0, 0.5)
    )
    before = load_weights(start).state_dict()
    assert any(not value.equal(before[name]) for name, value in whole.items())
    for name, value in half.items():
        np.testing.assert_allclose(value, (whole[name] + before[name]) / 2, atol=1e-6)


def test_self_training_is_summarized_per_stage_and_split():
    figures = {"topo_precision": "0.5", "topo_recall": "0.25", "topo_paper_f1": "0.75", "length_error": "0"}
    rows = [
        {"stage": stage, "split": split, "choice": choice, "topo_f1": f1, **figures}
        for stage, choice, f1 in (("first", "0", "0.5"), ("first", "1", "0.7"), ("second, from the first", "0", "0.8"))
        for split in self_training.SPLITS
    ]
    lines = self_training.summary(rows)
    assert lines[2] == "| first | 2 |" + " 0.750 / 0.600 | 0.500 | 0.250 |" * 2
    assert lines[3] == "| second, from the first | 1 |" + " 0.750 / 0.800 | 0.500 | 0.250 |" * 2
    assert len(lines) == 4


def test_the_table_is_shown_as_markdown(capsys, monkeypatch, tmp_path):
    path = tmp_path / "table.csv"
    table.append(path, dict.fromkeys(table.FIELDS, "7"))
    monkeypatch.setattr("sys.argv", ["finetune", "show", str(path)])
    main()
    assert capsys.readouterr().out.count("| 7 ") == len(table.FIELDS)


def test_barley_images_for_training_are_one_per_plate_and_of_other_plates_than_those_for_testing(tmp_path):
    folder = tmp_path / "barley-roots-512"
    skeleton = synthetic.generate("seedling", 0)
    image = np.zeros((skeleton.image_size[1], skeleton.image_size[0], 3), np.uint8)
    for split, names in {"train": ("401", "401R", "402R"), "valid": ("403", "403R"), "test": ("450",)}.items():
        for name in names:
            write_pair(image, skeleton, folder / split, name)
    (folder / "report.txt").write_text("prepared")

    def names(split):
        return [image.name for image in domain_images("barley-roots", split, 9, tmp_path, 512)]

    assert names("train") == ["401", "402R"]
    assert names("test") == ["403", "403R", "450"]


def test_more_annotated_images_contain_fewer_and_choices_differ():
    pool = [f"image {number}" for number in range(40)]
    few, many = (curve.chosen_images(pool, curve.Job("vineyard", "start", images=images), 30) for images in (2, 10))
    assert many[:2] == few
    assert len(set(many)) == 10
    assert curve.chosen_images(pool, curve.Job("vineyard", "start", images=10, choice=1), 30) != many


def test_next_takes_the_images_that_the_ranking_names_first(monkeypatch):
    pool = list(range(40))
    monkeypatch.setattr(curve, "Predictor", lambda model: model)
    monkeypatch.setattr(curve, "predict_images", lambda predictor, images: list(images))
    monkeypatch.setattr(curve, "ranked", lambda found, images: sorted(enumerate(images), key=lambda pair: pair[1]))
    shown = curve.chosen_images(pool, curve.Job("vineyard", "start", images=30), 30)
    assert curve.chosen_images(pool, curve.Job("vineyard", "start", images=5, order="next"), 30) == sorted(shown)[:5]


def test_the_curve_is_summarized_as_shares_of_the_gap(tmp_path):
    path = tmp_path / "curve.csv"
    known = {"start": (0.6, 0.5), "full": (0.8, 0.9)}
    for model, (paper, corrected) in known.items():
        row = vars(curve.Job("vineyard", model))
        table.append(path, {**row, "topo_paper_f1": paper, "topo_f1": corrected}, curve.COLUMNS)
    for choice, gain in enumerate((0.1, 0.3)):
        row = vars(curve.Job("vineyard", "start", images=10, choice=choice))
        row = {**row, "topo_paper_f1": 0.6, "topo_f1": 0.5 + gain, "topo_paper_f1_gain": 0, "topo_f1_gain": gain}
        table.append(path, row, curve.COLUMNS)
    row = vars(curve.Job("vineyard", "start", images=10, unannotated=100))
    row = {**row, "topo_paper_f1": 0.7, "topo_f1": 0.8, "topo_paper_f1_gain": 0.1, "topo_f1_gain": 0.3}
    table.append(path, row, curve.COLUMNS)
    rows = table.read_rows(path)
    assert curve.job_key(rows[-2]) == curve.Job("vineyard", "start", images=10, choice=1).key
    lines = list(curve.summary(rows, "vineyard", "start", "full"))
    assert lines[2:4] == ["| start model | | | | 0.6 / 0.5 | | |", "| trained on all images | | | | 0.8 / 0.9 | | |"]
    assert lines[4:] == [
        "| 10 | 0 | random | 2 | 0.600 / 0.700 | 0.600 to 0.600 / 0.600 to 0.800 | 0% / 50% |",
        "| 10 | 100 | random | 1 | 0.700 / 0.800 | 0.700 to 0.700 / 0.800 to 0.800 | 50% / 75% |",
    ]


@pytest.mark.parametrize(("count", "number"), [(20, 4), (7, 3), (3, 3)])
def test_every_image_is_measured_in_one_fold_and_trained_on_in_all_others(count, number):
    skeleton = synthetic.generate("seedling", 0)
    images = [AnnotatedImage(Path(f"{i}.png"), Path(f"{i}.json"), str(i), skeleton) for i in range(count)]
    parts = [folds.fold_of(images, number, fold) for fold in range(number)]
    assert [image for held_out, _ in parts for image in held_out] == images
    for held_out, others in parts:
        assert count // number <= len(held_out) <= count // number + 1
        assert sorted(int(image.name) for image in (*held_out, *others)) == list(range(count))


def test_the_summary_of_folds_is_over_the_images_of_all_folds():
    def row(fold: str, precision: float, recall: float) -> dict[str, str]:
        values = dict.fromkeys(folds.STORED, "0.5")
        values |= {"topo_precision": str(precision), "topo_recall": str(recall)}
        return {"set": "s", "model": "m", "fold": fold, "image": "i", "trained": "1", **values}

    rows = [row("start", 0.5, 0.5), row("0", 1.0, 0.5), row("1", 0.5, 0.5)]
    lines = [line.strip("| ").split(" | ") for line in folds.summary(rows)]
    assert [line[:2] for line in lines[2:]] == [
        ["start model", "1"],
        ["fold 0", "1"],
        ["fold 1", "1"],
        ["fine-tuned, all folds", "2"],
    ]
    assert lines[5][3].startswith("0.600 [")  # of the mean precision, 0.75, and the mean recall, 0.5


def test_cross_validation_measures_each_fold_and_continues(capsys, monkeypatch, tmp_path):
    trained: list[list[str]] = []

    def finetune(folder, output, **_):
        trained.append(sorted(path.stem for path in folder.glob("*.png")))
        return SimpleNamespace(folder=output)

    def measured_on(images, model):
        rows = [dict.fromkeys(folds.STORED, 0.25 if "fold1" in str(model) else 0.5) for _ in images]
        return SimpleNamespace(rows=rows), 0.3

    class Here:
        """Runs jobs in this process, where the functions are replaced."""

        def __init__(self, *_): ...

        def __enter__(self):
            return self

        def __exit__(self, *_): ...

        def submit(self, function, *arguments):
            done = Future()
            done.set_result(function(*arguments))
            return done

    monkeypatch.setattr(folds, "finetune", finetune)
    monkeypatch.setattr(folds, "measured_on", measured_on)
    monkeypatch.setattr(folds, "ProcessPoolExecutor", Here)
    skeleton = synthetic.generate("seedling", 0)
    image = np.zeros((skeleton.image_size[1], skeleton.image_size[0], 3), np.uint8)
    prepared = tmp_path / "osr-roots-1024"
    for split, names in {"test": "a", "valid": "b", "train": "cd"}.items():
        for name in names:
            write_pair(image, skeleton, prepared / split, name)
    (prepared / "report.txt").touch()
    output = tmp_path / "folds.csv"
    arguments = ["finetune", "folds", "--model", "m", "--folds", "2", "--cache", str(tmp_path), "-o", str(output)]
    monkeypatch.setattr("sys.argv", [*arguments, "--only", "1"])
    main()
    monkeypatch.setattr("sys.argv", arguments)
    main()  # the start model and fold 1 are in the table already
    assert trained == [["a", "b"], ["c", "d"]]
    rows = [(row["fold"], row["image"], row["topo_f1"]) for row in table.read_rows(output)]
    assert sorted(rows) == [  # runs end in any order
        ("0", "a", "0.5000"),
        ("0", "b", "0.5000"),
        ("1", "c", "0.2500"),
        ("1", "d", "0.2500"),
        *(("start", name, "0.5000") for name in "abcd"),
    ]
    assert "fine-tuned, all folds | 4" in capsys.readouterr().out
