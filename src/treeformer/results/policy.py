"""What may be replaced, kept or learned from; see docs/results.md.

A new prediction replaces an earlier one and nothing else. Training and validation use what a person has accepted, or
annotated in another program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from treeformer import formats
from treeformer._util.files import is_file
from treeformer._util.progress import ProgressCallback
from treeformer.errors import FormatError
from treeformer.formats.rsml.metadata import resolution_px_per_mm
from treeformer.results.item import GROUND_TRUTH, SAVED_BY_A_PERSON, Origin, Targets, origin_of
from treeformer.results.layout import RSML
from treeformer.skeleton import Skeleton

# They change a prediction by rounding at most.
WITHOUT_EFFECT = ("treeformer", "engine")
OPTION = "--include-unaccepted"


def why_not_learned_from(origin: Origin, include_unaccepted: bool = False) -> str | None:
    """Return why a skeleton is no ground truth, as the end of a sentence; None if it is."""
    if origin in GROUND_TRUTH or (include_unaccepted and origin is Origin.correction):
        return None
    if origin is Origin.correction:
        return f"was corrected but not accepted; {OPTION} uses it"
    return "is a prediction that was not corrected"


def is_predicted_with(skeleton: Skeleton, record: Mapping[str, Any], ignore: Collection[str] = ()) -> bool:
    """Return True if a skeleton was predicted with this model and these settings, `prediction` of its metadata."""
    found = skeleton.metadata.get("prediction")
    if not isinstance(found, Mapping) or found.get("views", 1) != record.get("views", 1):  # not recorded if it is 1
        return False
    return all(key in found and found[key] == value for key, value in record.items() if key not in ignore)


AnyJob = TypeVar("AnyJob", bound=Targets)


@dataclass(frozen=True)
class Decision(Generic[AnyJob]):
    """What a run predicts, and what it keeps.

    Attributes:
        to_do: the images that are predicted.
        kept: images whose corrected results lack some of the files.
        otherwise: images whose results are kept, although another model or other settings predicted them.
        px_per_mm: the scales of predictions that are replaced, by image: a person may have set them.
    """

    to_do: list[AnyJob]
    kept: list[AnyJob]
    otherwise: list[AnyJob]
    px_per_mm: Mapping[Path, float]


def decide(
    jobs: Sequence[AnyJob],
    resume: bool = False,
    record: Callable[[], Mapping[str, Any]] = dict,
    progress: ProgressCallback | None = None,
) -> Decision[AnyJob]:
    """Decide which images are predicted. Every existing result is read once.

    `record` returns `prediction` of the metadata that results have now; it is called if results are kept. Raise
    `FormatError` if a prediction would replace a correction or an annotation.
    """
    done = [job for job in jobs if resume and job.is_done()]
    known = record() if done else {}
    scales: dict[Path, float] = {}
    decision: Decision[AnyJob] = Decision([], [], [], scales)
    is_done = set(map(id, done))
    for number, job in enumerate(jobs, start=1):
        if id(job) in is_done:
            found = _read(job.json)
            is_beside = job.json.parent.samefile(job.image.parent)
            if is_beside and (found is None or origin_of(found) is Origin.annotation):
                raise _not_a_prediction(job.json)  # an annotation is not taken for a result
            is_predicted = found is not None and origin_of(found) is Origin.prediction
            if found is not None and is_predicted and not is_predicted_with(found, known, WITHOUT_EFFECT):
                decision.otherwise.append(job)
        elif _is_replaceable(job, resume, scales):
            decision.to_do.append(job)
        else:
            decision.kept.append(job)
        if progress is not None and done:
            progress(number, len(jobs))
    return decision


def _is_replaceable(job: Targets, resume: bool, scales: dict[Path, float]) -> bool:
    """Return whether an image may be predicted; False keeps a correction. Raise an error if work would be lost."""
    origins: dict[Path, Origin | None] = {job.json: None}
    for path in filter(is_file, job.skeletons.values()):
        if path == job.json or path.suffix == RSML:
            found = _read(path)
            origins[path] = None if found is None else origin_of(found)
            if path == job.json and found is not None and (scale := resolution_px_per_mm(found)) is not None:
                scales[job.image] = scale
        else:  # other formats do not say what they are: they are what the JSON file is
            origins[path] = origins[job.json]
    corrected = next((path for path, origin in origins.items() if origin in SAVED_BY_A_PERSON), None)
    if resume and corrected == job.json:
        return False
    if corrected is not None:
        raise FormatError(
            f"{corrected}: was corrected in the editor: choose another output folder, or keep it with --resume"
        )
    for path, origin in origins.items():
        if origin is not Origin.prediction and is_file(path):
            raise _not_a_prediction(path)
    return True


def _read(path: Path) -> Skeleton | None:
    try:
        return formats.read(path)
    except FormatError:
        return None


def _not_a_prediction(path: Path) -> FormatError:
    return FormatError(f"{path}: exists and is not a prediction: choose another output folder")
