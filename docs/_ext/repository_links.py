"""Sphinx extension: links to files outside docs/ lead to the repository named in pyproject.toml.

On the repository's own site `../CHANGELOG.md` works as it is. The documentation site has no such file.
"""

from __future__ import annotations

import os.path
import re
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
LINK = re.compile(r"\]\((\.\.?/[^)\s]+)\)")


def repository() -> str:
    """Return the address of the repository, without a slash at its end."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Repository"]).rstrip("/")


def rewrite(text: str, folder: Path) -> str:
    """Rewrite the relative links of a page that leave docs/.

    Args:
        text: A page in Markdown.
        folder: The folder of the page.

    Returns:
        The page with absolute links in their place.
    """

    def replace(match: re.Match[str]) -> str:
        path, _, anchor = match[1].partition("#")
        relative = Path(os.path.relpath(folder / path, DOCS.parent)).as_posix()
        if relative == "docs" or relative.startswith("docs/"):
            return match[0]
        return f"]({repository()}/blob/main/{relative}{'#' + anchor if anchor else ''})"

    return LINK.sub(replace, text)


def setup(app: Any) -> dict[str, bool]:
    """Rewrite each page when it is read.

    Args:
        app: The Sphinx application.

    Returns:
        What Sphinx wants to know about the extension.
    """

    def read(_: Any, name: str, source: list[str]) -> None:
        source[0] = rewrite(source[0], (DOCS / name).parent)

    app.connect("source-read", read)
    return {"parallel_read_safe": True}
