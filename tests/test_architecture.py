"""The rules of docs/architecture.md that a machine can check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import treeformer

PACKAGE = Path(treeformer.__file__).parent

# Lower layers first; a module may import from its own layer and from those before it.
LAYERS = (
    {"errors", "files", "pools"},
    {"images", "axes", "safetensors", "model_folder", "engines"},
    {"branches", "checks", "spanning"},
    {"forest"},
    {"derive", "networkx_graph", "topology"},
    {"skeleton"},
    {"formats", "draw", "synthetic", "decode", "decode_maps", "doubles", "draw_maps"},
    {"traits", "metrics", "examples", "tiles"},
    {"data", "picture_task"},
    {"picture_processes"},
    {"prediction"},
    {"picture_batch", "model_report"},
    {"nn"},
    {"models"},
    {"training"},
    {"cli", "__main__"},
)
WITH_TORCH = {"nn", "models", "training"}
# Doors that open a higher or equal floor only when they are called: (module, what it imports inside a function).
DOORS = {("skeleton", "traits"), ("skeleton", "networkx_graph"), ("engines", "models")}


def layer(module: str) -> int:
    return next(index for index, names in enumerate(LAYERS) if module in names)


def imports(path: Path):
    """(imported first-party part, whether at import time and not only for type checking) of every import in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in guarded:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "treeformer":
            parts = node.module.split(".")
            for name in [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]:
                if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists():
                    yield name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "treeformer" and len(parts) > 1:
                    yield parts[1]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    module = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if module == "__init__":
        return
    for imported in imports(path):
        assert layer(imported) <= layer(module) or (module, imported) in DOORS, f"{module} imports {imported}"


def test_the_plain_install_never_touches_torch():
    modules = [
        ".".join(("treeformer", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in WITH_TORCH and path.name != "__main__.py"
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


def test_every_public_name_is_there_when_it_is_asked_for():
    code = "from treeformer import *; import treeformer; [globals()[name] for name in treeformer.__all__]"
    code += "; assert set(treeformer.__all__) <= set(dir(treeformer)); assert not hasattr(treeformer, 'nothing')"
    subprocess.run([sys.executable, "-c", code], check=True)
