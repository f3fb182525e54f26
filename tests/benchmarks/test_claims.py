"""The page of the paper's claims, and the table of the shipped model on grapevines."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.tables import claims, results, shipped
from benchmarks.tables.recipes import Run
from benchmarks.tables.spec import TABLES

from tests.benchmarks.factories import result, row
from treeformer.data.folder_dataset import write_pair
from treeformer.metrics import Estimate
from treeformer.skeleton import Skeleton

SFS, PLAIN = Run("synthetic", "sfs", 0), Run("synthetic", "plain", 0)


@pytest.mark.parametrize(
    ("expected", "low", "high", "word"),
    [
        ("higher", 0.1, 0.3, "held"),
        ("higher", -0.3, -0.1, "reversed"),
        ("higher", -0.1, 0.3, "open"),
        ("lower", -0.3, -0.1, "held"),
        ("lower", 0.1, 0.3, "reversed"),
        ("same", -0.1, 0.1, "open"),
        ("same", 0.1, 0.3, "refuted"),
        ("higher", 0.0, 0.3, "open"),
    ],
)
def test_a_claim_needs_an_interval_without_zero(expected, low, high, word):
    claim = replace(claims.CLAIMS[0], expected=expected)
    assert claims.verdict(claim, Estimate((low + high) / 2, low, high)) == word


def test_every_claim_compares_two_rows_of_each_of_its_tables():
    for claim in claims.CLAIMS:
        for name in claim.tables:
            assert {claim.row, claim.versus} <= {one.name for one in TABLES[name].rows}
            assert claim.metric in {column.metric for column in TABLES[name].columns}
        assert any(claim.table_of(domain) for domain in claims.SHOWN)
    trees = next(claim for claim in claims.CLAIMS if claim.single_plant)
    assert trees.table_of("osr-roots")
    assert trees.table_of("barley-roots") is None, "several plants"


def test_a_cell_has_the_verdict_and_the_difference_paired_by_image():
    rows = [row(0.2, 0.2, 1e-4), row(0.9, 0.9, 3e-4)]
    better = [row(0.3, 0.3, 2e-4), row(1.0, 1.0, 4e-4)]
    found = {SFS.name: result(SFS, better), PLAIN.name: result(PLAIN, rows)}
    further, by_smd = (claim for claim in claims.CLAIMS if (claim.row, claim.versus) == ("ours", "test-time"))
    found |= {
        run.name: found[first.name] for first, run in ((SFS, replace(SFS, seed=1)), (PLAIN, replace(PLAIN, seed=1)))
    }
    assert claims.cell(further, "synthetic", found)[1] == "held: +0.100 [+0.100, +0.100], corrected +0.100"
    assert claims.cell(by_smd, "synthetic", found)[1] == "reversed: +1.0e-04 [+1.0e-04, +1.0e-04]"
    assert claims.cell(further, "grapevine", found) == ("not run", "not run")
    assert claims.cell(further, "vine", found)[1] == "—"
    del found[SFS.name]
    assert claims.cell(further, "synthetic", found)[0] == "not run", "other seeds are not compared"


def test_the_papers_differences_are_those_of_its_tables():
    by_text = {claim.text: claim for claim in claims.CLAIMS}
    assert claims.of_paper(by_text["SFS in training improves it further"]) == "+0.012 / +0.034 / +0.003"
    assert claims.of_paper(by_text["Λ = 10 is better than Λ = 2"]) == "— / — / +0.034"
    assert claims.shown("smd_paper", -4.4e-5) == "−4.4e-05"


def test_the_page_of_the_claims_is_up_to_date():
    text = claims.markdown(results.read_all())
    assert text in claims.PAGE.read_text(encoding="utf-8"), "python -m benchmarks.tables.claims --markdown"


# ---- the shipped model on grapevines


def test_the_shipped_model_is_measured_and_shown(tmp_path, monkeypatch, capsys):
    images = tmp_path / "data" / "test"
    tree = Skeleton([(8, 8), (40, 40)], [(0, 1)], root=0, image_size=(64, 48))
    for name in "ab":
        write_pair(np.zeros((48, 64, 3), np.uint8), tree, images, name, suffix="jpg")
    engine = SimpleNamespace(name="simulated engine")
    predictor = SimpleNamespace(engine=engine, predict_many=lambda images: (tree for _ in images))
    monkeypatch.setattr("treeformer.inference.predictor.Predictor", lambda model: predictor)
    places = ["--data", str(images.parent), "--results", str(tmp_path)]
    shipped.main(["untrained=default", *places])
    assert "untrained-test-jpg-simulated-engine.json" in capsys.readouterr().out
    shipped.main(["--results", str(tmp_path)])
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("| version 9, untrained | 2 test, JPG |"))
    assert line.endswith("| 1.000 [1.000, 1.000] |")
    assert "| simulated engine |" in line
    assert "| 255 test |  | 0.870 |" in out
    assert "Not run: after `treeformer finetune` with ten images; after all 190 training images." in " ".join(
        out.split()
    )
    with pytest.raises(SystemExit, match="the label must be one of untrained, ten, all"):
        shipped.main(["trained=default", *places])


def test_the_results_page_has_the_shipped_model():
    assert shipped.markdown() in shipped.PAGE.read_text(encoding="utf-8"), (
        "python -m benchmarks.tables.shipped --markdown"
    )
