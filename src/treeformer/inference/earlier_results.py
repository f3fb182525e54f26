"""Results of an earlier run: what must not be overwritten, and what another model or other settings made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from treeformer import formats
from treeformer._util.files import is_file
from treeformer._util.progress import ProgressCallback
from treeformer.errors import FormatError
from treeformer.formats.rsml.confidence import has_scores
from treeformer.inference.batch import ImageJob
from treeformer.inference.provenance import is_predicted_with
from treeformer.skeleton.provenance import is_from_editor

# They change a prediction by rounding at most.
WITHOUT_EFFECT = ("treeformer", "engine")


def check_no_annotation_is_lost(jobs: Sequence[ImageJob], to_do: Sequence[ImageJob]) -> None:
    """Raise `FormatError` if a result would overwrite a file that is not a prediction.

    Annotation tools and data sets store `a.json` or `a.rsml` beside `a.jpg`. If the output folder is the folder of the
    images, or of other ones, a prediction would overwrite the ground truth.

    Args:
        jobs: all images. A file beside one of them is not taken for its result.
        to_do: those that will be predicted.
    """
    written = set(map(id, to_do))
    for job in jobs:
        for name, path in job.skeletons.items():
            # JSON and RSML say themselves whether they are predictions. Other formats are what the JSON file is.
            judged = path if name == "rsml" else job.skeletons["json"]
            if not is_file(path) or not (id(job) in written or path.parent.samefile(job.image.parent)):
                continue
            if not _is_prediction(judged):
                raise FormatError(f"{path}: exists and is not a prediction: choose another output folder")


def is_corrected(job: ImageJob) -> bool:
    """Return True if the editor has saved the result of an image: a person has corrected or accepted it."""
    path = job.skeletons["json"]
    with suppress(FormatError):
        return is_file(path) and is_from_editor(formats.read(path))
    return False


def check_no_correction_is_lost(jobs: Sequence[ImageJob]) -> None:
    """Raise `FormatError` if a result would overwrite one that was corrected or accepted in the editor."""
    for job in jobs:
        for path in job.skeletons.values():
            try:
                is_corrected = is_file(path) and is_from_editor(formats.read(path))
            except FormatError:
                continue
            if is_corrected:
                raise FormatError(
                    f"{path}: was corrected in the editor: choose another output folder, or keep it with --resume"
                )


def predicted_otherwise(
    jobs: Sequence[ImageJob], record: Mapping[str, Any], progress: ProgressCallback | None = None
) -> list[Path]:
    """List the images whose results were predicted by another model or with other settings.

    Args:
        jobs: images with results.
        record: `prediction` of the metadata that results have now.
        progress: called with the number of images that were checked, and the total.

    Returns:
        The images. Results that a person has corrected are not among them.
    """
    found = []
    for number, job in enumerate(jobs, start=1):
        with suppress(FormatError):
            skeleton = formats.read(job.skeletons["json"])
            if not is_from_editor(skeleton) and not is_predicted_with(skeleton, record, WITHOUT_EFFECT):
                found.append(job.image)
        if progress is not None:
            progress(number, len(jobs))
    return found


def _is_prediction(path: Path) -> bool:
    try:
        skeleton = formats.read(path)
    except FormatError:
        return False
    # In RSML, the score belongs to the axes, and the prediction of an empty image has none.
    return has_scores(skeleton) or (path.suffix == ".rsml" and not len(skeleton))
