"""The fine-tuning benchmark: node density, and a table that can be continued."""

from __future__ import annotations

import numpy as np
from benchmarks.finetune import table
from benchmarks.finetune.__main__ import main
from benchmarks.finetune.density import density
from benchmarks.finetune.variants import BASE, FACTORS

from treeformer import synthetic


def test_density_counts_nodes_and_views_above_a_limit():
    row = density("seedling", 3, [10_000, 1]).strip("| ").split(" | ")
    seeds = synthetic.SPLITS["train"][6000:6003]
    nodes = [len(synthetic.generate("seedling", seed).sample_at_grid_crossings(44)) for seed in seeds]
    assert row[:4] == ["seedling", "3", f"{np.mean(nodes):.0f}", f"{max(nodes)}"]
    assert row[4:6] == ["1.00", "1.00"]
    assert row[6] == "0%"
    assert 0.5 <= float(row[7]) <= 1.5  # the range of the augmentation
    assert row[8] == "100%"


def test_rows_are_appended_and_recognized(tmp_path):
    path = tmp_path / "table.csv"
    assert table.keys(path) == set()
    row = dict.fromkeys(table.FIELDS, "1")
    for variant in ("base", "other"):
        table.append(path, {**row, "variant": variant})
    assert table.keys(path) == {("1", "1", "base", "1", "1"), ("1", "1", "other", "1", "1")}
    assert [one["variant"] for one in table.read_rows(path)] == ["base", "other"]


def test_every_factor_has_a_name_of_its_own_and_one_change():
    names = [variant.name for variant in FACTORS]
    assert len(set(names)) == len(names)
    for variant in FACTORS[1:]:
        fields = [name for name in vars(variant) if name != "name"]
        changed = [name for name in fields if getattr(variant, name) != getattr(BASE, name)]
        assert len(changed) == 1, variant.name


def test_the_table_is_shown_as_markdown(capsys, monkeypatch, tmp_path):
    path = tmp_path / "table.csv"
    table.append(path, dict.fromkeys(table.FIELDS, "7"))
    monkeypatch.setattr("sys.argv", ["finetune", "show", str(path)])
    main()
    assert capsys.readouterr().out.count("| 7 ") == len(table.FIELDS)
