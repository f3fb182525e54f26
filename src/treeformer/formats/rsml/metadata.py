"""Convert the <metadata> of RSML to values that JSON can represent, and back to XML that is valid by the schema.

The schema requires a number as resolution, one of seven units and an ISO date. Real files contain 'xxx dpi',
'pixels' and '6/20/2024 6:03:01 PM'. The reader converts such values to the nearest valid ones ('300 dpi' becomes
inch and 300, a missing scale becomes pixel and 1) and preserves the original element as an unknown one. Reading,
writing and reading again therefore gives the same values. Only a missing or unreadable date becomes the time of
writing.
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

from treeformer._util.text import decimal_number
from treeformer.formats.rsml.preserved import Record, rsml_values, unknown_attributes, unknown_element
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
# SmartRoot requires a resolution. This default is the traditional screen resolution.
FALLBACK_DPI = 72.0
# Added to <software> if the DPI is that value, so that lengths do not become millimeters when the file is read.
WITHOUT_SCALE = "; scale unknown"
# Areas and volumes in these units stay finite.
PLAUSIBLE_PX_PER_MM = (1e-9, 1e9)

_DECIMAL = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)", re.ASCII)
# In existing files, the month comes first in 12-hour dates and the day in 24-hour dates.
_DATE_PATTERNS = ("%m/%d/%Y %I:%M:%S %p", "%d/%m/%Y %H:%M:%S")
_TEXTS = ("software", "user", "file-key")
_NESTED = frozenset({"property-definitions", "time-sequence", "image"})
_KNOWN = _NESTED | {"version", "unit", "resolution", "last-modified", *_TEXTS}
_DEFINITION = ("label", "type", "unit", "default")
_IMAGE = ("name", "sha256", "captured")


def decimal_text(value: float) -> str:
    """Return the shortest decimal that reads back as exactly this number. The schema forbids exponents.

    >>> decimal_text(989.0), decimal_text(0.1), decimal_text(1e-7)
    ('989', '0.1', '0.0000001')
    """
    text = repr(value)
    if "e" in text:
        text = format(Decimal(text), "f")
    return text.removesuffix(".0")


def normalize_scale(unit: str, resolution: str) -> tuple[str, str]:
    """Return unit and resolution (pixels per unit) as the schema requires them, ('pixel', '1') if the scale is unknown.

    >>> normalize_scale("pixel", "300 dpi"), normalize_scale("mm", "11,8"), normalize_scale("cm", "xxx dpi")
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
        value = decimal_number(number)
    except ValueError:
        return "pixel", "1"
    if not (math.isfinite(value) and value > 0) or (unit != "pixel" and unit not in MM_PER_UNIT):
        return "pixel", "1"
    return unit, number if _DECIMAL.fullmatch(number) else decimal_text(value)


def resolution_px_per_mm(skeleton: Skeleton) -> float | None:
    """Return the pixels per millimeter of a skeleton read from RSML, None if its physical scale is unknown.

    Values that no camera or scanner has, outside `PLAUSIBLE_PX_PER_MM`, count as unknown.

    >>> resolution_px_per_mm(Skeleton([], [], metadata={"rsml": {"unit": "inch", "resolution": "254"}}))
    10.0
    """
    head = rsml_values(skeleton.metadata)
    unit, resolution = normalize_scale(str(head.get("unit", "")), str(head.get("resolution", "")))
    if unit == "pixel":
        return None
    per_mm = float(resolution) / MM_PER_UNIT[unit]
    return per_mm if PLAUSIBLE_PX_PER_MM[0] <= per_mm <= PLAUSIBLE_PX_PER_MM[1] else None


def with_resolution(skeleton: Skeleton, px_per_mm: float) -> Skeleton:
    """Return a skeleton that states its resolution, as RSML and native JSON store it.

    >>> resolution_px_per_mm(with_resolution(Skeleton([], []), 11.8))
    11.8
    """
    rsml = {**rsml_values(skeleton.metadata), "unit": "mm", "resolution": decimal_text(float(px_per_mm))}
    return skeleton.replace(metadata={**skeleton.metadata, "rsml": rsml})


