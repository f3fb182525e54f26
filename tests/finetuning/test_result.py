"""Estimates of the time after training, and the rule for the 8-bit graph."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treeformer.finetuning.annotated import survey
from treeformer.finetuning.result import Loss, int8_loss, rehearse_export
from treeformer.finetuning.run import RESERVE, ExportBudget


@pytest.mark.parametrize("count", [2, 3, 16])
def test_a_rehearsal_with_two_images_foretells_an_export_with_more(count):
    now = [0.0]

    def images(number):
        for _ in range(number):
            now[0] += 0.5
            yield np.zeros((4, 4, 3), np.uint8)

    def write(some):
        now[0] += 7.0
        for number, _ in enumerate(some):
            now[0] += 2.0 if number else 5.0
        now[0] += 1.0

    write(images(count))
    expected = now[0]
    assert rehearse_export(write, images(count), count, lambda: now[0]) == expected
    assert rehearse_export(lambda _: None, images(count), count, lambda: now[0]) == 0.0


def test_the_ending_counts_every_prediction():
    budget = ExportBudget(export=30.0, prediction=2.0, validated=2, judged=16, views=8)
    assert budget.seconds(validation=10.0) == RESERVE * (30 + 2 * (16 + 3 * 2) + 10 * 16 / 8)


@pytest.mark.parametrize(
    ("mean", "error", "too_large"),
    [
        (0.04, 0.02, False),  # may be chance
        (0.04, 0.01, True),
        (0.009, 0.0, False),
        (0.06, 0.03, True),  # too much, even if it may be chance
        (0.04, math.inf, False),  # one image
        (0.06, math.inf, True),
        (-0.1, 0.01, False),
    ],
)
def test_the_eight_bit_graph_is_left_out_if_its_loss_is_no_chance(mean, error, too_large):
    assert Loss(mean, error).is_too_large == too_large


def test_views_of_one_annotation_count_once(drawings):
    images = survey(drawings).images[:4]
    exact = [image.skeleton for image in images]
    rounded = [*exact[:3], exact[3].replace(nodes=exact[3].nodes * 0.1)]
    separate = int8_loss(exact, rounded, images, [0, 1, 2, 3])
    grouped = int8_loss(exact, rounded, images, [0, 0, 0, 1])
    assert separate.mean == pytest.approx(grouped.mean / 2)
    assert separate.error == pytest.approx(separate.mean)
    assert grouped.error == pytest.approx(grouped.mean)
    assert int8_loss(exact, exact, images, [0, 1, 2, 3]) == (0.0, 0.0)
    assert int8_loss(exact, rounded, images, [0, 0, 0, 0]).error == math.inf
