"""The predictions of a series: those of a date are written as soon as they are finished, and can be used again.

A prediction records the checksum of its image, the model and the settings. It is used again only if all are the same.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treeformer import formats
from treeformer._util.arrays import ImageArray
from treeformer._util.files import sha256
from treeformer._util.images import open_image
from treeformer.errors import TreeformerError
from treeformer.inference.options import PredictionOptions
from treeformer.inference.provenance import model_hash
from treeformer.results.item import SAVED_BY_A_PERSON, origin_in
from treeformer.results.policy import is_predicted_with
from treeformer.skeleton import Skeleton
from treeformer.timeseries.views import VIEWS, from_view, view_of

if TYPE_CHECKING:
    from treeformer.inference.predictor import Predictor


def prediction_file(results: Path, name: str, view: int = 0) -> Path:
    """Return the file of a prediction of one date."""
    if view == 0:
        return results / "skeletons" / f"{name}.json"
    return results / ".views" / f"{name}.{view}.json"  # hidden, because only a later run needs it


def is_correction(file: Path) -> bool:
    """Return True if a person has corrected or accepted a file in the editor."""
    return origin_in(file) in SAVED_BY_A_PERSON


class DatePredictor:
    """Predict the images of dates, or read what an earlier run predicted."""

    def __init__(self, predictor: Predictor, results: Path, views: int = 1) -> None:
        self._predictor, self._results, self._views = predictor, results, range(views)
        options = PredictionOptions(predictor.model, None, False, None, predictor.engine.name)
        self._settings = {**options.metadata["prediction"], "model_hash": model_hash(predictor.model)}

    def finished(self, name: str, image: Path) -> list[Skeleton] | None:
        """Read the predictions of an earlier run."""
        try:
            found = [formats.read(prediction_file(self._results, name, view)) for view in self._views]
            checksum = sha256(image)
        except TreeformerError:
            return None
        is_current = (is_predicted_with(found[view], self._record(checksum, view)) for view in self._views)
        return found if all(is_current) else None

    def predict(
        self, names: Sequence[str], images: Sequence[Path]
    ) -> Generator[list[Skeleton] | TreeformerError, None, None]:
        """Predict dates, and write the predictions of each before the next one is awaited.

        A file that the editor has saved in the meantime stays: a later run uses it.
        """
        checksums: list[str | None] = []

        def with_checksums() -> Iterator[Path | ImageArray]:
            # An image is read after its checksum: if it is replaced in between, it will be predicted again.
            for image in images:
                checksums.append(checksum(image))
                yield image
                yield from self._other_views(image)

        with closing(self._predictor.predict_many(with_checksums())) as results:
            for k, name in enumerate(names):
                found = [next(results) for _ in self._views]
                if errors := [one for one in found if isinstance(one, TreeformerError)]:
                    yield errors[0]
                    continue
                skeletons = [one for one in found if isinstance(one, Skeleton)]
                for view in self._views:
                    skeletons[view] = self._recorded(skeletons[view], skeletons[0], checksums[k], view)
                    file = prediction_file(self._results, name, view)
                    if not is_correction(file):
                        formats.write(skeletons[view], file)
                yield skeletons

    def _other_views(self, image: Path) -> Iterator[Path | ImageArray]:
        """Yield the views of an image after the first; the image itself if it cannot be read, for the same error."""
        if len(self._views) == 1:
            return
        try:
            pixels = np.asarray(open_image(image))
        except TreeformerError:
            yield from [image] * (len(self._views) - 1)
        else:
            yield from (view_of(pixels, view) for view in self._views[1:])

    def _recorded(self, found: Skeleton, first: Skeleton, checksum: str | None, view: int) -> Skeleton:
        """Return a prediction in px of the image, with the record of how it was made."""
        record = {**found.metadata["prediction"], **self._record(checksum, view)}
        found = found.replace(image_name=first.image_name, metadata={**found.metadata, "prediction": record})
        return from_view(found, view)

    def _record(self, checksum: str | None, view: int) -> dict[str, Any]:
        record = {**self._settings, "image_sha256": checksum}
        return {**record, "view": VIEWS[view]} if view else record


def checksum(file: Path) -> str | None:
    """Return the checksum of a file, None if it cannot be read."""
    try:
        return sha256(file)
    except TreeformerError:
        return None