def iso_date(text: str) -> str | None:
    """Return a date and time in ISO format, None if the text is not a date.

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
    """Read <metadata>: return the values by element name and the name of the image.

    Elements and attributes that are not in the schema are added to `unknown`.
    """
    unknown.extend(unknown_attributes("metadata", element.attrib))
    nodes: dict[str, Element] = {}
    for child in element:
        name = local_name(child.tag)
        if name in nodes or name not in _KNOWN or (name not in _NESTED and (len(child) or child.attrib)):
            unknown.append(unknown_element("metadata", child))
        else:
            nodes[name] = child

    def text(name: str) -> str:
        return (nodes[name].text or "").strip() if name in nodes else ""

    unit, resolution = normalize_scale(text("unit"), text("resolution"))
    is_without_scale = text("software").endswith(WITHOUT_SCALE)
    if is_without_scale:
        unit, resolution = "pixel", "1"
    values: dict[str, Any] = {"version": text("version") or "1", "unit": unit, "resolution": resolution}
    if date := iso_date(text("last-modified")):
        values["last-modified"] = date
    for name in ("last-modified",) if is_without_scale else ("unit", "resolution", "last-modified"):
        if text(name) and text(name) != values.get(name):
            unknown.append(unknown_element("metadata", nodes[name]))
    values |= {name: text(name).removesuffix(WITHOUT_SCALE) for name in _TEXTS if text(name)}
    for name, read_node in (("property-definitions", _definitions), ("time-sequence", _time_sequence)):
        if name in nodes:
            value = read_node(nodes[name])
            if value is None:
                unknown.append(unknown_element("metadata", nodes[name]))
            else:
                values[name] = value
    image, image_name = _image(nodes["image"], unknown) if "image" in nodes else ({}, None)
    return values | ({"image": image} if image else {}), image_name


def _leaves(element: Element) -> dict[str, str] | None:
    """Return the texts of an element's children by name, None if they are not distinct plain leaves."""
    names = [local_name(child.tag) for child in element]
    if element.attrib or len(set(names)) < len(names) or any(len(child) or child.attrib for child in element):
        return None
    return {name: (child.text or "").strip() for name, child in zip(names, element, strict=True)}


def _definitions(element: Element) -> list[dict[str, str]] | None:
    definitions = []
    for child in element:
        leaves = _leaves(child)
        fits = leaves is not None and {"label", "type"} <= leaves.keys() <= set(_DEFINITION)
        if leaves is None or not fits or child.tag != "property-definition" or element.attrib:
            return None
        definitions.append(leaves)
    return definitions


def _time_sequence(element: Element) -> dict[str, Any] | None:
    leaves = _leaves(element)
    if leaves is None or not {"index"} <= leaves.keys() <= {"label", "index", "unified"}:
        return None
    unified = {"true": True, "1": True, "false": False, "0": False}.get(leaves.get("unified", "false").lower())
    if unified is None or not re.fullmatch(r"[-+]?[0-9]{1,15}", leaves["index"]):
        return None
    return {"label": leaves.get("label", ""), "index": int(leaves["index"]), "unified": unified}


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
            unknown.append(unknown_element("image", child))
    label = values.pop("label", None)
    if label is not None and "name" in values:
        unknown.append({"of": "image", "xml": f"<label>{content(label)}</label>"})
    return values, values.pop("name", label)


# ---- writing ------------------------------------------------------------------------------------


def metadata_lines(skeleton: Skeleton, file_stem: str, dialect: Dialect) -> list[str]:
    """Return the lines of <metadata>. Required elements that the skeleton does not provide get defaults.

    The default of <file-key> is the stem of the file. "strict" keeps the unit; "smartroot" converts the scale to inch
    and DPI.
    """
    values = rsml_values(skeleton.metadata)

    def text(name: str, default: str) -> str:
        return str(values.get(name) or "").strip() or default

    unit, resolution = normalize_scale(text("unit", ""), text("resolution", ""))
    software = text("software", "treeformer")
    if dialect == "smartroot":
        per_mm = resolution_px_per_mm(skeleton)
        unit, resolution = "inch", decimal_text(FALLBACK_DPI if per_mm is None else per_mm * MM_PER_UNIT["inch"])
        # SmartRoot treats files of RootNav differently.
        software = "treeformer" if software.lower().startswith("rootnav") else software
        software += WITHOUT_SCALE if per_mm is None else ""
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
