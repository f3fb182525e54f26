"""Result files: size, round trip, transfer between machines, one-line errors for broken files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.tables import results
from benchmarks.tables.recipes import Run
from benchmarks.tables.transfer import bring_results, take

from tests.benchmarks.factories import result, row
from treeformer.errors import TreeformerError

SFS, PLAIN = Run("synthetic", "sfs", 0), Run("synthetic", "plain", 0)


def test_a_result_is_small_and_survives_a_round_trip(tmp_path):
    rng = np.random.default_rng(0)
    rows = [row(*rng.random(3).tolist(), tree=float(rng.integers(2))) for _ in range(500)]
    made = result(SFS, rows)
    path = results.write(made, tmp_path)
    assert path.stat().st_size < 150_000
    again = results.read_all(tmp_path)
    assert again == {SFS.name: made}
    back = again[SFS.name].rows("ours")
    assert len(back) == 500
    for ours, theirs in zip(back, rows, strict=True):
        for name in ("smd", "topo_precision", "tree_rate"):
            assert ours[name] == pytest.approx(theirs[name], rel=1e-5)
        assert np.isnan(ours["length_error"])
        p, r = theirs["edge_precision"], theirs["edge_recall"]
        assert ours["edge_f1"] == pytest.approx(2 * p * r / (p + r), rel=1e-4)


@pytest.mark.parametrize("text", ["", "[]", '{"run": 1}', "{", '{"moon": 1}'])
def test_a_broken_result_is_a_one_line_error(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(TreeformerError, match=r"x\.json: not a result"):
        results.read_all(tmp_path)


def test_a_result_with_columns_of_different_lengths_is_rejected(tmp_path):
    made = result(SFS, [row(), row()])
    path = results.write(replace(made, test_images=3), tmp_path)
    with pytest.raises(TreeformerError, match="for \\[2\\] images instead of 3"):
        results.read(path)


def test_temporary_files_of_other_processes_are_ignored(tmp_path):
    results.write(result(SFS, [row()]), tmp_path)
    (tmp_path / ".synthetic-plain-seed0-x1.json").write_text("{")
    assert list(results.read_all(tmp_path)) == [SFS.name]


def test_results_are_transferred_in_one_file_without_weights(tmp_path):
    made = {run.name: result(run, [row(0.3), row()]) for run in (SFS, PLAIN)}
    for one in made.values():
        results.write(one, tmp_path / "there")
    brought, runs = tmp_path / "brought", tmp_path / "runs"
    for _ in range(2):
        bring_results([*made, "not-run-yet"], results_folder=tmp_path / "there", to=brought / "a.tar")
    assert [path.name for path in brought.iterdir()] == ["a.tar"]
    assert take(brought, runs=runs, results_folder=tmp_path / "here") == list(made)
    assert results.read_all(tmp_path / "here") == made
    for name in made:
        assert (tmp_path / "here" / f"{name}.json").read_bytes() == (tmp_path / "there" / f"{name}.json").read_bytes()
    assert not runs.exists()


@pytest.mark.parametrize("content", [b"", b"moon", b"\0" * 600])
def test_a_broken_tar_is_a_one_line_error(tmp_path, content):
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(TreeformerError, match=r"a\.tar: cannot be read|contains no result"):
        take(tmp_path, runs=tmp_path / "runs", results_folder=tmp_path / "here")


def test_a_tar_of_other_files_is_a_one_line_error(tmp_path):
    (tmp_path / "x.json").write_text("[]")
    bring_results(["x"], results_folder=tmp_path, to=tmp_path / "brought" / "a.tar")
    with pytest.raises(TreeformerError, match=r"a\.tar: x\.json: not a result"):
        take(tmp_path / "brought", runs=tmp_path / "runs", results_folder=tmp_path / "here")
