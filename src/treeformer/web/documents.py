"""Documents: skeletons in the native format, as the page and the server exchange them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from treeformer._util.images import upright_size
from treeformer.errors import FormatError, SkeletonError
from treeformer.formats import native_json
from treeformer.formats.rsml.metadata import decimal_text
from treeformer.skeleton import Skeleton
from treeformer.web.errors import RequestError
from treeformer.web.folder import Entry

REVISION = re.compile(r"[0-9a-f]{64}")
SOURCES = frozenset({"predicted", "accepted", "edited", "drawn", "traced", "imported"})


def checked_skeleton(document: object) -> Skeleton:
    """Return the skeleton of a document in the native format."""
    if not isinstance(document, Mapping):
        raise RequestError("The document must be an object.")
    try:
        skeleton = next(native_json.skeletons(document))
    except SkeletonError as error:
        raise RequestError(f"The skeleton is invalid: {error}") from None
    if not skeleton.is_forest:
        raise RequestError("The skeleton is invalid: it has a cycle.")
    return skeleton


def checked_revision(revision: object) -> str | None:
    """Return a revision of a request."""
    if revision is None or (isinstance(revision, str) and REVISION.fullmatch(revision)):
        return revision
    raise RequestError("The revision is invalid.")


def complete(skeleton: Skeleton) -> Skeleton:
    """Return a forest that states what files may leave out: roots, plants and axes."""
    _ = skeleton.parents
    changes: dict[str, Any] = {}
    if len(skeleton.roots) < len(skeleton.component_root):
        changes["root"] = sorted(skeleton.component_root.tolist())
    if skeleton.plant is None:
        changes["plant"] = skeleton.plant_of_node
    if not skeleton.has_explicit_axes:
        changes |= {"axes": skeleton.axes, "edge_axis": skeleton.edge_axis}
    return skeleton.replace(**changes) if changes else skeleton


def with_image(skeleton: Skeleton, entry: Entry) -> Skeleton:
    """Return a skeleton with the name and the size of its image."""
    size = skeleton.image_size
    with suppress(FormatError):
        size = upright_size(entry.path)
    return skeleton.replace(image_name=entry.path.name, image_size=size)


def with_provenance(skeleton: Skeleton, accepted: bool) -> Skeleton:
    """Check what the page has stored in `metadata.editor`, and add when it was saved and the scale for RSML."""
    metadata = dict(skeleton.metadata)
    given = metadata.get("editor", {})
    if not isinstance(given, Mapping):
        raise RequestError("metadata.editor must be an object.")
    editor = {key: value for key, value in given.items() if key != "written"}
    for key, count in (("node_source", len(skeleton.nodes)), ("edge_source", len(skeleton.edges))):
        sources = editor.get(key)
        if sources is None:
            continue
        if not isinstance(sources, list) or len(sources) != count or not SOURCES.issuperset(map(str, sources)):
            raise RequestError(f"metadata.editor.{key} must have one source per {key.split('_')[0]}.")
    for key in ("seconds", "actions", "px_per_mm"):
        value = editor.get(key)
        if value is not None and not (type(value) in (int, float) and math.isfinite(value) and value >= 0):
            raise RequestError(f"metadata.editor.{key} must be a number, and not negative.")
    editor |= {"accepted": accepted, "saved": datetime.now(UTC).isoformat(timespec="seconds")}
    if scale := editor.get("px_per_mm"):
        rsml = metadata.get("rsml")
        metadata["rsml"] = {
            **(rsml if isinstance(rsml, Mapping) else {}),
            "unit": "mm",
            "resolution": decimal_text(float(scale)),
        }
    return skeleton.replace(metadata=metadata | {"editor": editor})
