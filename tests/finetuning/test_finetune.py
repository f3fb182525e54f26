"""Whole runs with a small model: a better model folder, resumed after a stop, and one line for every mistake."""

from __future__ import annotations

import errno
import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from tests.finetuning.conftest import draw_tree
from treeformer.cli import app
from treeformer.errors import TreeformerError
from treeformer.finetuning import cached_features, finetune, measuring, plan, result, work_folder
from treeformer.finetuning.annotated import survey
from treeformer.finetuning.result import Loss
from treeformer.finetuning.run import Report, Run, never
from treeformer.hub.model_folder import GRAPH, INT8_GRAPH, WEIGHTS, open_model
from treeformer.inference.open_engine import open_engine
from treeformer.inference.predictor import Predictor
from treeformer.models import onnx_graph
from treeformer.models.export import load_weights

MAKE_SCHEDULE, WRITE_GRAPHS = plan.make_schedule, onnx_graph.write_graphs

pytestmark = pytest.mark.usefixtures("one_thread", "short_runs")


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_stopped_run_continues_and_writes_a_model_folder(drawings, start_model, tmp_path, improving):
    output = tmp_path / "mine"
    reports: list[Report] = []
    stop = {"now": False}

    def listen(report: Report) -> None:
        reports.append(report)
        stop["now"] = report.stage == "training" and report.done == 1 and len(reports) < 40

    with pytest.raises(KeyboardInterrupt):
        finetune.finetune(
            drawings, output, start=start_model, device="cpu", listen=listen, should_stop=lambda: stop["now"]
        )
    assert not output.exists()
    assert (tmp_path / ".mine-finetune" / "checkpoint.safetensors").exists()
    assert len(list((tmp_path / ".mine-finetune" / "features").glob("*.npy"))) == 8

    reports.clear()
    outcome = finetune.finetune(drawings, output, start=start_model, device="cpu", listen=reports.append)
    assert any("interrupted run" in report.message for report in reports)
    assert next(report.done for report in reports if report.stage == "training") == 2
    assert not outcome.kept_start
    assert outcome.after["topo_f1"] > outcome.before["topo_f1"]
    written = names(tmp_path)
    (drawing,) = {name for name in written if name.startswith("mine/overlays/")}
    files = ("card.md", "config.json", "model.onnx", "model-int8.onnx", "model.safetensors")
    assert written - {drawing} == {f"mine/{name}" for name in files}
    assert not (tmp_path / ".mine-finetune").exists()
    assert reports[-1].stage == "done"
    assert reports[-1].figures["after_topo_f1"] == outcome.after["topo_f1"]

    folder = open_model(output)
    before, after = load_weights(open_model(start_model)), load_weights(folder)
    assert after.config.tokens == 64
    last_stage = before.backbone.stage_names[-1]
    for name, tensor in before.backbone.state_dict().items():
        assert tensor.equal(after.backbone.state_dict()[name]) or name.startswith(last_stage)
    assert any(
        not tensor.equal(after.decoder.state_dict()[name]) for name, tensor in before.decoder.state_dict().items()
    )
    assert Predictor(folder, engine="torch").predict(drawings / "plant0.png").is_forest
    card = folder.card
    assert "TOPO F1, corrected" in card
    assert "| training | 5 |" in card
    assert "overlays/" in card

    with pytest.raises(TreeformerError, match="already exists"):
        finetune.finetune(drawings, output, start=start_model, device="cpu")


@pytest.mark.slow
def test_the_start_model_is_kept_if_nothing_is_better(drawings, start_model, tmp_path, monkeypatch):
    figures = dict.fromkeys(("topo_f1", "topo_precision", "topo_recall", "length_error"), 0.5)
    monkeypatch.setattr(measuring, "score", lambda *_: figures)
    outcome = finetune.finetune(drawings, tmp_path / "mine", start=start_model, device="cpu")
    assert outcome.kept_start
    assert open_model(outcome.folder).hashes == open_model(start_model).hashes
    assert "weights are those of the start model" in open_model(outcome.folder).card


class FakeClock:
    """A clock that stands still unless a replaced function moves it."""

    def __init__(self):
        self.now, self.parts = 1000.0, {}

    def __call__(self):
        return self.now

    def slow_down(self, monkeypatch, module, name, seconds):
        """Let every call of a function take so many seconds."""
        function = getattr(module, name)

        def slower(*args, **options):
            self.now += seconds(*args) if callable(seconds) else seconds
            self.parts[name] = self.parts.get(name, 0) + 1
            return function(*args, **options)

        monkeypatch.setattr(module, name, slower)


