"""The predictions of a series: each is written as soon as it is finished, and a later run can use it again.

A prediction records the checksum of its image, the model and the settings. It is used again only if all are the same.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treeformer import formats
from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import sha256
from treeformer.inference.options import PredictionOptions
from treeformer.inference.provenance import is_predicted_with, model_hash
from treeformer.skeleton import Skeleton

if TYPE_CHECKING:
    from treeformer.inference.predictor import Predictor


def prediction_file(results: Path, name: str) -> Path:
    """Return the file of the prediction of one date.

    Args:
        results: The folder of the results.
        name: The name of the date.

    Returns:
        The path; the file need not exist.
    """
    return results / "skeletons" / f"{name}.json"


class DatePredictor:
    """Predict the images of dates, or read what an earlier run predicted.

    Args:
        predictor: The model.
        results: The folder of the results.
    """

    def __init__(self, predictor: Predictor, results: Path) -> None:
        self._predictor, self._results = predictor, results
        options = PredictionOptions(predictor.model, None, False, None, predictor.engine.name)
        self._settings = {**options.metadata["prediction"], "model_hash": model_hash(predictor.model)}

    def finished(self, name: str, image: Path) -> Skeleton | None:
        """Read the prediction of an earlier run.

        Args:
            name: The name of the date.
            image: Its image.

        Returns:
            The skeleton, None if there is none from the same image, model and settings.
        """
        try:
            skeleton = formats.read(prediction_file(self._results, name))
            return skeleton if is_predicted_with(skeleton, self._record(sha256(image))) else None
        except TreeformerError:
            return None

    def predict(
        self, names: Sequence[str], images: Sequence[Path]
    ) -> Generator[Skeleton | TreeformerError, None, None]:
        """Predict dates, and write each prediction before the next one is awaited.

        Args:
            names: The names of the dates.
            images: Their images.

        Yields:
            One skeleton per date, in order, or the error if the image cannot be read.

        Raises:
            TreeformerError: If a prediction cannot be written.
        """
        checksums: list[str | None] = []

        def with_checksums() -> Iterator[Path]:
            # An image is read after its checksum: if it is replaced in between, it will be predicted again.
            for image in images:
                checksums.append(_checksum(image))
                yield image

        with closing(self._predictor.predict_many(with_checksums())) as results:
            for k, (name, result) in enumerate(zip(names, results, strict=True)):
                if isinstance(result, Skeleton):
                    record = {**result.metadata["prediction"], **self._record(checksums[k])}
                    result = result.replace(metadata={**result.metadata, "prediction": record})
                    formats.write(result, prediction_file(self._results, name))
                yield result

    def _record(self, checksum: str | None) -> dict[str, Any]:
        return {**self._settings, "image_sha256": checksum}


def _checksum(image: Path) -> str | None:
    try:
        return sha256(image)
    except TreeformerError:
        return None
