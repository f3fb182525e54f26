"""The head of an RSML file: from XML to plain values that JSON can hold, and back to what the schema allows.

The schema wants a number for the resolution, one of seven units and an ISO date; files in use have
'xxx dpi', 'pixels' and '6/20/2024 6:03:01 PM'. The reader gives such a value the nearest meaning the
schema can express ('300 dpi' is inch and 300, no scale at all is pixel and 1) and keeps the original
node among the unknown ones, so that a file read, written and read again says the same both times.
Only a date that cannot be told, or is not given, becomes the time of writing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from xml.etree.ElementTree import Element

from treeformer.formats.rsml.preserved import Record, rsml_values, unknown_attributes, unknown_node
from treeformer.formats.xml import content, local_name
from treeformer.skeleton import Skeleton

Dialect = Literal["strict", "smartroot"]

MM_PER_UNIT = {"m": 1000.0, "cm": 10.0, "mm": 1.0, "um": 1e-3, "nm": 1e-6, "inch": 25.4}
UNIT_NAMES = {
    "": "pixel",
    "px": "pixel",
    "pixels": "pixel",
    "in": "inch",
    "inches": "inch",
    "µm": "um",  # micro sign
    "μm": "um",  # Greek mu
}
# SmartRoot needs a resolution; where none is known this is the one that a screen is said to have.
FALLBACK_DPI = 72.0

_DECIMAL = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)")
# With AM or PM the month stands first, on the 24-hour clock the day: so it is in the files that have such dates.
_DATE_PATTERNS = ("%m/%d/%Y %I:%M:%S %p", "%d/%m/%Y %H:%M:%S")
_TEXTS = ("software", "user", "file-key")
_NESTED = frozenset({"property-definitions", "time-sequence", "image"})
_KNOWN = _NESTED | {"version", "unit", "resolution", "last-modified", *_TEXTS}
_DEFINITION = ("label", "type", "unit", "default")
_IMAGE = ("name", "sha256", "captured")


def decimal_text(value: float) -> str:
    """The shortest decimal that reads back as exactly this number, never with an exponent, which the schema forbids.

    >>> decimal_text(989.0), decimal_text(0.1), decimal_text(1e-7)
    ('989', '0.1', '0.0000001')
    """
    text = repr(value)
    if "e" in text:
        text = format(Decimal(text), "f")
    return text.removesuffix(".0")


def scale(unit: str, resolution: str) -> tuple[str, str]:
    """Unit and resolution (pixels per unit) as the schema has them; ('pixel', '1') where the scale is unknown.

    >>> scale("pixel", "300 dpi"), scale("mm", "11,8"), scale("cm", "xxx dpi")
    (('inch', '300'), ('mm', '11.8'), ('pixel', '1'))
    """
    unit = unit.strip().lower()
    unit = UNIT_NAMES.get(unit, unit)
    number = resolution.strip().lower()
    for suffix in ("dpi", "ppi"):
        if number.endswith(suffix):
            number, unit = number.removesuffix(suffix).strip(), "inch"
    number = number.replace(",", ".")
    try:
        value = float(number)
    except ValueError:
        return "pixel", "1"
    if not (math.isfinite(value) and value > 0) or (unit != "pixel" and unit not in MM_PER_UNIT):
        return "pixel", "1"
    return unit, number if _DECIMAL.fullmatch(number) else decimal_text(value)


def resolution_px_per_mm(skeleton: Skeleton) -> float | None:
    """Pixels per millimetre by the RSML file's unit and resolution, None where it gives no physical scale.

    >>> resolution_px_per_mm(Skeleton([], [], metadata={"rsml": {"unit": "inch", "resolution": "254"}}))
    10.0
    """
    head = rsml_values(skeleton.metadata)
    unit, resolution = scale(str(head.get("unit", "")), str(head.get("resolution", "")))
    return None if unit == "pixel" else float(resolution) / MM_PER_UNIT[unit]


def iso_date(text: str) -> str | None:
    """A date and time as the schema has it, None where it cannot be told.

    >>> iso_date("6/20/2024 6:03:01 PM"), iso_date("26/06/2024 17:51:29"), iso_date("today")
    ('2024-06-20T18:03:01', '2024-06-26T17:51:29', None)
    """
    moment = None
    with suppress(ValueError):
        moment = datetime.fromisoformat(text.strip())
    for pattern in _DATE_PATTERNS:
        with suppress(ValueError):
            moment = moment or datetime.strptime(text.strip(), pattern)
    if moment is None:
        return None
    offset = moment.utcoffset() or timedelta(0)
    if abs(offset) > timedelta(hours=14) or offset % timedelta(minutes=1):
        return None
    return moment.isoformat()


# ---- reading ------------------------------------------------------------------------------------


def read_metadata(element: Element, unknown: list[Record]) -> tuple[dict[str, Any], str | None]:
    """The values of <metadata> and the image's name; nodes the schema has no place for are added to `unknown`."""
    unknown.extend(unknown_attributes("metadata", element.attrib))
    nodes: dict[str, Element] = {}
    for child in element:
        name = local_name(child.tag)
        if name in nodes or name not in _KNOWN or (name not in _NESTED and (len(child) or child.attrib)):
            unknown.append(unknown_node("metadata", child))
        else:
            nodes[name] = child

    def text(name: str) -> str:
        return (nodes[name].text or "").strip() if name in nodes else ""

    unit, resolution = scale(text("unit"), text("resolution"))
    values: dict[str, Any] = {"version": text("version") or "1", "unit": unit, "resolution": resolution}
    if date := iso_date(text("last-modified")):
        values["last-modified"] = date
    for name in ("unit", "resolution", "last-modified"):
        if text(name) and text(name) != values.get(name):
            unknown.append(unknown_node("metadata", nodes[name]))
    values |= {name: text(name) for name in _TEXTS if text(name)}
    for name, read_node in (("property-definitions", _definitions), ("time-sequence", _time_sequence)):
        if name in nodes:
            found = read_node(nodes[name])
            if found is None:
                unknown.append(unknown_node("metadata", nodes[name]))
            else:
                values[name] = found
    image, image_name = _image(nodes["image"], unknown) if "image" in nodes else ({}, None)
    return values | ({"image": image} if image else {}), image_name


