"""Drafts: unsaved work, one file per image and window in `.treeformer/drafts`."""

from __future__ import annotations

import hashlib
import json
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treeformer._util.files import atomic_write_bytes
from treeformer.errors import TreeformerError
from treeformer.web.documents import checked_revision, checked_skeleton
from treeformer.web.errors import RequestError
from treeformer.web.folder import Entry, Workspace

DRAFTS = "drafts"
WINDOW = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Draft:
    """Unsaved work on an image.

    Attributes:
        path: its file.
        window: the window that made it.
        revision: the revision of the image that it is based on, None if there was no skeleton.
        time: when it was stored, seconds since 1970.
        document: the skeleton in the native format.
    """

    path: Path
    window: str
    revision: str | None
    time: float
    document: dict[str, Any]


class Drafts:
    """The draft files of a workspace. `Store` keeps several threads from changing those of one image at a time."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def path(self, entry: Entry, window: object) -> Path:
        """Return the file of a draft, which need not exist."""
        if not isinstance(window, str) or not WINDOW.fullmatch(window):
            raise RequestError("The window must be named by at most 64 letters and digits.")
        return self._workspace.own_folder(DRAFTS) / f"{_key(entry)}.{window}.json"

    def write(self, entry: Entry, document: object, revision: str | None, window: str) -> None:
        """Store a draft in place of the former one of the same window."""
        checked_skeleton(document)
        path = self.path(entry, window)
        content = {"image": entry.image, "window": window, "revision": revision, "time": time.time()}
        atomic_write_bytes(path, json.dumps(content | {"document": document}, allow_nan=False).encode())

    def remove(self, entry: Entry, window: object, stored: float | None = None) -> None:
        """Remove the draft of a window, if there is one."""
        path = self.path(entry, window)
        if stored is None or any(draft.path == path and draft.time == stored for draft in self.of(entry)):
            path.unlink(missing_ok=True)

    def of(self, entry: Entry) -> list[Draft]:
        """Return all drafts of an image. Damaged files are ignored."""
        folder, key = self._workspace.own_folder(DRAFTS), _key(entry)
        found = []
        for path in sorted(folder.glob(f"{key}.*.json")) if folder.is_dir() else []:
            with suppress(OSError, ValueError, RecursionError, TreeformerError):
                if path.is_symlink():
                    continue
                content = json.loads(path.read_bytes())
                checked_skeleton(content["document"])
                if content["image"] == entry.image:
                    found.append(
                        Draft(
                            path,
                            str(content["window"]),
                            checked_revision(content["revision"]),
                            float(content["time"]),
                            content["document"],
                        )
                    )
        return found

    def keys(self) -> set[str]:
        """Return the keys of all images that have a draft; see `has`."""
        folder = self._workspace.own_folder(DRAFTS)
        return {path.name.split(".")[0] for path in folder.glob("*.json")} if folder.is_dir() else set()

    @staticmethod
    def has(entry: Entry, keys: set[str]) -> bool:
        """Return True if an image has a draft."""
        return _key(entry) in keys


def _key(entry: Entry) -> str:
    return hashlib.sha256(entry.image.encode()).hexdigest()[:32]
