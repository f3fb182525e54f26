"""Fitting the attribute head: the regression, and a run on a small model."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from benchmarks.fit_attributes import NormalEquations, Rows, fit, with_head

from benchmarks import fit_attributes
from treeformer.hub import safetensors
from treeformer.models import TreeFormer, TreeFormerConfig


def random_rows(count: int, width: int = 5) -> tuple[list[Rows], np.ndarray, np.ndarray]:
    """Return images of nine nodes whose attributes are linear in the features; a third of the radii is unknown."""
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(3, width)), rng.normal(size=3)
    rows = []
    for _ in range(count):
        features = rng.normal(size=(9, width))
        targets = features @ weight.T + bias
        targets[::3, 0] = np.nan
        rows.append(Rows(features, targets))
    return rows, weight, bias


def test_exact_linear_attributes_are_found():
    rows, weight, bias = random_rows(20)
    found_weight, found_bias, penalties = fit(rows)
    np.testing.assert_allclose(found_weight, weight, atol=1e-3)
    np.testing.assert_allclose(found_bias, bias, atol=1e-3)
    assert penalties == [min(fit_attributes.PENALTIES)] * 3


@pytest.mark.parametrize("penalty", [1e-3, 10.0])
def test_the_solution_minimizes_the_penalized_error(penalty):
    """Compared with least squares on rows to which the penalty is appended as further rows."""
    rows, _, _ = random_rows(4)
    noise = np.random.default_rng(1)
    rows = [Rows(row.features, row.targets + noise.normal(size=row.targets.shape)) for row in rows]
    equations = NormalEquations(5)
    for row in rows:
        equations.add(row)
    weight, bias = equations.solve(penalty)
    features, targets = (np.concatenate(parts) for parts in zip(*((r.features, r.targets) for r in rows), strict=True))
    for output in range(3):
        known = np.isfinite(targets[:, output])
        extended = np.pad(features[known], ((0, 0), (0, 1)), constant_values=1.0)
        strength = np.sqrt(penalty * (features[known] ** 2).sum() / 5)
        system = np.vstack([extended, strength * np.eye(5, 6)])
        expected = np.linalg.lstsq(system, np.append(targets[known, output], np.zeros(5)), rcond=None)[0]
        np.testing.assert_allclose([*weight[output], bias[output]], expected, atol=1e-9)


@pytest.mark.slow
def test_only_the_head_changes(tmp_path, monkeypatch, capsys, one_thread):
    torch.manual_seed(0)
    old = TreeFormer(TreeFormerConfig.tiny(tokens=48, node_attributes=False)).eval()
    monkeypatch.setattr(fit_attributes, "from_pretrained", lambda _name: old)
    monkeypatch.setattr(fit_attributes, "MIN_PEAK_HEAT", 0.0)
    monkeypatch.setattr(fit_attributes, "MAX_DISTANCE_PX", 60.0)
    out = tmp_path / "fitted.safetensors"
    arguments = [
        "--model",
        "old",
        "--presets",
        "taproot",
        "--images",
        "6",
        "--valid",
        "2",
        "--size",
        "64",
        "-o",
        str(out),
    ]
    monkeypatch.setattr(sys, "argv", ["fit_attributes", *arguments])
    fit_attributes.main()
    weights, (_, metadata) = safetensors.read(out), safetensors.read_header(out)
    assert metadata["start_from"] == "old"
    assert json.loads(metadata["config"])["node_attributes"]
    for name, tensor in old.state_dict().items():
        np.testing.assert_array_equal(weights[name], tensor.numpy(), err_msg=name)
    assert weights.keys() - old.state_dict().keys() == {"attribute_head.weight", "attribute_head.bias"}
    assert np.abs(weights["attribute_head.weight"]).max() > 0
    assert "| taproot | photo |" in capsys.readouterr().out


def test_a_head_is_added_once():
    model = TreeFormer(TreeFormerConfig.tiny(tokens=8))
    weight, bias = np.arange(3 * 64.0).reshape(3, 64), np.arange(3.0)
    fitted = with_head(with_head(model, weight, bias), 2 * weight, bias)
    np.testing.assert_array_equal(fitted.attribute_head.weight.detach(), 2 * weight)
