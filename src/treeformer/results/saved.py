"""Write what the editor saves: native JSON and RSML together, with digests by which it recognizes its own files.

The digests are in `metadata.editor.written` of the JSON file, and so is what the skeleton is if it was saved unchanged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from treeformer import formats
from treeformer._util.files import atomic_write
from treeformer.errors import FormatError
from treeformer.formats import native_json
from treeformer.results.layout import back_up
from treeformer.skeleton import Skeleton


def write_saved(
    result: Path,
    rsml: Path,
    skeleton: Skeleton,
    origin: str | None = None,
    is_taken: Callable[[Path], bool] = lambda _: False,
) -> str | None:
    """Write a skeleton as JSON and RSML. Files that the editor did not write are kept first, see `back_up`.

    RSML takes its place first; the JSON file, which has the revision, completes the save.
    """
    stated = {} if origin is None else {"origin": str(origin)}
    originals = [path for path in (result, rsml) if not is_own(result, path)]
    warning = None
    with atomic_write(result) as new_json:
        try:
            with atomic_write(rsml) as new_rsml:
                formats.write(skeleton, new_rsml, format="rsml", preserve=True)
                _write_json(skeleton, new_json, stated | {"rsml": _sha256(new_rsml)})
                for path in originals:
                    back_up(path, is_taken)
        except FormatError as error:
            warning = f"RSML was not written: {str(error).partition(': ')[2] or error}"
            _write_json(skeleton, new_json, stated)
            for path in originals:
                back_up(path, is_taken)
    return warning


def _write_json(skeleton: Skeleton, path: Path, written: dict[str, str]) -> None:
    written = written | {"json": digest(native_json.to_document(skeleton))}
    metadata = {**skeleton.metadata, "editor": {**skeleton.metadata["editor"], "written": written}}
    formats.write(skeleton.replace(metadata=metadata), path, format="json")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document in the native format without the digests in it."""
    metadata = dict(document.get("metadata", {}))
    if isinstance(metadata.get("editor"), Mapping):
        metadata["editor"] = {key: value for key, value in metadata["editor"].items() if key != "written"}
    text = json.dumps({**document, "metadata": metadata}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def is_own(result: Path, path: Path) -> bool:
    """Return True if the editor wrote a file as it is now, together with the native JSON."""
    if not path.exists():
        return True
    try:
        document = json.loads(result.read_bytes())
        written = document["metadata"]["editor"]["written"]
        if path == result:
            return bool(written["json"] == digest(document))
        return bool(written["rsml"] == _sha256(path))
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return False
