"""Load and save the skeleton of an image.

A save writes the native JSON and RSML together, each atomically. The revision of an image is the SHA-256 of its current
skeleton file; a save that is based on another revision is refused, so that no work is overwritten.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from treeformer import formats
from treeformer._util.locks import file_lock
from treeformer.errors import TreeformerError
from treeformer.formats import native_json
from treeformer.formats.rsml.metadata import resolution_px_per_mm, with_resolution
from treeformer.results.item import UNSAVED, Origin, is_unchanged, origin_of
from treeformer.results.layout import back_up
from treeformer.results.saved import write_saved
from treeformer.skeleton import Skeleton
from treeformer.web.documents import checked_skeleton, complete, with_image, with_provenance
from treeformer.web.drafts import Drafts
from treeformer.web.errors import RequestError
from treeformer.web.folder import Entry, Workspace

LOCKS = "locks"


class Store:
    """Read and write the skeletons of a workspace. All methods may be called from several threads.

    Attributes:
        workspace: the images and their results.
        drafts: unsaved work.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.drafts = Drafts(workspace)
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def load(self, entry: Entry) -> dict[str, Any]:
        """Return the skeleton of an image: the draft if it is based on the current file, otherwise that file."""
        with self._lock_of(entry):
            document, revision, file = self._current(entry)
            drafts = self.drafts.of(entry)
            draft = max((one for one in drafts if one.revision == revision), key=lambda one: one.time, default=None)
            origin = "none"
            if draft is not None:
                document, origin = draft.document, "draft"
            elif file is not None:
                origin = "result" if file == entry.result and _is_native(file) else "import"
        return {
            "document": document,
            "revision": revision,
            "origin": origin,
            "result_revision": revision,
            "file": None if file is None else self._shown(file),
            "choice": self.workspace.reader.choices([entry.item]),
            "window": None if draft is None else draft.window,
            "time": None if draft is None else draft.time,
            "other_drafts": [
                {"window": one.window, "revision": one.revision, "time": one.time} for one in drafts if one is not draft
            ],
        }

    def skeleton(self, entry: Entry) -> Skeleton | None:
        """Return the saved or imported skeleton of an image, None if there is none."""
        path = self.workspace.current_file(entry)
        return None if path is None else formats.read(path)

    def save(
        self,
        entry: Entry,
        document: object,
        revision: str | None,
        *,
        accepted: bool = False,
        window: str | None = None,
        recovered: tuple[str, float] | None = None,
    ) -> dict[str, Any]:
        """Write the result of an image as JSON and RSML, and remove the draft of `window` that it completes.

        `recovered` is window and time of the draft of another window that the document continues. Raise `RequestError`
        with status 409 if the image has another revision by now.
        """
        if window is not None:
            self.drafts.path(entry, window)
        if recovered is not None:
            self.drafts.path(entry, recovered[0])
        skeleton = with_provenance(with_image(checked_skeleton(document), entry), accepted)
        with self._lock_of(entry), self._between_processes():
            current, current_revision, file = self._current(entry, lenient=True)
            if revision != current_revision:
                raise RequestError(
                    "The result was changed in another window or program; nothing was overwritten.",
                    409,
                    revision=current_revision,
                    document=current,
                )
            origin = self._origin_after_save(entry, file, skeleton, accepted)
            skeleton = with_provenance(skeleton, origin is Origin.accepted)  # one that was accepted may stay so
            stated = origin if origin in UNSAVED else None
            warning = write_saved(entry.result, entry.rsml, skeleton, stated, self.workspace.is_result_stem)
            # The window of a recovered draft may be open, and may have written a newer one.
            if window is not None:
                self.drafts.remove(entry, window)
            if recovered is not None:
                self.drafts.remove(entry, *recovered)
            new = _sha256(entry.result.read_bytes())
        files = [entry.result, *([] if warning else [entry.rsml])]
        answer: dict[str, Any] = {"revision": new, "files": [self._shown(path) for path in files], "origin": origin}
        return answer | ({"warning": warning} if warning else {})

    def save_prediction(self, entry: Entry, skeleton: Skeleton, *, replace: bool = False) -> bool:
        """Write a prediction as `treeformer predict` does, unless the image has a skeleton by now; return whether.

        With `replace`, it takes the place of an earlier prediction without a draft, and keeps its scale. RSML of it is
        written anew, too; the former file is kept.
        """
        with self._lock_of(entry), self._between_processes():
            path = self.workspace.current_file(entry)
            if replace and path == entry.result and self._is_prediction(path) and not self.drafts.of(entry):
                if (px_per_mm := resolution_px_per_mm(formats.read(path))) is not None:
                    skeleton = with_resolution(skeleton, px_per_mm)
                if entry.rsml.exists():
                    back_up(entry.rsml, self.workspace.is_result_stem)
                    formats.write(skeleton, entry.rsml, format="rsml", preserve=True)
            elif entry.result.exists() or path is not None:
                return False
            formats.write(skeleton, entry.result, format="json")
            return True

    @staticmethod
    def _is_prediction(path: Path) -> bool:
        """Return True if a file is a prediction of treeformer that was not corrected."""
        try:
            skeleton = formats.read(path)
        except TreeformerError:
            return False
        return origin_of(skeleton) is Origin.prediction and isinstance(skeleton.metadata.get("prediction"), Mapping)

    def _origin_after_save(self, entry: Entry, file: Path | None, new: Skeleton, accepted: bool) -> Origin:
        """Return what a skeleton is when it is saved. A save without a change, or of the scale, changes nothing."""
        if accepted:
            return Origin.accepted
        with suppress(TreeformerError):
            before = None if file is None else formats.read(file)
            if before is not None and is_unchanged(new, complete(with_image(before, entry))):
                return origin_of(before)
        return Origin.correction

    # ---- drafts -------------------------------------------------------------------------------

    def save_draft(self, entry: Entry, document: object, revision: str | None, window: str) -> None:
        """Store unsaved work; see `Drafts.write`."""
        with self._lock_of(entry):
            self.drafts.write(entry, document, revision, window)

    def delete_draft(self, entry: Entry, window: str, time: float | None = None) -> None:
        """Remove the draft of a window, if there is one."""
        with self._lock_of(entry):
            self.drafts.remove(entry, window, time)

    # ---- files --------------------------------------------------------------------------------

    def _current(self, entry: Entry, lenient: bool = False) -> tuple[dict[str, Any], str | None, Path | None]:
        """Return document, revision and file of an image.

        If the file cannot be read, `lenient` returns an empty document, so that it can be replaced.
        """
        path = self.workspace.current_file(entry)
        if path is None:
            return native_json.to_document(with_image(Skeleton([], []), entry)), None, None
        data = path.read_bytes()
        try:
            skeleton = formats.read(path)
            document = native_json.to_document(complete(with_image(skeleton, entry)))
        except TreeformerError as error:
            if not lenient:
                raise RequestError(f"{self._shown(path)} cannot be edited: {error}", 422) from None
            document = native_json.to_document(with_image(Skeleton([], []), entry))
        return document, _sha256(data), path

    def _shown(self, path: Path) -> str:
        root = self.workspace.results_root
        return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()

    def _between_processes(self) -> AbstractContextManager[None]:
        """Keep other editors of the same results from writing between the comparison of revisions and the write."""
        return file_lock(self.workspace.own_folder(LOCKS) / "save")

    def _lock_of(self, entry: Entry) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(entry.image, threading.Lock())


def _is_native(path: Path) -> bool:
    found = formats.detect_format(path)
    return found is not None and found.name == "json"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
