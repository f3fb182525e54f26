"""Stored features and training on them: the same result as the whole network, and the same after an interruption."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from treeformer.finetuning import cached_features
from treeformer.finetuning.annotated import survey
from treeformer.finetuning.cached_features import (
    OPTIMIZER,
    CachedFeatures,
    CropBatch,
    FeatureStore,
    StoredCrops,
    TopOfBackbone,
    live_engine,
    separate_backbone,
    train_cached,
)
from treeformer.finetuning.measuring import LiveEngine, calibrate_edges, predict_images, score
from treeformer.finetuning.plan import CropSettings, Schedule, make_crop
from treeformer.hub.model_folder import open_model
from treeformer.inference.predictor import Predictor
from treeformer.models.export import from_pretrained, load_weights
from treeformer.nn.targets import Targets
from treeformer.training import checkpoint
from treeformer.training.loop import BEST, CHECKPOINT
from treeformer.training.parallel import Workers

pytestmark = pytest.mark.usefixtures("one_thread")
SIDE = 64
QUICK = replace(OPTIMIZER, learning_rate=2e-3)


@pytest.fixture
def crops(drawings):
    images = survey(drawings).images
    settings = CropSettings(SIDE, 16, synthetic_every=0)
    return [make_crop(number, images, [SIDE] * 6, settings) for number in range(4)]


def training_set(network, crops, folder, trained_stages=0, workers=1):
    """Separate the backbone and return the work on the crops with stored features, and the whole backbone."""
    backbone = separate_backbone(network, trained_stages)
    store = FeatureStore(folder, backbone, SIDE, len(backbone.stage_names) - trained_stages)
    stored = StoredCrops(store, lambda number: crops[number])
    options = {"batch_size": 2, "max_tokens": 24, "seed": 3}
    return CachedFeatures(network, stored, len(crops), workers=Workers(workers), **options), backbone


@pytest.mark.parametrize("trained_stages", [0, 1])
def test_a_network_with_stored_features_gives_the_same_output(start_model, crops, tmp_path, trained_stages):
    network = from_pretrained(start_model)
    pixels = torch.from_numpy(crops[0].image.copy()).permute(2, 0, 1)[None].float() / 255
    with torch.no_grad():
        expected = network(pixels)
        work, backbone = training_set(network, crops, tmp_path / "f", trained_stages)
        features = work.crops.features(0)
        assert work.crops.features(0)[0].equal(features[0])  # read back
        assert (tmp_path / "f" / "0.npy").stat().st_size < work.crops.store.file_bytes + 200
        network.backbone.stored = features
        output = network(torch.empty(1, 3, SIDE, SIDE))
    torch.testing.assert_close(output.heat, expected.heat, atol=2e-2, rtol=2e-2)
    assert isinstance(network.backbone, TopOfBackbone)
    network.backbone = backbone
    with torch.no_grad():
        torch.testing.assert_close(network(pixels).heat, expected.heat)


def test_damaged_features_are_computed_again(start_model, crops, tmp_path):
    work, _ = training_set(from_pretrained(start_model), crops, tmp_path)
    expected = work.crops.features(0)
    for content in (b"", b"nothing", (tmp_path / "0.npy").read_bytes()[:500]):
        (tmp_path / "0.npy").write_bytes(content)
        assert work.crops.features(0)[0].equal(expected[0])


def test_the_size_of_all_files_is_limited(start_model, crops, tmp_path):
    backbone = separate_backbone(from_pretrained(start_model))
    store = FeatureStore(tmp_path, backbone, SIDE, 2)
    store.max_bytes = 2.5 * store.file_bytes
    first = [store.get_by_content(crop.image) for crop in crops]
    assert len(list(tmp_path.glob("*.npy"))) == 2
    again = [store.get_by_content(crop.image) for crop in crops]
    assert all(one[0].equal(two[0]) for one, two in zip(first, again, strict=True))


def test_crops_are_made_once_and_read_afterwards(start_model, crops, tmp_path):
    made: list[int] = []
    store = FeatureStore(tmp_path, separate_backbone(from_pretrained(start_model)), SIDE, 2)
    for _ in range(2):  # the second data set finds the files of the first
        stored = StoredCrops(store, lambda number: made.append(number) or crops[number])
        for number in (1, 0, 1):
            assert stored.skeleton(number) == crops[number].skeleton
            assert len(stored.features(number)) == 2
    assert made == [1, 0]


@pytest.mark.slow
def test_gradients_of_single_crops_add_up_to_that_of_a_batch(start_model, crops, tmp_path):
    network = from_pretrained(start_model)
    work, _ = training_set(network, crops[:2], tmp_path)
    loss = work.gradient(CropBatch((0, 1)))["loss"]
    separate = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
    network.zero_grad()
    stages = zip(*(work.crops.features(number) for number in (0, 1)), strict=True)
    network.backbone.stored = [torch.cat(parts) for parts in stages]
    targets = Targets.from_skeletons([crop.skeleton for crop in crops[:2]])
    output = network(torch.empty(2, 3, SIDE, SIDE), targets, 24)
    expected = sum(network.loss(output, targets).values())
    expected.backward()
    assert float(loss) == pytest.approx(float(expected.detach()), rel=1e-3)
    for name, p in network.named_parameters():
        if p.grad is not None:
            torch.testing.assert_close(separate[name], p.grad, atol=1e-3, rtol=1e-2, msg=name)


def run(start_model, crops, folder, *, steps=6, stop_after=None, measure=None, workers=1, **options):
    """Train a fresh network and return it with the state; stop after some steps if requested."""
    network = from_pretrained(start_model)
    work, _ = training_set(network, crops, folder / "features", workers=workers)
    asked: list[None] = []

    def should_stop() -> bool:
        asked.append(None)
        return len(asked) == stop_after

    schedule = Schedule(len(crops), steps, 2, 2, 0.0)
    options = {"optimizer": QUICK, "start_score": 0.2} | options
    state = train_cached(work, schedule, folder, measure=measure, should_stop=should_stop, **options)
    return network, state


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_ends_with_the_same_weights(start_model, crops, tmp_path, workers):
    whole, _ = run(start_model, crops, tmp_path / "whole", workers=workers)
    with pytest.raises(KeyboardInterrupt):
        run(start_model, crops, tmp_path / "parts", stop_after=3, workers=workers)
    assert checkpoint.read_run_state(tmp_path / "parts" / CHECKPOINT).step == 3
    resumed, state = run(start_model, crops, tmp_path / "parts", workers=workers)
    assert state.step == 6
    for name, tensor in whole.state_dict().items():
        assert tensor.equal(resumed.state_dict()[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", [2, 3])
def test_a_run_that_is_stopped_while_validating_validates_the_same_weights_again(
    start_model, crops, tmp_path, interrupted
):
    def validating(scores, calls):
        def measure(_model):
            calls.append(len(calls) + 1)
            if not scores:
                raise KeyboardInterrupt
            return {"topo_f1": scores.pop(0)}

        return measure

    calls: list[int] = []
    scores = [0.3, 0.4, 0.5]
    with pytest.raises(KeyboardInterrupt):
        run(start_model, crops, tmp_path, measure=validating(scores[: interrupted - 1], calls))
    _, state = run(start_model, crops, tmp_path, measure=validating(scores[interrupted - 1 :], calls))
    assert len(calls) == 4, "every validation was completed once"
    assert (state.step, state.best_step, state.best_score) == (6, 6, 0.5)


@pytest.mark.slow
def test_the_best_weights_are_kept_and_the_start_if_none_is_better(start_model, crops, tmp_path):
    start = from_pretrained(start_model)
    separate_backbone(start)
    scores = iter([0.5, 0.4, 0.3])
    best, state = run(start_model, crops, tmp_path / "better", measure=lambda _: {"topo_f1": next(scores)})
    assert (state.best_step, state.best_score) == (2, 0.5)
    kept = checkpoint.averaged_weights(tmp_path / "better" / BEST)
    assert all((best.state_dict()[name].numpy() == array).all() for name, array in kept.items())
    assert any((start.state_dict()[name].numpy() != array).any() for name, array in kept.items())
    worse, state = run(start_model, crops, tmp_path / "worse", measure=lambda _: {"topo_f1": 0.1})
    assert state.best_step == 0
    assert all(tensor.equal(start.state_dict()[name]) for name, tensor in worse.state_dict().items())


@pytest.mark.slow
def test_a_crop_has_the_same_gradient_in_every_worker(start_model, crops, tmp_path):
    gradients = []
    for workers in (1, 2):
        network = from_pretrained(start_model)
        work, _ = training_set(network, crops, tmp_path, workers=workers)
        loss = float(work.gradient(CropBatch((0, 1, 2, 3)))["loss"])
        gradients.append((loss, {name: p.grad for name, p in network.named_parameters() if p.grad is not None}))
    (one, separate), (two, shared) = gradients
    assert one == pytest.approx(two, rel=1e-5)
    assert separate.keys() == shared.keys()
    for name, gradient in separate.items():
        torch.testing.assert_close(gradient, shared[name], atol=1e-4, rtol=1e-3, msg=name)


@pytest.mark.slow
def test_later_weights_are_kept_unless_they_are_clearly_worse(start_model, crops, tmp_path):
    scores = iter([0.5, 0.49, 0.4])
    _, state = run(start_model, crops, tmp_path, measure=lambda _: {"topo_f1": next(scores)})
    assert (state.best_step, state.best_score) == (4, 0.5)


@pytest.mark.slow
def test_training_stops_when_it_no_longer_improves(start_model, crops, tmp_path):
    _, state = run(start_model, crops, tmp_path, steps=40, measure=lambda _: {"topo_f1": 0.1})
    assert 20 < state.step < 30


@pytest.mark.slow
def test_training_that_is_late_ends_with_a_validation(start_model, crops, tmp_path):
    validated = {"measure": lambda _: {"topo_f1": 0.5}}
    _, state = run(start_model, crops, tmp_path, steps=50, is_late=lambda: True, **validated)
    assert (state.step, state.best_step) == (1, 1)


@pytest.mark.slow
def test_training_lowers_the_loss_and_changes_only_what_it_should(start_model, crops, tmp_path):
    losses: list[float] = []
    before = from_pretrained(start_model).state_dict()
    optimizer = replace(OPTIMIZER, learning_rate=3e-3, neck_factor=0.0)
    show = lambda step, steps, figures: losses.append(figures["loss"])  # noqa: E731
    network, _ = run(start_model, crops[:2], tmp_path, steps=24, optimizer=optimizer, show=show)
    assert len(losses) == 24
    assert losses[-1] < 0.8 * losses[0]
    changed = {name.split(".")[0] for name, tensor in network.state_dict().items() if not tensor.equal(before[name])}
    assert "decoder" in changed
    assert not changed & {"backbone", "neck"}


def test_every_crop_is_used_before_any_is_used_again():
    order = [index for step in range(6) for index in cached_features.crop_order(step, 2, 4, seed=1)]
    assert sorted(order[:4]) == sorted(order[4:8]) == sorted(order[8:]) == [0, 1, 2, 3]
    assert order[:4] != order[4:8]


def test_the_live_engine_predicts_as_the_model_folder_does(start_model, drawings, tmp_path):
    folder = open_model(start_model)
    images = survey(drawings).images[:2]
    network = load_weights(folder)
    whole = predict_images(Predictor(folder, engine=LiveEngine(network, folder)), images)
    expected = predict_images(Predictor(folder, engine="torch"), images)
    backbone = separate_backbone(network)
    store = FeatureStore(tmp_path, backbone, SIDE, len(backbone.stage_names))
    stored = predict_images(Predictor(folder, engine=live_engine(network, folder, store)), images)
    for one, two, three in zip(whole, expected, stored, strict=True):
        assert len(one) == len(two)
        np.testing.assert_allclose(one.nodes, two.nodes, atol=0.02)
        assert abs(len(one) - len(three)) <= 1  # float16 features may move a score over the threshold
    assert len(list(tmp_path.glob("*.npy"))) == 2


def test_scores_are_means_over_images_and_a_perfect_prediction_has_1(drawings):
    images = survey(drawings).images[:3]
    perfect = [image.skeleton for image in images]
    assert score(perfect, images)["topo_f1"] == 1.0
    half = score([perfect[0], perfect[1].replace(nodes=perfect[1].nodes * 0.2), perfect[2]], images)
    assert half["topo_f1"] < 1.0
    assert half["length_error"] < 0


def test_calibration_needs_enough_edges(start_model, drawings):
    folder = open_model(start_model)
    assert calibrate_edges(LiveEngine(load_weights(folder), folder), folder, survey(drawings).images[:1]) is None
