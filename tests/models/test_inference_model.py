"""The network with its first steps of decoding: candidates, tokens at hot peaks, groups of images."""

from __future__ import annotations

import pytest
import torch

from tests.models.untrained import THRESHOLDS, drawn_and_painted, network
from treeformer.models import InferenceModel, inference_model
from treeformer.nn.heat_map import peaks

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def images():
    return drawn_and_painted(4)


def test_groups_change_only_the_padding(images, monkeypatch):
    monkeypatch.setattr(inference_model, "GROUP_SIZE", 2)
    model = InferenceModel(network(), THRESHOLDS["candidate_threshold"], THRESHOLDS["min_peak_heat"])
    three = torch.from_numpy(images[[0, 1, 2]])
    with torch.inference_mode():
        together, groups = model(three), model.predict_in_groups(three)
    count = (together[0] > 0).sum(1).tolist()
    assert sorted(row for rows, _ in groups for row in rows) == [0, 1, 2]
    assert len({candidates[0].shape[1] for _, candidates in groups}) == 2
    for rows, candidates in groups:
        for index, row in enumerate(rows):
            own, squared = slice(count[row]), (slice(count[row]),) * 2
            valid = own, own, squared, own, own, own, slice(None)
            for whole, part, kept in zip(together, candidates, valid, strict=True):
                atol = 1 if whole.dtype == torch.uint8 else 1e-4
                torch.testing.assert_close(whole[row][kept], part[index][kept], atol=atol, rtol=1e-4)


def test_each_hot_peak_gets_a_token_and_the_batch_changes_nothing(images):
    heat = THRESHOLDS["min_peak_heat"]
    model, pixels = network(), torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    with torch.inference_mode():
        unlimited = model.detect(pixels)
        _, peak_heat = peaks(unlimited.features.heat, model.config.tokens)
        together = model.detect(pixels, min_peak_heat=heat)
        alone = [model.detect(image[None], min_peak_heat=heat) for image in pixels]
    counts = (peak_heat >= heat).sum(1).tolist()
    assert len(set(counts)) > 2
    assert together.active.shape[1] == max(counts)
    assert together.active.sum(1).tolist() == counts
    for row, (single, count) in enumerate(zip(alone, counts, strict=True)):
        assert single.active.shape == (1, count)
        torch.testing.assert_close(single.decoded.tokens[0], together.decoded.tokens[row, :count], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(single.decoded.relation[0], together.decoded.relation[row], atol=1e-4, rtol=1e-4)
        score = InferenceModel(model, 0.0, heat).detect(torch.from_numpy(images))[1]
        assert not score[row, count:].any()


def test_without_a_hot_peak_there_are_no_nodes(images):
    model = InferenceModel(network(), 0.0, 0.9)
    with torch.inference_mode():
        score, *others = model(torch.from_numpy(images[:2]))
    assert score.shape == (2, 2)
    assert not score.any()
    assert all(tensor.isfinite().all() for tensor in others)
