"""In which order to correct images so that a model learns most from them, as `treeformer next` ranks them.

The appearance of an image is taken from its thumbnail, which the list of the page needs anyway. Images without a
prediction count as much as the median of the others. Nothing is predicted here.
"""

from __future__ import annotations

import io
import threading
from pathlib import Path

from PIL import Image

from treeformer._util.arrays import FloatArray
from treeformer.errors import TreeformerError
from treeformer.finetuning.next_images import image_features, rank
from treeformer.web.folder import Entry, Workspace
from treeformer.web.pyramid import Pyramids

CANDIDATES, ANNOTATED = ("predicted", "missing"), ("edited", "accepted")


class Ranking:
    """Ranks the images of a workspace. Features of an image are computed again only if its file has changed."""

    def __init__(self, workspace: Workspace, pyramids: Pyramids) -> None:
        self.workspace, self.pyramids = workspace, pyramids
        self._features: dict[Path, tuple[int, FloatArray]] = {}
        self._lock = threading.Lock()

    def images(self) -> list[str]:
        """Return the names of the images without corrections, the one to correct first at the beginning."""
        entries = self.workspace.entries()
        candidates: list[tuple[str, FloatArray, float]] = []
        annotated: list[FloatArray] = []
        with self._lock:
            for entry, summary in zip(entries, self.workspace.summaries(entries), strict=True):
                if summary.state not in CANDIDATES + ANNOTATED:
                    continue
                try:
                    features = self._features_of(entry)
                except (TreeformerError, OSError):  # the list shows what is wrong with the image
                    continue
                if summary.state in ANNOTATED:
                    annotated.append(features)
                else:
                    errors = summary.expected_errors
                    candidates.append((entry.image, features, errors if errors and summary.nodes else float("nan")))
        order = rank([one[1] for one in candidates], [one[2] for one in candidates], annotated)
        return [candidates[index][0] for index, _, _ in order]

    def _features_of(self, entry: Entry) -> FloatArray:
        version = entry.path.stat().st_mtime_ns
        known = self._features.get(entry.path)
        if known is None or known[0] != version:
            with Image.open(io.BytesIO(self.pyramids.thumbnail(entry))) as thumbnail:
                known = (version, image_features(thumbnail))
            self._features[entry.path] = known
        return known[1]
