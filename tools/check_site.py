"""Check the built documentation site: every link leads somewhere, and every page fits the screen of a phone.

python tools/check_site.py dist/docs

The second check needs Chromium; without it, one line says that it was left out.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

PHONE = {"width": 390, "height": 844}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The editor's page has tests of its own; the theme's templates are no pages.
NOT_PAGES = ("demo", "_static")
# Elements that lie beyond the right border, unless a box inside the article scrolls them.
TOO_WIDE = """() => {
  const scrolls = (element) => {
    for (let box = element.parentElement; box && box.tagName !== "ARTICLE"; box = box.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return true;
    return false;
  };
  const width = document.documentElement.clientWidth;
  return [...document.querySelectorAll("article *")]
    .filter((element) => element.getBoundingClientRect().right > width + 1 && !scrolls(element))
    .map((element) => `${element.tagName.toLowerCase()}: ${element.textContent.trim().slice(0, 60)}`);
}"""


class Page(HTMLParser):
    """The addresses that a page refers to, and the anchors that it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what one tag refers to."""
        given = dict(attrs)
        self.links += [address for key in ("href", "src") if (address := given.get(key))]
        if anchor := given.get("id"):
            self.anchors.add(anchor)


def read_pages(site: Path) -> dict[Path, Page]:
    """Return all pages of a site by their resolved path."""
    files = [path for path in sorted(site.rglob("*.html")) if path.relative_to(site).parts[0] not in NOT_PAGES]
    return {path.resolve(): Page(path) for path in files}


def broken_links(site: Path) -> Iterator[str]:
    """Yield one line "page: address" per link within the site that leads nowhere.

    Links to `demo/` are not checked if the site was built without it.
    """
    pages = read_pages(site)
    for path, page in pages.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            if not target.exists() and target.parent == (site / "demo").resolve() and not target.parent.exists():
                continue
            anchor = unquote(address.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                yield f"{path.relative_to(site.resolve())}: {link}"


def too_wide(site: Path, chromium: str) -> Iterator[str]:
    """Yield one line per page of which a part is cut off on a phone: "page: number of elements, the first of them"."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport=PHONE)
        for path in read_pages(site):
            tab.goto(path.as_uri())
            if found := tab.evaluate(TOO_WIDE):
                yield f"{path.relative_to(site.resolve())}: {len(found)} elements, first {found[0]!r}"
        browser.close()


def chromium_path() -> str | None:
    """Return the path of the browser, None if it is missing."""
    named = os.environ.get("TREEFORMER_CHROMIUM")
    return named or next((path for name in CHROMIUM if (path := shutil.which(name))), None)


def main() -> None:
    """Check the site named on the command line; exit with 1 if something is wrong."""
    site = Path(sys.argv[1])
    wrong = [f"broken link in {line}" for line in broken_links(site)]
    if chromium := chromium_path():
        wrong += [f"too wide for a phone: {line}" for line in too_wide(site, chromium)]
    else:
        print("no Chromium: whether the pages fit a phone was not checked", file=sys.stderr)
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
