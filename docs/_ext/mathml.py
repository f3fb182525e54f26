"""Sphinx extension: write formulas as MathML, which browsers show without scripts and without a connection."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def inline(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line.

    Args:
        translator: Sphinx's HTML writer.
        node: The formula in TeX.

    Raises:
        SkipNode: Always, as docutils expects of a finished node.
    """
    translator.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own.

    Args:
        translator: Sphinx's HTML writer.
        node: The formula in TeX.

    Raises:
        SkipNode: Always, as docutils expects of a finished node.
    """
    translator.body.append(f"<div class='formula' tabindex='0'>{convert(node.astext(), display='block')}</div>")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer.

    Args:
        app: The Sphinx application.

    Returns:
        What Sphinx may do in parallel.
    """
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