def _leaves(element: Element) -> dict[str, str] | None:
    """The texts of an element's children by name, None where it holds more than plain, different leaves."""
    names = [local_name(child.tag) for child in element]
    if element.attrib or len(set(names)) < len(names) or any(len(child) or child.attrib for child in element):
        return None
    return {name: (child.text or "").strip() for name, child in zip(names, element, strict=True)}


def _definitions(element: Element) -> list[dict[str, str]] | None:
    made = []
    for child in element:
        leaves = _leaves(child)
        fits = leaves is not None and {"label", "type"} <= leaves.keys() <= set(_DEFINITION)
        if leaves is None or not fits or child.tag != "property-definition" or element.attrib:
            return None
        made.append(leaves)
    return made


def _time_sequence(element: Element) -> dict[str, Any] | None:
    leaves = _leaves(element)
    if leaves is None or not {"index"} <= leaves.keys() <= {"label", "index", "unified"}:
        return None
    ground_truth = {"true": True, "1": True, "false": False, "0": False}.get(leaves.get("unified", "false").lower())
    if ground_truth is None or not re.fullmatch(r"[-+]?[0-9]{1,15}", leaves["index"]):
        return None
    return {"label": leaves.get("label", ""), "index": int(leaves["index"]), "unified": ground_truth}


def _image(element: Element, unknown: list[Record]) -> tuple[dict[str, str], str | None]:
    unknown.extend(unknown_attributes("image", element.attrib))
    values: dict[str, str] = {}
    for child in element:
        name, text = local_name(child.tag), (child.text or "").strip()
        stored: str | None = None
        if not (len(child) or child.attrib or name in values):
            stored = iso_date(text) if name == "captured" else text if name in ("name", "label", "sha256") else None
        if stored:
            values[name] = stored
        if text and stored != text:
            unknown.append(unknown_node("image", child))
    label = values.pop("label", None)
    if label is not None and "name" in values:
        unknown.append({"of": "image", "xml": f"<label>{content(label)}</label>"})
    return values, values.pop("name", label)


# ---- writing ------------------------------------------------------------------------------------


def metadata_lines(skeleton: Skeleton, file_stem: str, dialect: Dialect) -> list[str]:
    """The lines of <metadata>; what the skeleton does not know is filled in, so that no required element is empty."""
    values = rsml_values(skeleton.metadata)

    def text(name: str, default: str) -> str:
        return str(values.get(name) or "").strip() or default

    unit, resolution = scale(text("unit", ""), text("resolution", ""))
    software = text("software", "treeformer")
    if dialect == "smartroot":
        per_mm = resolution_px_per_mm(skeleton)
        unit, resolution = "inch", decimal_text(FALLBACK_DPI if per_mm is None else per_mm * MM_PER_UNIT["inch"])
        # SmartRoot treats files of that name in a way of its own.
        software = "treeformer" if software.lower().startswith("rootnav") else software
    elements = {
        "version": text("version", "1"),
        "unit": unit,
        "resolution": resolution,
        "last-modified": iso_date(text("last-modified", "")) or datetime.now(UTC).isoformat(timespec="seconds"),
        "software": software,
        "user": text("user", "unknown"),
        "file-key": text("file-key", skeleton.image_name or file_stem),
    }
    lines = [f"<{name}>{content(value)}</{name}>" for name, value in elements.items()]
    if definitions := values.get("property-definitions"):
        rows = [_flat("property-definition", row, _DEFINITION) for row in definitions]
        lines += ["<property-definitions>", *(f"  {row}" for row in rows), "</property-definitions>"]
    if sequence := values.get("time-sequence"):
        unified = "true" if sequence["unified"] else "false"
        lines.append(_flat("time-sequence", {**sequence, "unified": unified}, ("label", "index", "unified")))
    image = {**values.get("image", {}), "name": skeleton.image_name or ""}
    if any(image.values()):
        lines.append(_flat("image", {name: value for name, value in image.items() if value}, _IMAGE))
    return ["<metadata>", *(f"  {line}" for line in lines), "</metadata>"]


def _flat(name: str, leaves: Mapping[str, Any], names: Iterable[str]) -> str:
    inner = "".join(f"<{leaf}>{content(str(leaves[leaf]))}</{leaf}>" for leaf in names if leaf in leaves)
    return f"<{name}>{inner}</{name}>"
