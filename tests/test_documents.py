"""Links and anchors resolve, every page is reachable from the README, and the map of the package is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def links(page: Path) -> list[tuple[Path, str]]:
    """(file, anchor or "") of every link of a page within the repository."""
    parts = [link.partition("#") for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    return [((page.parent / name).resolve() if name else page, anchor) for name, _, anchor in parts]


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for file, anchor in links(page):
        assert file.exists(), f"{page.name} links to {file}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {file.name}#{anchor}"


def test_every_page_is_reached_from_the_readme():
    reached, pending = set(), [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        if page not in reached and page in PAGES:
            reached.add(page)
            pending += [file for file, _ in links(page)]
    assert set(PAGES) == reached


def test_the_map_shows_every_part_of_the_package_and_no_other():
    layout = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[3]
    layout = layout.split("\nconfigs/")[0]
    shown = set(re.findall(r"^  (\w+(?:\.py|/))(?= )", layout, re.MULTILINE))
    package = [path for path in (ROOT / "src" / "treeformer").iterdir() if path.name != "__pycache__"]
    assert shown == {f"{path.name}/" if path.is_dir() else path.name for path in package} - {"py.typed"}
