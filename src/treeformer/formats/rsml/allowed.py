"""Decide which preserved records may stand in a file that is valid by the RSML schema.

The schema allows any element in <properties>. In <geometry> it has a wildcard with strict processing, so that only
declared elements are valid there, and it declares none: <rootnavspline> is invalid. An <annotation> has points, a
value and a software. It may stand in the <annotations> of a root or of a plant.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from treeformer.formats.rsml.preserved import Record
from treeformer.formats.xml import fragment, local_name, parse_fragment

# Lexical space of xs:decimal.
_DECIMAL = re.compile(r"\s*[-+]?(\d+(\.\d*)?|\.\d+)\s*", re.ASCII)
# Metadata that the reader converts to a valid value. The record is only the original spelling.
_CONVERTED = frozenset({"unit", "resolution", "last-modified"})
# The attributes of an element, the name of its children, and their attributes.
_DECLARED = {
    "polyline": (frozenset[str](), "point", frozenset({"x", "y", "z"})),
    "function": (frozenset({"name", "domain", "origin"}), "sample", frozenset({"value", "position"})),
}


def is_allowed(record: Record) -> bool:
    """Return True if the schema allows a record at its place.

    >>> is_allowed({"of": "properties", "xml": "<age>3</age>"}), is_allowed({"of": "geometry", "xml": "<spline/>"})
    (True, False)
    """
    if "xml" not in record:
        return False
    if record["of"] == "properties":
        return True
    if record["of"] == "annotations":
        return _is_annotation(parse_fragment(record["xml"]))
    return is_plant_annotations(record)


def is_plant_annotations(record: Record) -> bool:
    """Return True for the valid <annotations> of a plant."""
    if record["of"] != "plant" or "xml" not in record:
        return False
    element = parse_fragment(record["xml"])
    is_list = element.tag == "annotations" and not element.attrib and not (element.text or "").strip()
    return is_list and all(_is_annotation(note) and not (note.tail or "").strip() for note in element)


def annotations_in(record: Record) -> list[str]:
    """Return the XML of each <annotation> in a record of <annotations>."""
    return [fragment(note) for note in parse_fragment(record["xml"])]


def names_in(record: Record) -> list[str]:
    """Return what is lost if a record is left out: names of elements, and of attributes after an "@".

    The list is empty if nothing is lost, because the reader has converted the content.

    >>> names_in({"of": "geometry", "xml": "<rootnavspline/>"}), names_in({"of": "plant", "attribute": "sown"})
    (['rootnavspline'], ['@sown'])
    """
    if "xml" not in record:
        return [f"@{local_name(record['attribute'])}"]
    element = parse_fragment(record["xml"])
    name = local_name(element.tag)
    if record["of"] == "metadata" and name in _CONVERTED:
        return []
    if record["of"] in ("polyline", "functions") and name in _DECLARED:
        undeclared = _undeclared(element, *_DECLARED[name])
        return undeclared or ([] if name == "polyline" else [name])
    if name in ("plant", "root"):  # the schema requires points
        return [f"empty {name}"]
    return [name]


def _undeclared(element: Element, attributes: frozenset[str], child_name: str, fields: frozenset[str]) -> list[str]:
    """Return the undeclared attributes and elements in a <polyline> or <function>. Fields may also be elements."""
    names = [f"@{local_name(name)}" for name in element.attrib if local_name(name).lower() not in attributes]
    for child in element:
        if local_name(child.tag) != child_name:
            names.append(local_name(child.tag))
            continue
        names += [f"@{local_name(name)}" for name in child.attrib if local_name(name).lower() not in fields]
        names += [local_name(field.tag) for field in child if local_name(field.tag).lower() not in fields]
    return list(dict.fromkeys(names))


def _is_annotation(element: Element) -> bool:
    """Return True for <annotation name="…"> with one or more <point>, one <value> and one <software>."""
    tags = [child.tag for child in element]
    count = len(tags) - 2
    texts = [element.text, *(child.tail for child in element)]
    return (
        element.tag == "annotation"
        and element.attrib.keys() <= {"name"}
        and count >= 1
        and tags == ["point"] * count + ["value", "software"]
        and all(_is_point(point) for point in element[:count])
        and not any(len(leaf) or leaf.attrib for leaf in element[count:])
        and not any((text or "").strip() for text in texts)
    )


def _is_point(point: Element) -> bool:
    return (
        {"x", "y"} <= point.attrib.keys() <= {"x", "y", "z"}
        and all(_DECIMAL.fullmatch(value) for value in point.attrib.values())
        and not len(point)
        and not (point.text or "").strip()
    )