@pytest.mark.slow
@pytest.mark.parametrize(("minutes", "speed"), [(8, 1.0), (15, 0.7), (15, 1.5)])
def test_the_time_limit_holds_for_the_whole_run(
    drawings, start_model, tmp_path, monkeypatch, improving, minutes, speed
):
    clock = FakeClock()
    monkeypatch.setattr(plan, "make_schedule", MAKE_SCHEDULE)
    monkeypatch.setattr(plan, "MAX_IMAGE_STEPS", 10_000)

    def write_slowly(folder, _model, _settings, *, int8=True, images=None, **_options):
        for name in (GRAPH, INT8_GRAPH) if int8 else (GRAPH,):
            (folder / name).write_bytes(b"no graph")
        clock.now += 5 * speed if int8 else 90 * speed  # the graph is traced once, before the training
        for _ in images or ():
            clock.now += 3 * speed

    def no_gradient(network, *_args):  # its time is that of the clock, and `improving` sets the scores
        for parameter in network.parameters():
            parameter.grad = torch.zeros_like(parameter)
        return 1.0

    monkeypatch.setattr(cached_features, "_backward", no_gradient)
    slow = {
        (cached_features.CachedFeatures, "gradient"): 10 * speed,
        (cached_features.FeatureStore, "_compute"): 2 * speed,
        (measuring, "predict_images"): lambda _predictor, images, *_: 0.4 * speed * len(images),
    }
    for (module, name), seconds in slow.items():
        clock.slow_down(monkeypatch, module, name, seconds)
    monkeypatch.setattr(onnx_graph, "write_graphs", write_slowly)
    reports: list[Report] = []
    output = tmp_path / "mine"
    run = Run(
        output, work_folder.work_folder_of(output), 0, 60.0 * minutes, reports.append, never, clock, began=clock.now - 9
    )
    outcome = finetune._finetune(run, drawings, open_model(start_model), False, False)
    assert not outcome.kept_start
    assert clock.parts["gradient"] > 4
    assert 0.7 * run.seconds < run.elapsed <= run.seconds
    assert (output / INT8_GRAPH).exists()


@pytest.mark.slow
def test_the_graph_of_the_start_model_runs_with_the_new_weights(
    drawings, untrained_folder, tmp_path, monkeypatch, improving
):
    """A whole run with real graphs. Only tracing, which takes longest, would be too slow here."""

    def no_trace(*_args):
        raise AssertionError("traced again")

    monkeypatch.setattr(onnx_graph, "write_graphs", WRITE_GRAPHS)
    monkeypatch.setattr(onnx_graph, "trace", no_trace)
    monkeypatch.setattr(measuring, "ENGINE", "onnx")
    monkeypatch.setattr(plan, "choose_tokens", lambda *_: 24)  # as many as the start model has
    start = open_model(untrained_folder)
    outcome = finetune.finetune(drawings, tmp_path / "mine", start=untrained_folder, device="cpu")
    assert not outcome.kept_start
    new = open_model(outcome.folder)
    assert new.hashes[GRAPH] == start.hashes[GRAPH]
    assert new.hashes[WEIGHTS] != start.hashes[WEIGHTS]
    assert new.has_int8
    image = np.array([np.asarray(Image.open(drawings / "plant0.png"))])
    exact, expected = open_engine(new, "onnx", precision="float32")(image), open_engine(new, "torch")(image)
    np.testing.assert_allclose(exact.node_score, expected.node_score, atol=2e-3, rtol=1e-3)


@pytest.mark.slow
def test_an_eight_bit_graph_that_loses_too_much_is_left_out(drawings, start_model, tmp_path, monkeypatch, improving):
    monkeypatch.setattr(result, "int8_loss", lambda *_: Loss(0.2, 0.01))
    reports: list[Report] = []
    outcome = finetune.finetune(drawings, tmp_path / "mine", start=start_model, device="cpu", listen=reports.append)
    assert any("8-bit graph loses too much" in report.message for report in reports)
    assert not open_model(outcome.folder).has_int8
    assert not (outcome.folder / INT8_GRAPH).exists()


