"""The commands `predict-cluster` and `collect`."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

pytest.importorskip("pyarrow")


from tests.inference.cluster_runs import (
    fake_predictor,
    make_plan,
    run_shard,
)
from tests.messages import one_line


@pytest.fixture
def fake_model(monkeypatch):
    monkeypatch.setattr("treeformer.inference.cluster.worker.Predictor", lambda *_, **__: fake_predictor())
    monkeypatch.setattr("treeformer.inference.cluster.run.open_model", lambda _: fake_predictor().model)


@pytest.mark.slow
def test_plan_shards_and_collect(run, images, out, tmp_path, fake_model):
    code, _, err = run("predict-cluster", images, "-o", out, "--plan-only", "--task-images", 5)
    assert (code, one_line(err)) == (0, f"12 images to be predicted, in 3 tasks, in {out}")
    assert "2 images" in one_line(run("predict-cluster", "-o", out, "--shard", "3/3")[2])
    code, _, err = run("collect", out)
    assert (code, one_line(err)) == (
        2,
        f"treeformer: {out}: 10 images have no result yet: run predict-cluster again",
    )
    assert "10 images" in one_line(run("predict-cluster", images, "-o", out, "--shard", "1/1")[2])
    code, _, err = run("collect", out, "--traits", tmp_path / "t.csv")
    assert (code, one_line(err)) == (0, f"12 images in {out}/results")
    assert len(pd.read_csv(tmp_path / "t.csv")) == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.png", "--shard", "1/1"), "none.png: no such file"),
        (("--shard", "1/1"), "there is no job.json"),
        ((".", "--shard", "2/1"), "i/n"),
        ((".", "--shard", "1/1", "--address", "auto"), "without Ray"),
        ((".", "--shard", "1/1", "--cpus-per-actor", "4"), "--cpus-per-actor and --gpus-per-actor have no meaning"),
        ((".", "--threads", "4"), "--threads needs --shard"),
        ((".", "--shard", "1/1", "--format", "jpeg"), "unknown format"),
        ((".", "--shard", "1/1", "--working-size", "big"), "--working-size"),
        ((".", "--shard", "1/1", "--px-per-mm", "0"), "px_per_mm"),
        ((".", "--plan-only", "--px-per-mm", "inf"), "px_per_mm"),
        ((".", "--plan-only", "--working-size", "1_024"), "--working-size must be a number"),
        ((".", "--shard", "1/1", "--min-confidence", "7"), "confidence"),
        ((".", "--shard", "1/1", "--views", "7"), "--views"),
    ],
)
def test_a_mistake_is_one_line(run, images, monkeypatch, fake_model, arguments, message):
    monkeypatch.chdir(images)
    code, _, err = run("predict-cluster", *arguments, "-o", "out")
    assert code == 2
    assert message in one_line(err)


def test_a_mistyped_source_does_not_block_the_right_command(run, images, out, fake_model):
    """The settings of the mistyped command stay behind, without a plan."""
    code, _, err = run("predict-cluster", "none", "-o", out, "--working-size", 512, "--plan-only")
    assert (code, "no such file" in one_line(err)) == (2, True)
    for command in (("collect", out), ("predict-cluster", "-o", out, "--shard", "1/1")):
        code, _, err = run(*command)
        assert (code, "no images are planned" in one_line(err)) == (2, True)
    code, _, err = run("predict-cluster", images, "-o", out, "--plan-only")
    assert (code, "12 images to be predicted" in one_line(err)) == (0, True)
    code, _, err = run("predict-cluster", images, "-o", out, "--working-size", 512, "--plan-only")
    assert (code, "holds a run with working_size None, not 512" in one_line(err)) == (2, True)


def test_traits_that_were_not_measured_are_not_collected(run, images, out, tmp_path):
    make_plan(out, images)
    run_shard(out)
    assert run("collect", out)[0] == 0
    before = sorted(out.rglob("*"))
    code, _, err = run("collect", out, "--traits", tmp_path / "t.csv")
    assert (code, one_line(err)) == (
        2,
        f"treeformer: {out}: the run was made with --no-traits: there are no traits to collect",
    )
    assert not (tmp_path / "t.csv").exists()
    assert sorted(out.rglob("*")) == before


def test_collecting_nothing_is_one_line(run, tmp_path):
    code, _, err = run("collect", tmp_path)
    assert code == 2
    assert "there is no job.json" in one_line(err)


def test_a_missing_package_is_one_line(run, images, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = run("predict-cluster", images, "-o", "out")
    assert code == 2
    assert "pip install 'treeformer[ray]'" in one_line(err)


def test_the_commands_in_the_guide_exist():
    """Every `treeformer` command in docs/cluster.md, in scripts and manifests too, has known options."""
    import typer.main
    from typer.core import TyperGroup

    from treeformer.cli import app

    text = (Path(__file__).parents[3] / "docs" / "cluster.md").read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"^```.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    joined = re.sub(r"\\?\n +(?=--|treeformer)", " ", blocks)
    uses = re.findall(r"treeformer (predict-cluster|collect)\b([^\n\"#]*)", joined)
    assert len(uses) >= 10
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    for name, rest in uses:
        known = {option for parameter in group.commands[name].params for option in parameter.opts}
        used = set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest.partition(" --wrap")[0]))
        assert used <= known, (name, used - known)
    manifest = yaml.safe_load(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])
    cluster = manifest["spec"]["rayClusterSpec"]
    assert [group["groupName"] for group in cluster["workerGroupSpecs"]] == ["gpu"]
    assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}, "no actor on the head node"
