"""The comparison of backbones: its sources exist in the configuration, and its table states paired differences."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks import backbones
from treeformer.models import TreeFormerConfig
from treeformer.training.config import load_config


@pytest.mark.parametrize("name", backbones.ARMS)
def test_each_network_is_trained_on_the_same_images_without_real_or_modeled_wood(name):
    args = argparse.Namespace(resnet=Path("r"), tinyvit=Path("t"), arms=list(backbones.ARMS), set=[])
    values = [value for value in backbones.overrides(args, name) if not value.startswith("data.valid")]
    config = load_config("configs/default.yaml", [*values, f"data.valid=[{backbones.SETS['guyot'] % 0}]"])
    used = {source.path for source in config.data.train} - set(config.data.exclude)
    assert not [path for path in used if "blender" in path or "guyot" in path]
    assert {"data/osr-roots", "data/barley-roots", "data/rendered/orchard-row", ""} <= used
    settings = TreeFormerConfig.default(**config.model_options)
    assert (settings.backbone, settings.frozen_stages) == {
        "resnet": ("resnet", 1), "tinyvit-frozen": ("tinyvit", 4), "tinyvit": ("tinyvit", 1),
    }[name]  # fmt: skip
    assert Path(config.backbone_weights) == Path("r" if name == "resnet" else "t")


def test_the_table_has_speed_figures_and_paired_differences(tmp_path):
    names = ("topo_paper", "topo")
    for arm, recall in (("resnet", 0.5), ("tinyvit", 1.0)):
        row = {f"{name}_{part}": value for name in names for part, value in (("precision", 1.0), ("recall", recall))}
        row |= {f"{name}_f1": 0.0 for name in names}
        result = {"steps": 20, "images": 1280, "training_minutes": 2.0, "images_per_s": 10.7}
        result["rows"] = {title: [row, row] for title in backbones.SETS}
        (tmp_path / f"{arm}.json").write_text(json.dumps(result))
    lines = backbones.table(tmp_path).splitlines()
    assert "| tinyvit | 20 | 1280 | 11 | 2.00 |" in lines
    assert "| guyot | 2 | 0.667 / 0.667 | 1.000 / 1.000 (+0.333, +0.333 to +0.333) |" in lines
