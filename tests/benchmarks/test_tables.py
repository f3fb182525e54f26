"""The tables: a consistent spec, equal compute, and one table built from synthetic results."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.tables import results
from benchmarks.tables.__main__ import main
from benchmarks.tables.build import build, published, refusals
from benchmarks.tables.domains import DOMAINS
from benchmarks.tables.recipes import INGREDIENTS, RECIPES, REHEARSAL, RERUNS, Run, edge_weight_total, run_named
from benchmarks.tables.show import markdown, write_markdown
from benchmarks.tables.spec import IMAGES_SEEN, TABLES, all_runs

from tests.benchmarks.factories import result, row
from treeformer._util.config import build as build_settings
from treeformer.data.mixture import EvalDataset
from treeformer.errors import TreeformerError
from treeformer.training.registry import MODELS

SFS, PLAIN = Run("synthetic", "sfs", 0), Run("synthetic", "plain", 0)
PAGE = Path(__file__).parents[2] / "docs" / "lab" / "results.md"


# ---- the spec


def test_a_domain_with_its_own_seeds_replaces_those_of_the_table():
    ours = next(one for one in TABLES["table1"].rows if one.name == "ours")
    assert [run.seed for run in TABLES["table1"].runs_for("osr-roots", ours)] == [0, 1]
    assert [run.seed for run in TABLES["table1"].runs_for("grapevine", ours)] == [0]
    table1 = set(TABLES["table1"].runs_of("grapevine"))
    assert set(TABLES["lambda"].runs_of("grapevine")) & table1, "Λ = 10 is the row ours of table1"
    assert set(TABLES["mst-dijkstra"].runs_of("grapevine")) < table1


def test_a_set_is_found_in_the_folder_of_its_publisher(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.tables.domains.SOURCES", tmp_path)
    grapevine = DOMAINS["grapevine"]
    assert grapevine.missing(tmp_path / "data") == "the set guyot-vines is not in the folder given by TREEFORMER_DATA"
    (tmp_path / "guyot-vines").mkdir()
    assert not grapevine.missing(tmp_path / "data")


def test_every_row_uses_a_decoding_of_its_recipe():
    for table in TABLES.values():
        assert len({row.name for row in table.rows}) == len(table.rows)
        assert set(table.domains) <= DOMAINS.keys()
        for one in table.rows:
            assert one.decoding in RECIPES[one.recipe].decodings, (table.name, one.name)


def test_rows_that_share_weights_are_trained_once():
    shared = {row.name: row.recipe for row in TABLES["table1"].rows}
    assert shared["unconstrained"] == shared["test-time"]
    assert shared["train-time"] == shared["ours"]
    assert set(TABLES["train-time"].runs()) < set(TABLES["table1"].runs())
    two_stage = {row.name: row.recipe for row in TABLES["vinet"].rows}
    assert two_stage["fpn"] == two_stage["dijkstra"]
    assert Run("osr-roots", "sfs", 0) in TABLES["lambda"].runs()
    assert len(all_runs()) == len(set(all_runs()))


def test_losses_are_compared_with_runs_trained_together():
    """Runs that share the GPU affect how many images a run sees in its time."""
    for name in ("losses", "lambda", "distance-cost"):
        table = TABLES[name]
        for domain in table.domains:
            runs = table.runs_of(domain)
            assert (Run(domain, "sfs-rerun", 0) in runs) == (domain in table.rerun_domains)
            assert (Run(domain, "sfs", 0) in runs) == (domain not in table.rerun_domains)
    assert TABLES["losses"].rerun_domains == TABLES["losses"].domains
    for name, rerun in RERUNS.items():
        first, second = (Run("synthetic", one, 0).config(Path("data")) for one in (name, rerun))
        assert replace(second, name=first.name, validate_every=first.validate_every) == first
        assert second.validate_every == second.steps > first.validate_every


def test_names_of_runs_are_parsed():
    assert [run_named(run.name) for run in all_runs()] == all_runs()
    for wrong in ("synthetic-sfs", "synthetic-sfs-seed", "moon-sfs-seed0", "synthetic-sfs-seed-1", ""):
        with pytest.raises(TreeformerError, match="there is no run"):
            run_named(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("run", [run for run in all_runs() if run.seed == 0], ids=lambda run: run.name)
def test_the_configuration_of_every_run_is_valid_for_its_model(run):
    config = run.config(Path("data"), backbone="weights/resnet.safetensors")
    assert config.patience_epochs == 0, "runs end by time"
    assert config.data.train[0].split == "train"
    assert config.data.valid[0].split == "valid"
    test = run.test_images(config)
    assert test.valid[0].split == "test"
    assert test.valid[0].augmentation == "none"
    assert test.valid[0].grid_px == config.data.train[0].grid_px
    if config.model not in MODELS:
        pytest.skip(f"no model {config.model}")
    settings = MODELS[config.model].settings()
    built = build_settings(type(settings), asdict(settings) | config.model_options, "model_options")
    if hasattr(built, "tokens"):
        assert config.data.max_nodes <= built.tokens
    for decoding in RECIPES[run.recipe].decodings.values():
        replace(built, **decoding)
    if hasattr(built, "edge_term_weights"):
        assert edge_weight_total(config) == built.edge_weight * sum(built.edge_term_weights) == 2.0


def test_all_rows_of_a_domain_have_the_same_images_and_batch_size():
    for table in TABLES.values():
        for domain in table.domains:
            configs = [table.run_of(domain, row, 0).config(Path("data")) for row in table.rows]
            for config in configs[1:]:
                assert config.data == configs[0].data
                assert config.optimizer == configs[0].optimizer
                assert config.batch_size == configs[0].batch_size


def test_the_papers_figures_load_and_are_consistent():
    tables = published()
    not_in_the_paper = {"ingredients", "losses", "mst-dijkstra", "regimes"}
    assert tables.keys() == TABLES.keys() - not_in_the_paper
    assert tables["table1"]["synthetic"]["ours"]["smd_paper"] == 4.78e-6
    assert tables["train-time"]["root"] == tables["table1"]["root"]
    for name, table in tables.items():
        rows = {row.name for row in TABLES["table1" if name in ("train-time", "sfs") else name].rows}
        for domain, of_domain in table.items():
            if domain == "source":
                continue
            assert domain in {one.paper for one in DOMAINS.values()}
            assert of_domain.keys() <= rows, name
            for figures in of_domain.values():
                assert figures.keys() <= {column.metric for column in TABLES[name].columns}
                if "topo_paper_f1" in figures:
                    precision, recall = figures["topo_paper_precision"], figures["topo_paper_recall"]
                    f1 = 2 * precision * recall / (precision + recall)
                    assert figures["topo_paper_f1"] == pytest.approx(f1, abs=0.0015)


# ---- a table


def many(**changes) -> dict[str, results.Result]:
    """Return one result per run of table1 on the synthetic domain; `changes` by name of a run, with _ for -."""
    runs = [run for run in TABLES["table1"].runs() if run.domain == "synthetic"]
    rows = [row(0.9, 0.6), row(0.7, 0.4, tree=0.0)]
    return {run.name: result(run, rows, **changes.get(run.name.replace("-", "_"), {})) for run in runs}


def block(found: dict[str, results.Result]):
    return build(TABLES["table1"], found).blocks[0]


def test_figures_are_means_over_images_and_f1_is_of_the_means():
    found = many()
    second = Run("synthetic", "sfs", 1)
    found[second.name] = result(second, [row(1.0, 1.0), row(1.0, 1.0)])
    ours = {one.title: one for one in block(found).rows}["ours (SFS and spanning tree)"]
    precision, recall = (0.9 + 0.7 + 1 + 1) / 4, (0.6 + 0.4 + 1 + 1) / 4
    assert ours.figures["topo_precision"].value == pytest.approx(precision)
    assert ours.figures["topo_f1"].value == pytest.approx(2 * precision * recall / (precision + recall))
    assert ours.figures["tree_rate"].value == pytest.approx(0.75)
    assert ours.by_run[Run("synthetic", "sfs", 1)]["topo_f1"] == 1.0
    assert ours.by_run[Run("synthetic", "sfs", 0)]["topo_f1"] == pytest.approx(2 * 0.8 * 0.5 / 1.3)
    assert not ours.missing
    text = markdown(build(TABLES["table1"], found))
    prose = " ".join(text.split())
    line = next(line for line in text.splitlines() if line.startswith("| ours"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[8].startswith(f"{2 * precision * recall / (precision + recall):.3f} ± ")
    assert cells[-2] == "0.615 / 1.000"
    assert cells[-1] == "4.78e-06, 0.986 / 0.968 / 0.977, 100.0 %"
    assert "4 minutes of training per row on one NVIDIA H200" in prose
    assert "total weight of the edge losses 2;" in prose
    assert "resnet50.safetensors 0123" in prose


@pytest.mark.slow
def test_rows_without_a_result_show_dashes_and_are_listed():
    built = build(TABLES["table1"], {SFS.name: result(SFS, [row()])})
    lines = markdown(built).splitlines()
    assert next(line for line in lines if line.startswith("| two-stage")).count("—") == 16
    assert any("synthetic-two-stage-seed0 has not been run" in line for line in built.missing)
    assert any(line.startswith("osr-roots, all rows") for line in built.missing)
    ours = next(one for one in built.blocks[0].rows if one.title.startswith("ours"))
    assert ours.figures
    assert ours.missing == "synthetic-sfs-seed1 has not been run", "one of two seeds is shown"
    assert "guyot-vines" in built.blocks[3].facts
    for table in TABLES.values():
        assert markdown(build(table, {})), "without any result"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"minutes": 6.0, "trained_minutes": 6.001}, "minutes 6.0 instead of 4.0"),
        ({"trained_minutes": 3.2}, "trained 3.20 of 4 minutes"),
        ({"trained_minutes": 4.5}, "trained 4.50 of 4 minutes"),
        ({"machine": {"device": "NVIDIA A100"}}, "GPU NVIDIA A100 instead of NVIDIA H200"),
        ({"machine": {"device": "NVIDIA H200", "parallel": 3}}, "parallel runs 3 instead of 1"),
        ({"backbone": ""}, "backbone weights none instead of resnet50"),
        ({"edge_weight_total": 1.0}, "total weight of edge losses 1.0 instead of 2.0"),
    ],
)
def test_unequal_compute_is_rejected(changes, reason):
    found = many(synthetic_plain_seed0=changes)
    assert list(refusals(found)) == [PLAIN.name]
    assert reason in refusals(found)[PLAIN.name]
    rows = {one.title: one for one in block(found).rows}
    assert [run.seed for run in rows["unconstrained"].by_run] == [1]
    assert reason in rows["unconstrained"].missing
    assert not rows["ours (SFS and spanning tree)"].missing
    assert refusals(many()) == {}
    assert refusals({}) == {}


def test_other_training_images_are_rejected():
    other = result(PLAIN, [row()]).config
    other["data"]["train"][0]["presets"] = ["vine"]
    assert "training images" in refusals(many(synthetic_plain_seed0={"config": other}))[PLAIN.name]


# ---- losses of the whole tree


def test_rows_of_the_losses_table_differ_only_in_the_loss():
    rows = {one.name: RECIPES[one.recipe] for one in TABLES["losses"].rows}
    for name in ("likelihood", "hinge"):
        assert rows[name].options == rows["sfs"].options | {"tree_loss": name}
    assert rows["sfs"] is RECIPES["sfs"]
    assert rows["pairs"] is RECIPES["plain"]
    for one in TABLES["losses"].rows:
        recipe = RECIPES[one.recipe]
        decoded = MODELS["default"].settings(**(dict(recipe.options) | dict(recipe.decodings[one.decoding])))
        assert decoded.constrained_at_inference, one.name


# ---- ablation


def test_ablations_differ_from_the_full_model_in_the_stated_setting():
    table = TABLES["ingredients"]
    full = RECIPES["sfs"]
    rows = {one.name: one for one in table.rows}
    assert [run.seed for run in table.runs()] == [0] * (len(rows) - 1) + [1]
    for name, (title, changes) in INGREDIENTS.items():
        recipe, settings = RECIPES[rows[name].recipe], MODELS["default"].settings()
        assert recipe.options == full.options | changes
        assert rows[name].title == title
        for key, value in changes.items():
            assert getattr(settings, key) != value, "this is already the default"


@pytest.mark.slow
def test_small_drawings_are_small_in_training_and_test():
    run = Run("small-drawings", "sfs", 0)
    config = run.config(Path("data"))
    assert (config.data.image_size, config.batch_size) == (256, 64)
    assert config.validate_every == config.steps, "only at the end"
    assert run.config(Path("data"), scale=REHEARSAL).data.image_size == 64
    assert SFS.config(Path("data")).data.image_size == 512
    test = run.test_images(config)
    images = EvalDataset(test.valid, test)
    assert len(images) == 400
    everything = EvalDataset((replace(test.valid[0], images=(), count=20),), replace(test, max_nodes=1000))
    sizes = [len(everything[index][0].skeleton) for index in range(20)]
    small = [index for index, size in enumerate(sizes) if size <= 64]
    assert 0 < len(small) < 20
    assert list(test.valid[0].images[: len(small)]) == small
    assert test.valid[0].images[len(small)] >= 20


def test_the_ablation_table_shows_images_seen_and_no_figures_of_the_paper():
    table = TABLES["ingredients"]
    rows = [row(0.9, 0.6), row(0.7, 0.4)]
    parallel = {"machine": {"device": "NVIDIA H200", "torch": "2.11.0", "parallel": 3}}
    found = {run.name: result(run, rows, images=31_000 + run.seed, **parallel) for run in table.runs()}
    text = markdown(build(table, found))
    assert "Missing" not in text
    assert "paper (" not in text
    assert "· paper" not in text
    assert "3 parallel runs on it; 31,000 to 31,001 training images seen" in " ".join(text.split())
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    assert lines[0][-4:-1] == ["node F1", "edge F1", "training images seen"]
    assert {len(line) for line in lines} == {len(lines[0])}
    by_title = {line[0]: line for line in lines}
    assert by_title["full"][-4].startswith("0.615 ± ")
    assert by_title["full"][-2:] == ["31,000", "—"]
    assert by_title["full (another seed)"][-2:] == ["31,001", "+0.000 ± 0.000, +0.000 ± 0.000"]


def test_rows_are_compared_with_the_reference_paired_by_image():
    table = TABLES["losses"]
    sfs, plain = (
        {run.recipe: run for run in table.runs_of("synthetic")}[name] for name in ("sfs-rerun", "plain-rerun")
    )
    hard_and_easy = [row(0.2, 0.2), row(0.9, 0.9), row(0.5, 0.5), row(0.7, 0.7)]
    lower = [row(one["topo_precision"] - 0.1, one["topo_recall"] - 0.1) for one in hard_and_easy]
    found = {plain.name: result(plain, hard_and_easy), sfs.name: result(sfs, lower)}
    by_title = {one.title: one for one in build(table, found).blocks[0].rows}
    assert not by_title["none (pair loss doubled)"].against
    against = by_title["SFS (ours)"].against["topo_f1"]
    assert (against.value, against.low, against.high) == pytest.approx((-0.1, -0.1, -0.1))
    assert "| −0.100 ± 0.000, −0.100 ± 0.000 |" in markdown(build(table, found))
    # Rows with different numbers of seeds are not compared.
    two = build(TABLES["table1"], many() | {"synthetic-sfs-seed1": result(Run("synthetic", "sfs", 1), lower)})
    assert not {one.title: one for one in two.blocks[0].rows}["unconstrained"].against


def test_a_pooled_row_is_the_mean_of_all_runs_and_only_runs_trained_together_must_match():
    def found(parallel):
        """Return four runs per row; the reruns shared their machine with others."""
        made = {}
        for recipe, precision in (("plain", 0.4), ("sfs", 0.6)):
            for name, more, others in ((recipe, 0.0, 1), (f"{recipe}-rerun", 0.2, 8)):
                for seed in (0, 1):
                    run = Run("synthetic", name, seed)
                    machine = {"device": "NVIDIA H200", "parallel": parallel.get(run.name, others)}
                    made[run.name] = result(
                        run, [row(precision + more, 0.5), row(precision + more, 0.5)], machine=machine
                    )
        return made

    table = TABLES["sfs"]
    alone, ours = build(table, found({})).blocks[0].rows
    assert (alone.missing, ours.missing) == ("", "")
    assert alone.figures["topo_precision"].value == pytest.approx(0.5)
    assert ours.figures["topo_precision"].value == pytest.approx(0.7)
    assert ours.against["topo_precision"].value == pytest.approx(0.2)
    assert [(run.recipe, run.seed) for run in ours.by_run] == [
        ("sfs", 0), ("sfs", 1), ("sfs-rerun", 0), ("sfs-rerun", 1)
    ]  # fmt: skip
    _, ours = build(table, found({"synthetic-sfs-rerun-seed1": 3})).blocks[0].rows
    assert "synthetic-sfs-rerun-seed1 is rejected: parallel runs 3 instead of 8" in ours.missing
    assert not ours.against


# ---- the page and the command


def test_a_page_is_rewritten_between_its_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- ggt -->\nold\n<!-- end ggt -->\nafter\n")
    for _ in range(2):
        write_markdown(page, "ggt", "new\n")
    assert page.read_text() == "before\n<!-- ggt -->\n\nnew\n\n<!-- end ggt -->\nafter\n"
    with pytest.raises(TreeformerError, match=r"lambda -->.* are missing"):
        write_markdown(page, "lambda", "new\n")
    with pytest.raises(TreeformerError, match="No such file"):
        write_markdown(tmp_path / "none.md", "ggt", "new\n")


@pytest.mark.slow
def test_the_results_page_is_up_to_date(tmp_path):
    copy = tmp_path / "results.md"
    copy.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    main(["all", "--markdown", str(copy)])
    assert copy.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8"), (
        "python -m benchmarks.tables all --markdown"
    )


def test_command_line_mistakes_are_one_line_errors(tmp_path, capsys):
    for arguments, message in (
        (["lambda", "--run", "--rehearse"], "a rehearsal needs its own folder"),
        (["lambda", "--run", "--minutes", "-4"], "--minutes must be positive, not -4"),
        (["lambda", "--run", "--backbone", str(tmp_path / "none")], "none: no such file"),
        (["lambda", "--list", "--only", "synthetic-ggt-seed0"], "synthetic-ggt-seed0 is not a run of lambda"),
        (["lambda", "--take", str(tmp_path)], "contains no result"),
    ):
        with pytest.raises(SystemExit, match=message):
            main(arguments)
    main(["lambda", "--list", "--domain", "synthetic", "--results", str(tmp_path)])
    assert capsys.readouterr().out.count("not run") == 4


def test_kept_figures_cover_the_columns():
    shown = {column.metric for table in TABLES.values() for column in table.columns}
    assert {name for name in shown if not name.endswith("_f1")} <= {*results.KEPT, IMAGES_SEEN.metric}


def test_without_rich_markdown_is_printed(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    main(["lambda", "--results", str(tmp_path)])
    assert "| Λ = 2 | — |" in capsys.readouterr().out
