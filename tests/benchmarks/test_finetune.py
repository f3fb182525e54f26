"""The fine-tuning benchmark: node density, and a table that can be continued."""

from __future__ import annotations

import numpy as np

from benchmarks import finetune
from treeformer import synthetic


def test_density_counts_nodes_and_views_above_a_limit():
    row = finetune.density("seedling", 3, [10_000, 1]).strip("| ").split(" | ")
    seeds = synthetic.SPLITS["train"][6000:6003]
    nodes = [len(synthetic.generate("seedling", seed).sample_at_grid_crossings(44)) for seed in seeds]
    assert row[:4] == ["seedling", "3", f"{np.mean(nodes):.0f}", f"{max(nodes)}"]
    assert row[4:6] == ["1.00", "1.00"]
    assert row[6] == "0%"
    assert 0.5 <= float(row[7]) <= 1.5  # the range of the augmentation
    assert row[8] == "100%"


def test_rows_are_appended_and_recognized(tmp_path):
    path = tmp_path / "table.csv"
    assert finetune.keys(path) == set()
    row = dict.fromkeys(finetune.FIELDS, "1")
    for variant in ("base", "other"):
        finetune.append(path, {**row, "variant": variant})
    assert finetune.keys(path) == {("1", "1", "base", "1", "1"), ("1", "1", "other", "1", "1")}
    assert [one["variant"] for one in finetune.read_rows(path)] == ["base", "other"]


def test_every_factor_has_a_name_of_its_own_and_one_change():
    names = [variant.name for variant in finetune.FACTORS]
    assert len(set(names)) == len(names)
    for variant in finetune.FACTORS[1:]:
        fields = [name for name in vars(variant) if name != "name"]
        changed = [name for name in fields if getattr(variant, name) != getattr(finetune.BASE, name)]
        assert len(changed) == 1, variant.name
