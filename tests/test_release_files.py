"""Workflows, Dockerfile, templates and metadata agree with the Makefile, the commands and the version."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import treeformer

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
if not WORKFLOWS:
    pytest.skip("the source distribution has no workflows", allow_module_level=True)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def workflow(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((GITHUB / "workflows" / f"{name}.yml").read_text(encoding="utf-8"))
    return loaded


def steps(name: str) -> Iterator[dict[str, Any]]:
    for job in workflow(name)["jobs"].values():
        yield from job["steps"]


def options_of(command: str) -> set[str]:
    import typer.main

    from treeformer.cli import app

    parameters = typer.main.get_command(app).commands[command].params
    return {option for one in parameters for option in (*one.opts, *one.secondary_opts)}


def test_every_target_that_is_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    files = [*WORKFLOWS, ROOT / ".ci" / "run", GITHUB / "pull_request_template.md", ROOT / ".pre-commit-config.yaml"]
    files += sorted(ROOT.glob("*.md"))
    named = {name for file in files for name in re.findall(r"(?:`|run: |^)make ([a-z-]+)", text_of(file), re.M)}
    assert len(named) > 5
    assert named <= targets
    assert set(re.search(r"^\.PHONY: (.*)", MAKEFILE, re.M)[1].split()) == targets - {"web/node_modules/"}
    described = set(re.findall(r"^# make ([a-z-]+)", MAKEFILE, re.M))
    assert described == targets - {"format", "check-web", "clean"}


def test_the_matrix_covers_the_systems_and_the_versions_of_the_classifiers():
    matrix = workflow("test")["jobs"]["platforms"]["strategy"]["matrix"]
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    claimed = {one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)}
    assert set(matrix["python"]) == claimed
    assert f">={min(claimed)}" == PROJECT["requires-python"]


def test_no_workflow_runs_tests_that_take_minutes():
    """An own -m replaces that of pyproject.toml."""
    markers = [m[1] for one in steps("test") if (m := re.search(r'pytest.* -m "([^"]*)"', one.get("run", "")))]
    assert markers == ["not slow and not long"]


@pytest.mark.parametrize("name", ["test", "docs"])
def test_workflows_have_the_node_that_the_page_needs(name):
    package = json.loads((ROOT / "web" / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    required = package["node_modules/vite"]["engines"]["node"]
    [version] = {one["with"]["node-version"] for one in steps(name) if "setup-node" in one.get("uses", "")}
    assert re.search(rf"(\^{version}\.|>=\s*{version}\b)", required), f"vite needs {required}"


def test_only_checked_files_are_published_without_a_token():
    publish = workflow("release")["jobs"]["publish"]
    assert publish["permissions"] == {"contents": "read", "id-token": "write"}
    make = next(one["run"] for one in publish["steps"] if one.get("run", "").startswith("make package"))
    upload = next(one for one in publish["steps"] if "pypi-publish" in one.get("uses", ""))
    assert f"PACKAGES={upload['with']['packages-dir']}" in make
    assert "tools/check_package.sh $(BIN) $(PACKAGES)" in MAKEFILE
    assert not re.search(r"secrets\.|password", (GITHUB / "workflows" / "release.yml").read_text(encoding="utf-8"))


def test_the_tag_is_compared_with_the_version():
    [check] = [one["run"] for one in steps("release") if "GITHUB_REF_NAME" in one.get("run", "")]
    line = re.search(r'grep -qx "(.*)" (\S+)', check)
    expected = line[1].replace('\\"', '"').replace("${GITHUB_REF_NAME#v}", treeformer.__version__)
    assert expected in (ROOT / line[2]).read_text(encoding="utf-8").splitlines()


def test_the_image_copies_what_the_package_needs_and_runs_the_editor():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = {name for line in text.splitlines() if line.startswith("COPY ") for name in line.split()[1:-1]}
    assert copied >= {"pyproject.toml", "constraints.txt", "src", PROJECT["readme"], *PROJECT["license-files"]}
    assert all((ROOT / name).exists() for name in copied)
    extra = re.search(r'"\.\[(\w+)\]"', text)[1]
    assert extra in PROJECT["optional-dependencies"]
    entry, command = (json.loads(re.search(rf"^{key} (.*)$", text, re.M)[1]) for key in ("ENTRYPOINT", "CMD"))
    assert entry == list(PROJECT["scripts"])
    assert command[0] == "edit"
    assert {word for word in command if word.startswith("--")} <= options_of("edit")


def test_commands_in_templates_exist():
    found = 0
    for page in GITHUB.rglob("*.md"):
        for line in re.findall(r"`treeformer ([^`]*)`", page.read_text(encoding="utf-8")):
            words = shlex.split(line)
            found += 1
            if words[0] != "--version":
                assert {word for word in words if re.match("--?[a-z]", word)} <= options_of(words[0])
    assert found >= 3


def test_citation_and_changelog_have_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == treeformer.__version__
    assert citation["preferred-citation"]["title"].startswith("TreeFormer: ")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert changelog.index("## [Unreleased]") < changelog.index(treeformer.__version__)


def test_the_address_of_the_project_is_in_one_place():
    [address] = PROJECT["urls"].values()
    [comment] = re.findall(r"# To be filled in.*\n\[project\.urls\]", text_of(ROOT / "pyproject.toml"))
    assert comment
    own = {ROOT / "pyproject.toml", Path(__file__)}
    pages = {*ROOT.glob("*"), *(ROOT / "docs").rglob("*.md"), *GITHUB.rglob("*.*")} - own
    assert not [page.name for page in pages if page.is_file() and address in text_of(page)]
