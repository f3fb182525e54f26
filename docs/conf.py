"""Configuration of the documentation site; `make docs` builds it into dist/docs."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent / "src")]
# Notebooks run in processes of their own and import the same package.
os.environ["PYTHONPATH"] = os.pathsep.join([str(DOCS.parent / "src"), os.environ.get("PYTHONPATH", "")])

import treeformer  # noqa: E402

project = "treeformer"
author = "the treeformer contributors"
copyright = f"2026, {author}"
version = release = treeformer.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "breakable_names",
    "command_reference",
    "mathml",
    "repository_links",
]
html_math_renderer = "mathml"
exclude_patterns = ["_build", "_ext", "lab/README.md"]

# Markdown: headings get GitHub's anchors, so that links work on both sites.
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
source_suffix = {".md": "myst-nb"}

# Notebooks run on every build; an error stops the build.
nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS.parent / "dist" / "notebooks")
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "imported-members": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
# Docstrings put names in single backquotes, as in Markdown.
default_role = "code"

html_theme = "pydata_sphinx_theme"
html_title = "treeformer"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "header_links_before_dropdown": 7,  # all sections are visible, with a small search button beside them
    "navbar_persistent": ["search-button"],
}
# These pages have no section of their own, and the box would be empty.
html_sidebars: dict[str, list[str]] = {"get-started": [], "how-good-how-fast": []}
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
# Blocks without a language are commands and their output.
highlight_language = "text"
html_show_sourcelink = False
templates_path: list[str] = []

# Without it, the theme writes an error to the console of the browser.
html_context = {"default_mode": "auto"}

ARRAY_TYPE = re.compile(r"numpy\.ndarray\[tuple\[(?:typing\.)?Any, \.\.\.\], numpy\.dtype\[numpy\.(\w+?)_?\]\]")


def setup(app: Any) -> None:
    """Show docstrings as they are written.

    napoleon takes the text before a colon for the type of an attribute or a property; an empty comment before it
    prevents this. Types of arrays are shortened.
    """

    def protect(_app: Any, what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
        if what in ("attribute", "data", "property") and lines:
            lines[:0] = ["..", ""]

    def shorten(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
        lines[:] = [ARRAY_TYPE.sub(r"array of \1", line) for line in lines]

    app.connect("autodoc-process-docstring", protect, priority=100)
    app.connect("autodoc-process-docstring", shorten, priority=900)
