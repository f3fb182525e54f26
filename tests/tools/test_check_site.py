"""The check of the built site finds broken links and what a phone cuts off."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "tools" / "check_site.py"


def load():
    spec = importlib.util.spec_from_file_location("check_site", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_broken_links_and_anchors_are_found(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "theme.html").write_text("<a href='{{ missing }}'></a>")
    (tmp_path / "b.html").write_text("<h1 id='top'>b</h1><a href='demo/index.html'>no demo without Node.js</a>")
    (tmp_path / "a.html").write_text(
        "<a href='b.html#top'></a><a href='#here' id='here'></a><a href='https://example.org/none'></a>"
        "<a href='c.html'></a><a href='b.html#bottom'></a><img src='image.png'>"
    )
    assert list(load().broken_links(tmp_path)) == ["a.html: c.html", "a.html: b.html#bottom", "a.html: image.png"]
    (tmp_path / "demo").mkdir()
    assert "b.html: demo/index.html" in list(load().broken_links(tmp_path))


@pytest.mark.slow
def test_what_a_phone_cuts_off_is_found(tmp_path):
    pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install -e '.[dev]'")
    module = load()
    chromium = module.chromium_path()
    if chromium is None:
        pytest.skip("no Chromium: install it (Debian: apt-get install chromium) or name it in TREEFORMER_CHROMIUM")
    wide = "<p style='width: 900px'>wide text</p>"
    page = "<meta name=viewport content='width=device-width'><div style='overflow: hidden'><article>{}</article></div>"
    (tmp_path / "cut.html").write_text(page.format(wide))
    (tmp_path / "scrolled.html").write_text(page.format(f"<div style='overflow-x: auto'>{wide}</div>"))
    assert list(module.too_wide(tmp_path, chromium)) == ["cut.html: 1 elements, first 'p: wide text'"]
