"""Modules, functions, arguments, files and options that the documents name exist; every image is used and small."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import treeformer
from tests.test_documents import PAGES, ROOT, blocks

IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 200_000
LINE = treeformer.Skeleton([(1, 2), (3, 4)], [(0, 1)])
# What pages call by these names.
OBJECTS = {"skeleton": LINE, "series": treeformer.Series([(0.0, LINE), (1.0, LINE)])}
FOLDERS = ("", "docs", "src/treeformer", "web", "src/treeformer/weights/default")
# A path of a source file in backquotes; file names alone are often those of users.
SOURCE = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|ts|svelte|yaml|sh))`")
DOTTED = re.compile(r"`(treeformer(?:\.\w+)+)(?:\(|`)")
PROGRAM = re.compile(r"python (?:-m (benchmarks[\w.]*|tests[\w.]*)|((?:benchmarks|examples|tools)/\S+\.py))(.*)")


def code_of(page: Path) -> Iterator[ast.Module]:
    """The syntax trees of all Python blocks of a page, those with prompts included."""
    for code in blocks(page, "python", "{code-cell} ipython3", "{code-cell}"):
        if ">>> " in code:
            code = "".join(one.source for one in doctest.DocTestParser().get_examples(code))
        yield ast.parse("\n".join(line for line in code.splitlines() if not line.startswith((":", "%", "!"))))


def resolve(name: str) -> Any:
    """The object with a dotted name; AttributeError or ModuleNotFoundError if there is none."""
    parts = name.split(".")
    found: Any = importlib.import_module(parts[0])
    for k, part in enumerate(parts[1:], 1):
        if not hasattr(found, part) and inspect.ismodule(found):
            importlib.import_module(".".join(parts[: k + 1]))
        found = getattr(found, part)
    return found


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` of an expression that is nothing but names."""
    if isinstance(node, ast.Name):
        return node.id
    inner = dotted(node.value) if isinstance(node, ast.Attribute) else None
    return f"{inner}.{node.attr}" if isinstance(node, ast.Attribute) and inner else None


def imported(tree: ast.Module) -> dict[str, str]:
    """What `from treeformer… import …` binds in a block: name in the block to full name."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "treeformer":
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return names


def wrong_names(tree: ast.Module, known: dict[str, str]) -> list[str]:
    """What a block takes from the package that is not there: names, attributes and keyword arguments."""
    wrong = []
    for full in known.values():
        try:
            resolve(full)
        except (AttributeError, ModuleNotFoundError):
            wrong.append(full)
    for node in ast.walk(tree):
        name = dotted(node.func if isinstance(node, ast.Call) else node)
        first, _, rest = (name or "").partition(".")
        attribute = rest.split(".")[0]
        if first in OBJECTS and attribute and not hasattr(OBJECTS[first], attribute):
            wrong.append(f"{first}.{attribute}")
        full = known.get(first, "") + (f".{rest}" if rest else "")
        if first not in known or known[first] in wrong:
            continue
        try:
            found = resolve(full)
        except (AttributeError, ModuleNotFoundError):
            wrong.append(full)
            continue
        if isinstance(node, ast.Call):
            wrong += [f"{full}({one})" for one in unknown_arguments(found, node)]
    return wrong


def unknown_arguments(function: Any, call: ast.Call) -> list[str]:
    """Keyword arguments that a function does not have."""
    parameters = inspect.signature(function).parameters
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return []
    return [one.arg for one in call.keywords if one.arg and one.arg not in parameters]


@pytest.mark.slow
def test_python_code_names_what_exists():
    pytest.importorskip("torch")
    wrong = []
    for page in PAGES:
        known = {"treeformer": "treeformer"}  # blocks of one page follow each other
        for tree in code_of(page):
            known |= imported(tree)
            wrong += [f"{page.name}: {name}" for name in wrong_names(tree, known)]
    assert not wrong


def test_wrong_names_are_found():
    code = """
import treeformer
from treeformer.metrics import topo, topology
treeformer.predict("a.jpg", working_sise=1)
treeformer.Skelton
skeleton.lenght
topo(a, b, unit_px=1.0)
"""
    tree = ast.parse(code)
    found = wrong_names(tree, {"treeformer": "treeformer"} | imported(tree))
    expected = {"treeformer.metrics.topology", "treeformer.predict(working_sise)", "treeformer.Skelton"}
    assert set(found) == expected | {"skeleton.lenght"}


@pytest.mark.slow
def test_names_and_files_in_sentences_exist():
    pytest.importorskip("torch")
    wrong = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name in DOTTED.findall(text):
            try:
                resolve(name)
            except (AttributeError, ModuleNotFoundError):
                wrong.append(f"{page.name}: {name}")
        for name in SOURCE.findall(text):
            places = [ROOT / folder / name for folder in FOLDERS] + [ROOT / "tests" / name]
            if page.name != "CHANGELOG.md" and not any(place.exists() for place in places):
                wrong.append(f"{page.name}: {name}")
    assert not wrong


def programs(page: Path) -> Iterator[tuple[list[Path], str, list[str]]]:
    """(source files, name, options) of every program of the repository that a page calls."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in re.findall(r"`([^`\n]*python [^`\n]*)`", text) + text.splitlines():
        if match := PROGRAM.search(line.split("#")[0].split("`")[0] if "`" in line else line.split("#")[0]):
            module, file, rest = match.groups()
            path = ROOT / (file or module.replace(".", "/"))
            files = sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
            yield files, file or module, re.findall(r"(?<!\S)(--[a-z][\w-]*)", rest)


def test_programs_of_the_repository_have_the_options_of_the_pages():
    wrong, count = [], 0
    for page in PAGES:
        for files, name, options in programs(page):
            count += 1
            missing = [path for path in files if not path.exists()] or not files
            source = "" if missing else "".join(path.read_text(encoding="utf-8") for path in files)
            wrong += [f"{page.name}: {name}"] if missing else []
            wrong += [f"{page.name}: {name} {one}" for one in options if f'"{one}"' not in source and source]
    assert not wrong
    assert count > 50


def test_every_image_is_used_and_small():
    used = {
        (page.parent / name).resolve()
        for page in PAGES
        for name in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    }
    images = set(IMAGES.iterdir())
    assert images <= used, "images of no page"
    assert {path for path in images if path.stat().st_size > MOST_BYTES} == set()


@pytest.mark.slow
def test_configurations_of_the_pages_are_accepted(tmp_path):
    import yaml

    from treeformer.training.config import load_config

    found = [(page, code) for page in PAGES for code in blocks(page, "yaml")]
    assert len(found) >= 3
    complete = 0
    for page, code in found:
        content = yaml.safe_load(code)
        if isinstance(content, dict) and "optimizer" in content:
            (tmp_path / "plants.yaml").write_text(code, encoding="utf-8")
            assert load_config(tmp_path / "plants.yaml").name == content["name"], page.name
            complete += 1
    assert complete >= 1
