"""Make the relative links of README absolute, so that its images and links also work on the page of a package index.

python tools/absolute_links.py FOLDER

FOLDER is a copy of the repository from which a package is built. Links lead to the repository that its
`pyproject.toml` names, at the tag of its version.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

# A link or an image whose address is neither absolute nor an anchor on the same page.
RELATIVE_LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)([^)\s]+)\)")


def with_absolute_links(text: str, repository: str, tag: str) -> str:
    """Return a Markdown page at the root of the repository with absolute links to a tag."""

    def absolute(match: re.Match[str]) -> str:
        image, label, path = match.groups()
        return f"{image}{label}{repository.rstrip('/')}/{'raw' if image else 'blob'}/{tag}/{path})"

    return RELATIVE_LINK.sub(absolute, text)


def main(folder: Path) -> None:
    """Rewrite README in a copy of the repository."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = (folder / "src" / "treeformer" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"', source, re.MULTILINE)
    assert version is not None
    page = folder / project["readme"]
    text = with_absolute_links(page.read_text(encoding="utf-8"), project["urls"]["Repository"], f"v{version[1]}")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
