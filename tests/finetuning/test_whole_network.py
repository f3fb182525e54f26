"""The mode for a GPU, which trains the whole network, rehearsed on the CPU."""

from __future__ import annotations

import pytest
import torch

from tests.finetuning.conftest import SIDE
from treeformer.finetuning import finetune, measuring, plan, whole_network
from treeformer.finetuning.annotated import survey
from treeformer.finetuning.plan import CropSettings
from treeformer.finetuning.run import Report
from treeformer.hub.model_folder import open_model
from treeformer.models.export import load_weights

pytestmark = pytest.mark.usefixtures("one_thread", "short_runs")


@pytest.mark.slow
def test_the_mode_for_a_gpu_rehearsed_on_the_cpu(drawings, start_model, tmp_path, monkeypatch):
    monkeypatch.setattr(whole_network, "STEPS", 2)
    monkeypatch.setattr(whole_network, "VALIDATE_EVERY", 1)
    monkeypatch.setattr(whole_network, "BATCH_SIZE", 2)
    monkeypatch.setattr(whole_network, "CROWDED_BATCH_SIZE", 2)
    monkeypatch.setattr(plan, "SYNTHETIC_PRESETS", ("seedling",))
    start = open_model(start_model)
    images = survey(drawings).images
    whole_network.write_scaled(images, [SIDE] * 6, tmp_path / "images", SIDE)
    config = whole_network.training_config(
        start, tmp_path / "images", 64, CropSettings(SIDE, 24), learning_rate=1e-3, workers=0, bf16=False
    )
    assert config.data.crowded_every == 2
    assert config.data.crowded_tokens == 64
    scores = iter([0.3, 0.2])
    options = {"minutes": 5.0, "device": "cpu"}
    best, score = whole_network.train_whole(
        config, tmp_path / "run", measure=lambda _: {"topo_f1": next(scores)}, **options
    )
    assert score == 0.3
    assert best is not None
    assert best.exists()


def test_pseudo_labels_are_a_source_of_their_own_in_a_longer_training(start_model, tmp_path):
    def config(**options):
        return whole_network.training_config(
            open_model(start_model),
            tmp_path / "own",
            64,
            CropSettings(SIDE, 24),
            learning_rate=1e-3,
            workers=0,
            bf16=False,
            **options,
        )

    plain, both = config(), config(pseudo=tmp_path / "labeled", validated_once=True)
    weights = [
        {str(path): sum(source.weight for source in one.data.train if source.path == str(path)) for path in paths}
        for one, paths in ((plain, [tmp_path / "own"]), (both, [tmp_path / "own", tmp_path / "labeled"]))
    ]
    assert sum(weights[1].values()) == pytest.approx(sum(weights[0].values()))
    assert weights[1][str(tmp_path / "own")] == pytest.approx(0.4 * weights[0][str(tmp_path / "own")])
    assert both.steps > plain.steps
    assert plain.validate_every < plain.steps
    assert both.validate_every == both.steps, "the last weights are measured only"


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU takes larger batches")
def test_a_whole_run_in_the_mode_for_a_gpu(drawings, start_model, tmp_path, monkeypatch, improving):
    for name, value in {"STEPS": 2, "VALIDATE_EVERY": 1, "BATCH_SIZE": 2, "CROWDED_BATCH_SIZE": 2}.items():
        monkeypatch.setattr(whole_network, name, value)
    monkeypatch.setattr(plan, "SYNTHETIC_PRESETS", ("seedling",))
    monkeypatch.setattr(finetune, "_choose_device", lambda _device: "cuda")
    monkeypatch.setattr(measuring, "cautious_threshold", lambda *_arguments: 0.45)
    reports: list[Report] = []
    outcome = finetune.finetune(drawings, tmp_path / "mine", start=start_model, listen=reports.append)
    assert any("training the whole network on cpu" in report.message for report in reports)
    assert not outcome.kept_start
    assert "| trained parts | all |" in open_model(outcome.folder).card
    assert open_model(outcome.folder).config.node_threshold == 0.45, "chosen by the validation views"
    before, after = (load_weights(open_model(path)).backbone.state_dict() for path in (start_model, outcome.folder))
    assert any(not tensor.equal(after[name]) for name, tensor in before.items()), "the backbone is trained too"
