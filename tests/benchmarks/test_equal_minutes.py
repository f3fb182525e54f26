"""Comparisons at equal minutes: the sources of their runs, and the paired differences of their table."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks import equal_minutes
from treeformer.models import TreeFormerConfig
from treeformer.training.config import load_config


def arguments(output=Path(), **options):
    return argparse.Namespace(
        **{"resnet": Path("r"), "tinyvit": Path("t"), "arms": ["a", "b", "c"], "set": [], "output": output}
        | {"compare": "backbones", "backbone": "resnet"}
        | options
    )


@pytest.mark.parametrize("name", equal_minutes.BACKBONES)
def test_each_network_is_trained_on_the_same_images_without_real_or_modeled_wood(name):
    values = [value for value in equal_minutes.overrides(arguments(), name) if not value.startswith("data.valid")]
    config = load_config("configs/default.yaml", [*values, f"data.valid=[{equal_minutes.SETS['guyot'] % 0}]"])
    used = {source.path for source in config.data.train} - set(config.data.exclude)
    assert not [path for path in used if "blender" in path or "guyot" in path]
    assert {"data/osr-roots", "data/barley-roots", "data/rendered/orchard-row", ""} <= used
    settings = TreeFormerConfig.default(**config.model_options)
    assert (settings.backbone, settings.frozen_stages) == {
        "resnet": ("resnet", 1), "tinyvit-frozen": ("tinyvit", 4), "tinyvit": ("tinyvit", 1),
    }[name]  # fmt: skip
    assert Path(config.backbone_weights) == Path("r" if name == "resnet" else "t")


@pytest.mark.parametrize("backbone", ["resnet", "tinyvit"])
def test_mixtures_add_composites_and_negatives_to_the_same_images(backbone):
    args = arguments(compare="data", backbone=backbone)
    found = {}
    for name in equal_minutes.arms_of(args):
        values = [value for value in equal_minutes.overrides(args, name) if not value.startswith("data.valid")]
        config = load_config("configs/default.yaml", [*values, f"data.valid=[{equal_minutes.SETS['guyot'] % 0}]"])
        found[name] = [source for source in config.data.train if source.path not in config.data.exclude]
        assert config.seed == int(name[-1])
        assert config.model_options.get("backbone", "resnet") == backbone
    plain, composites, negatives = (found[f"{name}-0"] for name in ("mixture", "composites", "negatives"))
    assert composites[: len(plain)] == plain
    assert {source.path for source in composites[len(plain) :]} == {
        f"data/composites/{preset}" for preset in ("vine", "orchard", "orchard-row", "vineyard")
    }
    assert negatives[: len(composites)] == composites
    assert {source.path for source in negatives[len(composites) :]} == {
        "data/rendered/cluttered-plate", "data/backgrounds",
    }  # fmt: skip
    assert found["negatives-1"] == negatives


def test_the_table_has_speed_figures_and_paired_differences(tmp_path):
    names = ("topo_paper", "topo")
    for arm, recall in (("resnet", 0.5), ("tinyvit", 1.0)):
        row = {f"{name}_{part}": value for name in names for part, value in (("precision", 1.0), ("recall", recall))}
        row |= {f"{name}_f1": 0.0 for name in names}
        result = {"steps": 20, "images": 1280, "training_minutes": 2.0, "images_per_s": 10.7}
        result["rows"] = {title: [row, row] for title in equal_minutes.SETS}
        (tmp_path / f"{arm}.json").write_text(json.dumps(result))
    lines = equal_minutes.table(arguments(tmp_path)).splitlines()
    assert "| tinyvit | 20 | 1280 | 11 | 2.00 |" in lines
    assert "| guyot | 2 | 0.667 / 0.667 | 1.000 / 1.000 (+0.333, +0.333 to +0.333) |" in lines
