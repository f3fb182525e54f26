"""Parse and write XML. Entity declarations and references to other files are rejected."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, tostring
from xml.sax.saxutils import escape, quoteattr

from treeformer.errors import FormatError
from treeformer.formats._io import reading

# Far deeper than any real file. Tools built on libxml2 stop at 256 levels by default.
MAX_DEPTH = 250

# Expat's error codes of a truncated file: no element found, unclosed token, partial character, unclosed CDATA.
_TRUNCATED = frozenset({3, 5, 6, 20})

_ELEMENT_START = re.compile("<[^?!]")

# Characters that XML 1.0 cannot represent, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def parse_xml(path: Path, root: str | None = None) -> Element:
    """Parse an XML file, at most to the first tag if the root element has another name than `root`, in any namespace.

    Entity declarations and references to other files are rejected.
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
        raise FormatError(f"{path.name}: declares XML entities, which are rejected as unsafe") from None
    except ParseError as error:
        problem = "is truncated" if error.code in _TRUNCATED and builder.started else "is not well-formed XML"
        raise FormatError(f"{path.name}: {problem} ({error})") from None
    except (ValueError, LookupError) as error:  # an encoding that is unknown or differs from the declared one
        raise FormatError(f"{path.name}: is not readable as XML ({error})") from None
    return element


class _Builder(TreeBuilder):
    """A tree builder that stops at a wrong root element or at excessive depth."""

    def __init__(self, file_name: str, root: str | None) -> None:
        super().__init__()
        self.started = False
        self._file_name = file_name
        self._root = root
        self._depth = 0

    def start(self, tag: Any, attrs: dict[Any, Any], /) -> Element:
        if not self.started:
            self.started = True
            if self._root is not None and local_name(tag) != self._root:
                raise FormatError(f"{self._file_name}: the root element is <{local_name(tag)}>, not <{self._root}>")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FormatError(f"{self._file_name}: elements are nested more than {MAX_DEPTH} levels deep")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)


def parse_fragment(text: str) -> Element:
    """Parse untrusted text that consists of one element. Raise FormatError if it does not."""
    from defusedxml.ElementTree import fromstring

    try:
        if not _ELEMENT_START.match(text):
            raise ValueError
        element: Element = fromstring(text)
    except (ParseError, ValueError, TypeError):
        raise FormatError(f"{text[:40]!r} is not an XML element") from None
    return element


def local_name(tag: str) -> str:
    """Return a tag or attribute name without its namespace.

    >>> local_name("{http://www.plantontology.org/xml-dtd/po.dtd}accession")
    'accession'
    """
    return tag.rpartition("}")[2]


def fragment(element: Element) -> str:
    """Return an element as self-contained XML text, with its namespaces and without its tail."""
    element.tail = None
    return tostring(element, encoding="unicode")


def attribute(name: str, value: str) -> str:
    """Return ` name="value"` with the value escaped; raise `FormatError` for characters that XML cannot represent."""
    return f" {name}={quoteattr(_checked(value))}"


def content(value: str) -> str:
    """Return text between tags, escaped. Raise FormatError if XML cannot represent a character."""
    return escape(_checked(value), {"\r": "&#13;"})


def _checked(value: str) -> str:
    bad = _FORBIDDEN.search(value)
    if bad:
        raise FormatError(f"XML cannot represent the character {bad.group()!r} in {value[:40]!r}")
    return value
