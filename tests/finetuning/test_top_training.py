"""Stored features and training on them: the same result as the whole network, and the same after an interruption."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from treeformer.finetuning import top_training
from treeformer.finetuning.annotated import survey
from treeformer.finetuning.crops import CropSettings, make_crop
from treeformer.finetuning.features import FeatureStore, TopOfBackbone, join_backbone, separate_backbone
from treeformer.finetuning.measuring import LiveEngine, calibrate_edges, predict_images, score
from treeformer.finetuning.parallel import Replicas, Workers
from treeformer.finetuning.plan import Schedule
from treeformer.finetuning.progress import ignore, never
from treeformer.hub.model_folder import open_model
from treeformer.inference.predictor import Predictor
from treeformer.models.export import from_pretrained, load_weights
from treeformer.nn.targets import Targets
from treeformer.training import checkpoint

pytestmark = pytest.mark.usefixtures("one_thread")
SIDE = 64
RECIPE = top_training.Recipe(2e-3, max_tokens=24)


@pytest.fixture
def crops(drawings):
    images = survey(drawings).images
    settings = CropSettings(SIDE, 16, synthetic_every=0)
    return [make_crop(number, images, [SIDE] * 6, settings) for number in range(4)]


def training_set(network, crops, folder, trained_stages=0):
    """Separate the backbone and return the crops with their stored features, and the store."""
    backbone = separate_backbone(network, trained_stages)
    store = FeatureStore(folder, backbone, SIDE, len(backbone.stage_names) - trained_stages)
    made = [
        ((lambda n=n, crop=crop: store.get(str(n), lambda: crop.image)), crop.skeleton) for n, crop in enumerate(crops)
    ]
    return made, store, backbone


@pytest.mark.parametrize("trained_stages", [0, 1])
def test_a_network_with_stored_features_gives_the_same_output(start_model, crops, tmp_path, trained_stages):
    network = from_pretrained(start_model)
    pixels = torch.from_numpy(crops[0].image.copy()).permute(2, 0, 1)[None].float() / 255
    with torch.no_grad():
        expected = network(pixels)
        made, store, backbone = training_set(network, crops, tmp_path / "f", trained_stages)
        features = made[0][0]()
        assert made[0][0]()[0].equal(features[0])  # read back
        assert (tmp_path / "f" / "0.npy").stat().st_size < store.file_bytes + 200
        network.backbone.stored = features
        output = network(torch.empty(1, 3, SIDE, SIDE))
    torch.testing.assert_close(output.heat, expected.heat, atol=2e-2, rtol=2e-2)
    assert isinstance(network.backbone, TopOfBackbone)
    join_backbone(network, backbone)
    with torch.no_grad():
        torch.testing.assert_close(network(pixels).heat, expected.heat)


def test_damaged_features_are_computed_again(start_model, crops, tmp_path):
    made, _, _ = training_set(from_pretrained(start_model), crops, tmp_path)
    expected = made[0][0]()
    for content in (b"", b"nothing", (tmp_path / "0.npy").read_bytes()[:500]):
        (tmp_path / "0.npy").write_bytes(content)
        assert made[0][0]()[0].equal(expected[0])


def test_the_size_of_all_files_is_limited(start_model, crops, tmp_path):
    backbone = separate_backbone(from_pretrained(start_model))
    store = FeatureStore(tmp_path, backbone, SIDE, 2)
    store.max_bytes = 2.5 * store.file_bytes
    first = [store.get_by_content(crop.image) for crop in crops]
    assert len(list(tmp_path.glob("*.npy"))) == 2
    again = [store.get_by_content(crop.image) for crop in crops]
    assert all(one[0].equal(two[0]) for one, two in zip(first, again, strict=True))


@pytest.mark.slow
def test_gradients_of_single_crops_add_up_to_that_of_a_batch(start_model, crops, tmp_path):
    network = from_pretrained(start_model)
    made, _, _ = training_set(network, crops[:2], tmp_path)
    nodes = sum(len(skeleton) for _, skeleton in made)
    for features, skeleton in made:
        top_training._backward(network, features(), skeleton, nodes, SIDE, 24)
    separate = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
    network.zero_grad()
    network.backbone.stored = [torch.cat(parts) for parts in zip(*(features() for features, _ in made), strict=True)]
    targets = Targets.from_skeletons([skeleton for _, skeleton in made])
    output = network(torch.empty(2, 3, SIDE, SIDE), targets, 24)
    sum(network.loss(output, targets).values()).backward()
    for name, p in network.named_parameters():
        if p.grad is not None:
            torch.testing.assert_close(separate[name], p.grad, atol=1e-3, rtol=1e-2, msg=name)


def run(start_model, crops, folder, *, steps=6, stop_after=None, validate=None, recipe=RECIPE, workers=1):
    """Train a fresh network and return it with the state; stop after some crops if requested."""
    network = from_pretrained(start_model)
    made, _, _ = training_set(network, crops, folder / "features")
    left = [stop_after]

    def should_stop() -> bool:
        if left[0] is None:
            return False
        left[0] -= 1
        return left[0] <= 0

    state = top_training.train_top(
        network,
        made,
        Schedule(len(made), steps, 2, 2, 0.0),
        recipe,
        folder,
        seed=3,
        side=SIDE,
        start_score=0.2,
        validate=validate,
        listen=ignore,
        should_stop=should_stop,
        workers=workers,
    )
    return network, state


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_ends_with_the_same_weights(start_model, crops, tmp_path, workers):
    whole, _ = run(start_model, crops, tmp_path / "whole", workers=workers)
    with pytest.raises(KeyboardInterrupt):
        run(start_model, crops, tmp_path / "parts", stop_after=7, workers=workers)
    assert checkpoint.read_run_state(tmp_path / "parts" / top_training.CHECKPOINT).step == 3
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
        def validate():
            calls.append(len(calls) + 1)
            if not scores:
                raise KeyboardInterrupt
            return {"topo_f1": scores.pop(0)}

        return validate

    calls: list[int] = []
    scores = [0.3, 0.4, 0.5]
    with pytest.raises(KeyboardInterrupt):
        run(start_model, crops, tmp_path, validate=validating(scores[: interrupted - 1], calls))
    _, state = run(start_model, crops, tmp_path, validate=validating(scores[interrupted - 1 :], calls))
    assert len(calls) == 4, "every validation was completed once"
    assert (state.step, state.best_step, state.best_score) == (6, 6, 0.5)


@pytest.mark.slow
def test_the_best_weights_are_kept_and_the_start_if_none_is_better(start_model, crops, tmp_path):
    start = from_pretrained(start_model)
    separate_backbone(start)
    scores = iter([0.5, 0.4, 0.3])
    best, state = run(start_model, crops, tmp_path / "better", validate=lambda: {"topo_f1": next(scores)})
    assert (state.best_step, state.best_score) == (2, 0.5)
    kept = checkpoint.averaged_weights(tmp_path / "better" / top_training.BEST)
    assert all((best.state_dict()[name].numpy() == array).all() for name, array in kept.items())
    assert any((start.state_dict()[name].numpy() != array).any() for name, array in kept.items())
    worse, state = run(start_model, crops, tmp_path / "worse", validate=lambda: {"topo_f1": 0.1})
    assert state.best_step == 0
    assert all(tensor.equal(start.state_dict()[name]) for name, tensor in worse.state_dict().items())


@pytest.mark.slow
def test_a_crop_has_the_same_gradient_in_every_worker(start_model, crops, tmp_path):
    gradients = []
    for workers in (1, 2):
        network = from_pretrained(start_model)
        made, _, _ = training_set(network, crops, tmp_path)
        replicas = Replicas(network, Workers(workers))
        loss = top_training.step_gradient(replicas, made, SIDE, 24, never)
        gradients.append((loss, {name: p.grad for name, p in network.named_parameters() if p.grad is not None}))
    (one, separate), (two, shared) = gradients
    assert one == pytest.approx(two, rel=1e-5)
    assert separate.keys() == shared.keys()
    for name, gradient in separate.items():
        torch.testing.assert_close(gradient, shared[name], atol=1e-4, rtol=1e-3, msg=name)


@pytest.mark.slow
def test_later_weights_are_kept_unless_they_are_clearly_worse(start_model, crops, tmp_path):
    scores = iter([0.5, 0.49, 0.4])
    _, state = run(start_model, crops, tmp_path, validate=lambda: {"topo_f1": next(scores)})
    assert (state.best_step, state.best_score) == (4, 0.5)


@pytest.mark.slow
def test_training_stops_when_it_no_longer_improves(start_model, crops, tmp_path):
    _, state = run(start_model, crops, tmp_path, steps=40, validate=lambda: {"topo_f1": 0.1})
    assert 20 < state.step < 30


@pytest.mark.slow
def test_training_that_is_late_ends_with_a_validation(start_model, crops, tmp_path):
    network = from_pretrained(start_model)
    made, _, _ = training_set(network, crops, tmp_path / "f")
    options = {"seed": 0, "side": SIDE, "start_score": 0.0, "listen": ignore, "should_stop": never}
    state = top_training.train_top(
        network,
        made,
        Schedule(4, 50, 2, 20, 0.0),
        RECIPE,
        tmp_path,
        validate=lambda: {"topo_f1": 0.5},
        is_late=lambda: True,
        **options,
    )
    assert (state.step, state.best_step) == (1, 1)


@pytest.mark.slow
def test_training_lowers_the_loss_and_changes_only_what_it_should(start_model, crops, tmp_path):
    losses: list[float] = []
    network = from_pretrained(start_model)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    made, _, backbone = training_set(network, crops[:2], tmp_path / "f")
    recipe = top_training.Recipe(3e-3, neck_factor=0.0, max_tokens=24)
    schedule = Schedule(2, 24, 2, 24, 0.0)
    options = {"seed": 0, "side": SIDE, "start_score": 0.0, "validate": None, "should_stop": never}
    top_training.train_top(
        network,
        made,
        schedule,
        recipe,
        tmp_path,
        listen=lambda report: losses.append(report.figures.get("loss", 0)),
        **options,
    )
    assert losses[-1] < 0.8 * losses[0]
    join_backbone(network, backbone)
    changed = {name.split(".")[0] for name, tensor in network.state_dict().items() if not tensor.equal(before[name])}
    assert "decoder" in changed
    assert not changed & {"backbone", "neck"}


def test_every_crop_is_used_before_any_is_used_again():
    order = [index for step in range(6) for index in top_training.crop_order(step, 2, 4, seed=1)]
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
    stored = predict_images(Predictor(folder, engine=LiveEngine(network, folder, store)), images)
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