@pytest.mark.slow
def test_one_image_is_trained_without_validation_and_says_so(start_model, tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    draw_tree(tmp_path / "one", "a", 1)
    exported = []
    monkeypatch.setattr(result, "export", lambda *args, **options: exported.append(args) or open_model(start_model))
    reports: list[Report] = []
    outcome = finetune.finetune(
        tmp_path / "one", tmp_path / "mine", start=start_model, device="cpu", listen=reports.append
    )
    assert len(exported) == 3  # the graph, the rehearsal and the model folder
    assert outcome.are_training_images
    assert outcome.kept_start  # the exported model is the start model here, which is not better
    assert any("no image is left for validation" in report.message for report in reports)
    assert "**trained**" in open_model(outcome.folder).card


@pytest.mark.slow
def test_a_full_disk_is_an_error_that_loses_nothing(drawings, start_model, tmp_path, monkeypatch):
    save, calls = np.save, []

    def full(file, *args, **options):
        calls.append(file)
        if len(calls) > 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(file, *args, **options)

    monkeypatch.setattr(cached_features.np, "save", full)
    command = ["finetune", str(drawings), "-o", str(tmp_path / "mine"), "--model", str(start_model), "--device", "cpu"]
    found = CliRunner().invoke(app, command)
    assert isinstance(found.exception, OSError)  # `main` prints it as one line
    assert str(found.exception.filename).endswith(".npy")
    assert not (tmp_path / "mine").exists()
    stored = list((tmp_path / ".mine-finetune").rglob("*.npy"))
    assert len(stored) == 4
    monkeypatch.setattr(work_folder, "free_bytes", lambda _: 0)
    monkeypatch.setattr(cached_features.np, "save", save)
    with pytest.raises(TreeformerError, match="disk is too full"):
        finetune.finetune(drawings, tmp_path / "other", start=start_model, device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == [".mine-finetune"]


def test_other_images_begin_a_new_run(drawings, start_model, tmp_path):
    images = survey(drawings).images
    start = open_model(start_model)
    key = work_folder.fingerprint(images, start, {"seed": 0})
    assert key == work_folder.fingerprint(survey(drawings).images, start, {"seed": 0})
    assert key != work_folder.fingerprint(images[1:], start, {"seed": 0})
    assert key != work_folder.fingerprint(images, start, {"seed": 1})
    folder, stored = work_folder.open_work_folder(tmp_path / "m", key)
    assert stored == {}
    work_folder.write_plan(folder, {"fingerprint": key, "working_px": 0})
    (folder / "file").write_text("")
    assert work_folder.open_work_folder(tmp_path / "m", key) == (folder, {"fingerprint": key, "working_px": 0})
    assert work_folder.open_work_folder(tmp_path / "m", "other") == (folder, {})
    assert not (folder / "file").exists()


@pytest.mark.slow
def test_another_split_begins_a_new_run(drawings, start_model, tmp_path, monkeypatch, improving):
    """Otherwise images that were trained on would be measured as validation images."""
    folder = tmp_path / "images"
    shutil.copytree(drawings, folder)

    def stopped_run() -> list[str]:
        lines: list[str] = []

        def listen(report: Report) -> None:
            lines.append(report.message)
            if "writing the graph" in report.message:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            finetune.finetune(folder, tmp_path / "m", start=start_model, device="cpu", listen=listen)
        return lines

    stopped_run()
    assert any("an interrupted run with the same images continues" in line for line in stopped_run())
    monkeypatch.setattr(
        plan, "split_images", lambda found, _seed: plan.Split(tuple(found.images[:4]), tuple(found.images[4:]))
    )
    lines = stopped_run()
    assert not any("continues" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing", "-o", "out"], "missing: no such folder"),
        (["FOLDER", "-o", "FOLDER"], "already exists"),
        (["FOLDER", "-o", "out", "--max-minutes", "-1"], "must be positive"),
        (["FOLDER", "-o", "out", "--device", "cuda"], "no GPU"),
        (["FOLDER", "-o", "out", "--unannotated"], "--unannotated needs a GPU"),
        (["FOLDER", "-o", "out", "--model", "missing"], "no such folder"),
    ],
)
def test_mistakes_are_one_line(drawings, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = CliRunner().invoke(app, ["finetune", *(str(drawings) if one == "FOLDER" else one for one in arguments)])
    assert isinstance(found.exception, TreeformerError)
    assert message in str(found.exception)
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_found_before_the_training(drawings, tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxscript" else found(name))
    with pytest.raises(TreeformerError, match=r"needs onnxscript: pip install 'treeformer\[train,export\]'"):
        finetune.finetune(drawings, tmp_path / "mine")
    assert not list(tmp_path.iterdir())


def test_a_stopped_command_says_how_to_continue(drawings, tmp_path, monkeypatch):
    def stopped(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(finetune, "finetune", stopped)
    found = CliRunner().invoke(app, ["finetune", str(drawings), "-o", str(tmp_path / "m")])
    assert found.stderr.splitlines()[0] == "treeformer: the same command continues this run"
    assert found.exit_code == 130


def test_progress_as_json_lines(drawings, start_model, tmp_path, monkeypatch):
    def fake(*_args, listen, **_options):
        listen(Report("survey", "6 images"))
        listen(Report("training", "", 1, 2, 3.0, {"loss": float("nan")}))

    monkeypatch.setattr(finetune, "finetune", fake)
    command = ["finetune", str(drawings), "-o", str(tmp_path / "m"), "--progress", "json"]
    found = CliRunner().invoke(app, command)
    first, second = (json.loads(line) for line in found.stdout.splitlines())
    assert first["message"] == "6 images"
    assert second["figures"] == {"loss": None}
    assert second["seconds_left"] == 3.0
    found = CliRunner().invoke(app, command[:-2])
    assert found.stderr.splitlines() == ["6 images"]
    shutil.rmtree(tmp_path)
