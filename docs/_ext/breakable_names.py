"""Sphinx extension: names in text may break after `_`, `/` and `.`, so that narrow columns hold them."""

from __future__ import annotations

import re
from typing import Any

LITERAL = re.compile(r'(?<=<span class="pre">)[^<]+')
BREAK = re.compile(r"(?<=[_/.])(?=[A-Za-z{])")


def breakable(html: str) -> str:
    """Return a page whose names in backquotes have places to break.

    The browser copies the names without these places; `site.css` decides where they have an effect.
    """
    return LITERAL.sub(lambda name: BREAK.sub("<wbr>", name[0]), html)


def setup(app: Any) -> dict[str, bool]:
    """Change each page before it is written.

    Args:
        app: The Sphinx application.

    Returns:
        What Sphinx wants to know about the extension.
    """

    def write(_app: Any, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
        if "body" in context:
            context["body"] = breakable(context["body"])

    app.connect("html-page-context", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
