"""XML in and out; a broken or hostile file gives one line of error, never a bomb, never a file from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, tostring
from xml.sax.saxutils import escape, quoteattr

from treeformer.errors import FormatError
from treeformer.formats._io import reading

# Far beyond any real file; tools built on libxml2 stop at 256 levels by default.
MAX_DEPTH = 250

# Expat's codes for a file that ends too soon: no element found, unclosed token, partial character, unclosed CDATA.
_CUT_SHORT = frozenset({3, 5, 6, 20})

_BEGINS_ELEMENT = re.compile("<[^?!]")

# Everything XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def parse_xml(path: Path, root: str | None = None) -> Element:
    """The root element of an XML file; entity declarations and references to other files are refused.

    Args:
        path: the file.
        root: the name the root element must have, whatever its namespace; a large file of something else
            is then given up at its first tag.

    Raises:
        FormatError: one line that begins with the file's name.
    """
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser

    builder = _Builder(path.name, root)
    parser = DefusedXMLParser(target=builder)
    is_empty = True
    try:
        with reading(path), path.open("rb") as file:
            while chunk := file.read(1 << 16):
                is_empty = False
                parser.feed(chunk)
        if is_empty:
            raise FormatError(f"{path.name}: is empty")
        element: Element = parser.close()
    except FormatError:
        raise
    except DefusedXmlException:
        raise FormatError(f"{path.name}: declares XML entities, which are refused as unsafe") from None
    except ParseError as error:
        what = "is cut short" if error.code in _CUT_SHORT and builder.active else "is not well-formed XML"
        raise FormatError(f"{path.name}: {what} ({error})") from None
    except (ValueError, LookupError) as error:  # an encoding that is unknown, or not the one declared
        raise FormatError(f"{path.name}: is not readable as XML ({error})") from None
    return element


class _Builder(TreeBuilder):
    """Builds the tree, and stops at the first wrong root element or at an absurd depth."""

    def __init__(self, file_name: str, root: str | None) -> None:
        super().__init__()
        self.active = False
        self._file_name = file_name
        self._root = root
        self._depth = 0

    def start(self, tag: Any, attrs: dict[Any, Any], /) -> Element:
        if not self.active:
            self.active = True
            if self._root is not None and local_name(tag) != self._root:
                raise FormatError(f"{self._file_name}: the root element is <{local_name(tag)}>, not <{self._root}>")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FormatError(f"{self._file_name}: elements are nested more than {MAX_DEPTH} deep")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)


def parse_fragment(text: str) -> Element:
    """One element from text that is not to be trusted and has nothing before it; FormatError where it is not one."""
    from defusedxml.ElementTree import fromstring

    try:
        if not _BEGINS_ELEMENT.match(text):
            raise ValueError
        element: Element = fromstring(text)
    except (ParseError, ValueError, TypeError):
        raise FormatError(f"{text[:40]!r} is not an XML element") from None
    return element


def local_name(tag: str) -> str:
    """A tag or attribute name without its namespace.

    >>> local_name("{http://www.plantontology.org/xml-dtd/po.dtd}accession")
    'accession'
    """
    return tag.rpartition("}")[2]


def fragment(element: Element) -> str:
    """The element as XML text that stands for itself: namespaces declared in it, nothing of what follows it."""
    element.tail = None
    return tostring(element, encoding="unicode")


def attribute(name: str, value: str) -> str:
    """` name="value"`, escaped so that every character survives; FormatError for those XML cannot hold."""
    return f" {name}={quoteattr(_holdable(value))}"


def content(value: str) -> str:
    """Text between tags, escaped so that every character survives; FormatError for those XML cannot hold."""
    return escape(_holdable(value), {"\r": "&#13;"})


def _holdable(value: str) -> str:
    bad = _FORBIDDEN.search(value)
    if bad:
        raise FormatError(f"XML cannot hold the character {bad.group()!r} in {value[:40]!r}")
    return value
