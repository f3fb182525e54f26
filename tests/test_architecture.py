"""The rules of docs/architecture.md that a machine can check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import treeformer

PACKAGE = Path(treeformer.__file__).parent

# Lower levels first. A part may import parts of lower levels; parts of one level do not import each other.
LEVELS = (
    {"errors"},
    {"_util"},
    {"skeleton", "examples"},
    {"formats", "draw", "decoding", "hub", "synthetic"},
    {"results"},
    {"traits", "metrics", "nn"},
    {"data"},
    {"models"},
    {"inference", "baselines"},
    {"timeseries", "training"},
    {"finetuning"},
    {"web"},
    {"cli"},
)
AT_THE_ROOT = {"__init__.py", "__main__.py", "errors.py", "draw.py"}
WITH_TORCH = {"nn", "models", "baselines", "training", "finetuning"}
# The few modules of other parts that use torch; they are imported on demand.
TORCH_MODULES = {
    "data/loader.py",
    "data/mixture.py",
    "data/torch_warp.py",
    "data/view.py",
    "inference/torch_engine.py",
    "inference/cuda_graphs.py",
}
# These start without torch, so that a missing package is one line.
TORCH_FREE_MODULES = {
    "training/command.py",
    "training/config.py",
    "training/__init__.py",
    "finetuning/__init__.py",
    "finetuning/annotated.py",
    "finetuning/next_images.py",
    "finetuning/plan.py",
    "finetuning/work_folder.py",
}


def level(part: str) -> int:
    return next(index for index, names in enumerate(LEVELS) if part in names)


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements below a node. Walking the expressions too takes four times as long."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from statements(child)


@cache
def imports(path: Path) -> list[tuple[int, str, list[str]]]:
    """(line, part, rest of the dotted name) of every first-party import in a file, those for type checking included."""
    found = []
    for node in statements(parsed(path)):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "treeformer":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "treeformer"]
        for name in names:
            parts = name.split(".")
            if len(parts) > 1 and ((PACKAGE / parts[1]).is_dir() or (PACKAGE / f"{parts[1]}.py").exists()):
                found.append((node.lineno, parts[1], parts[2:]))
    return found


SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__main__.py")


def test_few_modules_lie_at_the_root():
    assert {path.name for path in PACKAGE.glob("*.py")} == AT_THE_ROOT


@pytest.mark.slow
def test_imports_point_downwards():
    assert not [
        f"{path.relative_to(PACKAGE)}:{line}: {part} imports {imported}"
        for path in SOURCES
        if (part := part_of(path)) != "__init__"
        for line, imported, _ in imports(path)
        if imported != part and level(imported) >= level(part)
    ]


@pytest.mark.slow
def test_private_modules_and_names_stay_in_their_part():
    assert not [
        f"{path.relative_to(PACKAGE)}:{line}: {name} of {imported} is private"
        for path in SOURCES
        for line, imported, rest in imports(path)
        for name in rest
        if imported != part_of(path) and name.startswith("_") and not name.startswith("__")
    ]


@pytest.mark.slow
def test_there_is_no_cycle_between_parts():
    """Follows from the levels; checked on its own because the levels are written by hand."""
    graph: dict[str, set[str]] = {}
    for path in SOURCES:
        if (part := part_of(path)) != "__init__":
            graph.setdefault(part, set()).update(name for _, name, _ in imports(path) if name != part)
    done: set[str] = set()
    while ready := {part for part in graph if part not in done and graph[part] <= done}:
        done |= ready
    assert done == set(graph)


@pytest.mark.slow
def test_torch_is_imported_in_few_places():
    found = []
    for path in SOURCES:
        name = path.relative_to(PACKAGE).as_posix()
        if part_of(path) in WITH_TORCH or name in TORCH_MODULES:
            continue
        for node in parsed(path).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                if any(one.split(".")[0] in ("torch", "lightning", "triton") for one in names):
                    found.append(f"{name}:{node.lineno}")
    assert not found


@pytest.mark.slow
def test_the_plain_install_never_touches_torch():
    modules = [
        ".".join(("treeformer", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        for path in PACKAGE.rglob("*.py")
        if path.name != "__main__.py"
        and path.relative_to(PACKAGE).as_posix() not in TORCH_MODULES
        and (part_of(path) not in WITH_TORCH or path.relative_to(PACKAGE).as_posix() in TORCH_FREE_MODULES)
    ]
    code = (
        f"import sys, importlib; [importlib.import_module(m) for m in {modules!r}]; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_plain_install_has_nothing_that_the_package_does_not_import():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = {re.match(r"[\w-]+", requirement)[0] for requirement in project["dependencies"]}
    other_names = {"pillow": "PIL", "pyyaml": "yaml"}
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)", code, re.MULTILINE))
    assert {other_names.get(name, name) for name in installed} <= imported


def test_importing_the_package_is_light():
    heavy = ("numpy", "scipy", "pandas", "matplotlib", "networkx")
    code = f"import sys, treeformer.cli; sys.exit(' '.join(m for m in {heavy!r} if m in sys.modules) or 0)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_every_public_name_is_there_when_it_is_asked_for():
    code = "from treeformer import *; import treeformer; [globals()[name] for name in treeformer.__all__]"
    code += "; assert set(treeformer.__all__) <= set(dir(treeformer)); assert not hasattr(treeformer, 'nothing')"
    subprocess.run([sys.executable, "-c", code], check=True)
