"""End-to-end rehearsal: train, interrupt, test, transfer files, build the table, draw the panels."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from benchmarks.figures.__main__ import main as figures
from benchmarks.tables import results
from benchmarks.tables.__main__ import main as tables
from benchmarks.tables.recipes import REHEARSAL, Run
from benchmarks.tables.spec import TABLES
from benchmarks.tables.train import SETTINGS, missing, train_run
from PIL import Image

from tests.training.processes import ForkedProcess
from treeformer.errors import TreeformerError
from treeformer.hub import safetensors
from treeformer.training.loop import CHECKPOINT

pytestmark = pytest.mark.slow

RUN = Run("synthetic", "sfs", 0)
MINUTES = 0.004


def train(folder: Path, run: Run = RUN, **changes):
    options = {"minutes": MINUTES, "accelerator": "cpu", "scale": REHEARSAL, "commit": "c0ffee"} | changes
    return train_run(run, runs=folder / "runs", data=folder / "data", out=folder / "results", **options)


@pytest.fixture
def forked(monkeypatch) -> list[ForkedProcess]:
    """Return the processes of the runs, which are forks instead of new interpreters: these import torch for 12 s."""
    started: list[ForkedProcess] = []

    class Process:
        def __init__(self, target, args) -> None:
            self.target, self.args = target, args

        def start(self) -> None:
            self.process = ForkedProcess(self.target, *self.args)
            started.append(self.process)

        def join(self) -> None:
            self.process.join()

        @property
        def exitcode(self) -> int | None:
            return self.process.exitcode

    context = SimpleNamespace(Process=Process)
    monkeypatch.setattr("benchmarks.tables.parallel.multiprocessing", SimpleNamespace(get_context=lambda _: context))
    return started


def test_from_training_to_a_table_and_a_panel(tmp_path, capsys, monkeypatch, forked):
    here, there = tmp_path / "here", tmp_path / "there"
    common = ["--rehearse", "--minutes", str(MINUTES), "--accelerator", "cpu", "--workers", "0"]
    places = ["--results", str(there / "results"), "--runs", str(there / "runs"), "--data", str(there / "data")]
    only = ["--only", RUN.name]
    tables(["table1", "--run", *common, *places, *only, "--bring", str(tmp_path / "brought"), "--commit", "c0ffee"])

    # A run with a result is not trained again.
    monkeypatch.setattr("benchmarks.tables.parallel.multiprocessing", None)
    tables(["table1", "--run", *common, *places, *only])
    assert {path.name for path in (tmp_path / "brought").iterdir()} == {
        f"{RUN.name}.json",
        f"{RUN.name}-1-of-1.safetensors",
    }

    capsys.readouterr()
    own = ["--results", str(here / "results"), "--runs", str(here / "runs")]
    tables(["table1", *own, "--take", str(tmp_path / "brought"), "--list", "--domain", "synthetic"])
    assert "not run" in capsys.readouterr().out
    [found] = results.read_all(here / "results").values()
    assert found.run == RUN.name
    assert found.commit == "c0ffee"
    assert found.edge_weight_total == 2.0
    assert found.minutes == MINUTES <= found.trained_minutes
    assert found.test_images == 3
    assert found.tests.keys() == {"train-time", "ours"}
    assert found.tests["ours"]["forest_rate"] == [1, 1, 1]
    assert found.curve["step"][-1] == found.steps
    assert found.curve["minutes"] == sorted(found.curve["minutes"])
    assert len(found.curve["ours/topo_precision"]) == len(found.curve["step"])
    assert str(tmp_path) not in (here / "results" / f"{RUN.name}.json").read_text(), "no paths of this machine"

    figures(["panels", "--rehearse", *own, "--domain", "synthetic", "--output", str(here), "--images", "0", "99"])
    capsys.readouterr()
    figures(["panels", "--rehearse", *own, "--domain", "synthetic", "--output", str(here), "--seed", "1"])
    assert "synthetic: skipped" in capsys.readouterr().err, "only the first seed was trained"
    figures(["curves", *own, "--output", str(here)])
    for name in ("panels-synthetic.png", "curves.png"):
        with Image.open(here / name) as image:
            assert image.width > 300
        assert (here / name).stat().st_size < 300_000
    with pytest.raises(SystemExit, match="no weights of the runs to be shown"):
        figures(["maps", "--rehearse", *own, "--output", str(here)])


def test_ablations_train_in_parallel_are_validated_at_the_end_and_transferred_without_weights(tmp_path, forked):
    run, other, out = Run("small-drawings", "sfs-no-segments", 0), Run("small-drawings", "plain", 0), tmp_path / "out"
    places = ["--results", str(tmp_path / "there"), "--runs", str(tmp_path / "runs"), "--data", str(tmp_path)]
    common = ["--rehearse", "--accelerator", "cpu", "--workers", "0", "--parallel", "3", "--only", run.name, other.name]
    minutes = ["--minutes", str(MINUTES)]
    tables(["ingredients", "--run", *common, *minutes, *places, "--bring", str(out / "a.tar")])
    assert [path.name for path in out.iterdir()] == ["a.tar"]
    tables(["ingredients", "--results", str(tmp_path / "here"), "--take", str(out)])
    found = results.read_all(tmp_path / "here")
    assert found.keys() == {run.name, other.name}
    assert found[other.name].parallel == 3
    found = found[run.name]
    assert found.parallel == 3
    assert found.config["model_options"]["segment_channels"] == 0
    assert found.curve["step"] == [found.steps]
    assert found.test_images == 3
    # An error in a run is one line, and the command fails.
    (tmp_path / "there" / f"{other.name}.json").unlink()
    forked.clear()
    with pytest.raises(SystemExit, match=other.name) as stop:
        tables(["ingredients", "--run", *common, "--minutes", "1", *places])
    assert run.name not in str(stop.value)
    lines = [line for process in forked for line in process.output().splitlines()]
    assert sum("was started with other settings" in line for line in lines) == 1
    assert not any("Traceback" in line for line in lines)


def test_a_killed_run_resumes_unless_settings_differ(tmp_path, monkeypatch):
    def killed(*_arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("benchmarks.tables.train._test", killed)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path)
    assert not list((tmp_path / "results").glob("*")), "results are written atomically"
    checkpoint = tmp_path / "runs" / RUN.name / CHECKPOINT
    before = checkpoint.stat().st_mtime_ns
    result = train(tmp_path)
    assert checkpoint.stat().st_mtime_ns == before, "training was complete: only the test was left"
    assert result.steps == safetensors_step(checkpoint)
    with pytest.raises(TreeformerError, match=f"started with other settings .see {SETTINGS}"):
        train(tmp_path, minutes=1.0)


def safetensors_step(path: Path) -> int:
    import json

    return int(json.loads(safetensors.read_header(path)[1]["progress"])["step"])


def test_runs_that_cannot_be_trained_are_skipped(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.tables.domains.SOURCES", tmp_path / "none")
    osr = Run("osr-roots", "sfs", 0)
    assert "osr-roots is not in the folder" in missing(osr, tmp_path)
    with pytest.raises(TreeformerError, match="osr-roots is not in the folder"):
        train(tmp_path, osr)
    monkeypatch.setattr("treeformer.training.registry.MODELS", {})
    assert missing(RUN, tmp_path) == "there is no model 'default'"
    tables(["lambda", "--run", "--rehearse", "--results", str(tmp_path), "--data", str(tmp_path)])
    captured = capsys.readouterr()
    assert captured.err.count("skipped") == len(TABLES["lambda"].runs())
    assert "has not been run" in captured.out
