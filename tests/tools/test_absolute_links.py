"""README of the package has absolute links: a package index does not have the files of the repository."""

from __future__ import annotations

import importlib.util
import re
import shutil
import tomllib
from pathlib import Path

import treeformer

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tools" / "absolute_links.py"


def load():
    spec = importlib.util.spec_from_file_location("absolute_links", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_images_lead_to_files_and_links_to_pages():
    text = "![a](docs/a.webp) [b](docs/b.md#c) [d](https://example.org/e) [f](#g) [h](mailto:i)"
    assert load().with_absolute_links(text, "https://example.org/x/", "v1") == (
        "![a](https://example.org/x/raw/v1/docs/a.webp) [b](https://example.org/x/blob/v1/docs/b.md#c) "
        "[d](https://example.org/e) [f](#g) [h](mailto:i)"
    )


def test_every_link_of_the_readme_becomes_absolute(tmp_path):
    (tmp_path / "src" / "treeformer").mkdir(parents=True)
    for name in ("README.md", "pyproject.toml", "src/treeformer/__init__.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    load().main(tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    addresses = re.findall(r"\]\(([^)]*)\)", text)
    assert not [address for address in addresses if not address.startswith(("https://", "#"))]
    begin = re.escape(project["urls"]["Repository"]) + f"/(?:raw|blob)/v{re.escape(treeformer.__version__)}/([^#]*)"
    paths = [match[1] for address in addresses if (match := re.match(begin, address))]
    assert len(paths) > 20
    assert all((ROOT / path).exists() for path in paths)
    assert "![An example plant, and its predicted skeleton](https://" in text


def test_the_package_is_built_from_the_rewritten_readme():
    script = (ROOT / "tools" / "check_package.sh").read_text(encoding="utf-8")
    assert script.index("git -C") < script.index("tools/absolute_links.py") < script.index("-m build")
