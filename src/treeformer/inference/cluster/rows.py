"""From the prediction of one image to its row of the result table, and to files beside the table."""

from __future__ import annotations

import math
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from treeformer import formats
from treeformer._util.image_output import encode_image
from treeformer._util.images import open_image
from treeformer.draw import draw
from treeformer.errors import TreeformerError
from treeformer.formats import native_json
from treeformer.formats.rsml.metadata import with_resolution
from treeformer.inference.batch import OVERLAY_ENDING, OVERLAY_LONGEST_PX, OVERLAY_QUALITY
from treeformer.inference.cluster.job import Job
from treeformer.inference.cluster.sources import MEMBER_MARK, ImageEntry
from treeformer.inference.cluster.storage import Folder, NameTooLongError
from treeformer.skeleton import Skeleton
from treeformer.traits import COMPACT_COLUMNS, measure

FILES = "files"
NAME_TOO_LONG = "its name is too long for a file"
TEXT_TRAITS = ("unit", "note")
WHOLE_TRAITS = ("plant", "lateral_count", "tip_count", "branch_point_count", "max_order")


def _trait_type(name: str) -> pa.DataType:
    return pa.string() if name in TEXT_TRAITS else pa.int64() if name in WHOLE_TRAITS else pa.float64()


TRAITS = tuple(name for name in COMPACT_COLUMNS if name not in ("image", "file"))
"""The traits of a plant, as in a compact table; image and file follow from the row."""

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("path", pa.string()),
        ("model_hash", pa.string()),
        ("skeleton", pa.binary()),
        ("traits", pa.list_(pa.struct([(name, _trait_type(name)) for name in TRAITS]))),
        ("error", pa.string()),
    ]
)
"""One row per image. `skeleton` holds the bytes of a JSON file, `traits` one entry per plant. Both are null if there is
an `error`; `traits` also if they were not requested."""

# By default, Parquet files hold the smallest and largest skeleton again, four times, and skeletons as a dictionary.
WRITE_OPTIONS: dict[str, Any] = {"compression": "zstd", "use_dictionary": ["model_hash"], "write_statistics": ["id"]}


@dataclass(frozen=True)
class FetchedImage:
    """An image whose bytes are on a local disk."""

    id: str  # hexadecimal
    entry: ImageEntry
    local: str | None  # local file, None if the image cannot be read
    is_copy: bool = False  # file is a temporary copy, alone in a folder of its own
    error: str | None = None  # why the image cannot be read

    def discard(self) -> None:
        """Delete the temporary copy."""
        if self.is_copy and self.local is not None:
            Path(self.local).unlink(missing_ok=True)
            Path(self.local).parent.rmdir()


@dataclass(frozen=True)
class RowMaker:
    """Make rows of the result table and write the requested files. May be sent to other processes."""

    job: Job
    model_hash: str
    folder: Folder  # of the job

    def __call__(self, image: FetchedImage, result: Skeleton | TreeformerError | str) -> dict[str, Any]:
        """Make the row of an image from its skeleton or error, write its files and delete its temporary copy.

        A refused file is a `FormatError`.
        """
        row: dict[str, Any] = {"id": image.id, "path": path_text(image.entry), "model_hash": self.model_hash}
        row |= {"skeleton": None, "traits": None, "error": None}
        try:
            if not isinstance(result, Skeleton):
                raise TreeformerError(str(result).removeprefix(f"{image.local}: "))
            if self.job.px_per_mm is not None:
                result = with_resolution(result, self.job.px_per_mm)
            made: dict[str, Any] = {
                "skeleton": native_json.to_text(result, Path(image.entry.name)).encode("utf-8", "surrogateescape")
            }
            if self.job.traits:
                made["traits"] = trait_records(result, self.job.px_per_mm)
            files = self._files(image, result)
        except TreeformerError as error:
            row["error"] = " ".join(str(error).splitlines())
        else:
            try:
                for ending, data in files.items():
                    self.folder.write(file_name(image.entry, ending), data)
                row |= made
            except NameTooLongError:
                row["error"] = NAME_TOO_LONG
        finally:
            image.discard()
        return row

    def _files(self, image: FetchedImage, skeleton: Skeleton) -> dict[str, bytes]:
        """Return the content of the requested files by the ending of their names."""
        files = {}
        if self.job.formats:
            with tempfile.TemporaryDirectory(prefix="treeformer-") as temporary:
                for name, ending in format_endings(self.job.formats).items():
                    path = Path(temporary) / f"skeleton{ending}"
                    formats.write(skeleton, path, format=name)
                    files[ending] = path.read_bytes()
        if self.job.overlay:
            assert image.local is not None
            drawn = draw(open_image(image.local, longest_px=OVERLAY_LONGEST_PX), skeleton)
            files[OVERLAY_ENDING] = encode_image(drawn, ".jpg", quality=OVERLAY_QUALITY)
        return files


def path_text(image: ImageEntry) -> str:
    """Return the path of an image as the result table states it: bytes that are not UTF-8 are escaped."""
    return image.path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def format_endings(names: tuple[str, ...]) -> dict[str, str]:
    """Return the ending of the files of each format; raise `FormatError` if a format cannot be written."""
    endings: dict[str, str] = {}
    for name in names:
        suffix = formats.format_for_writing(Path(), name).suffixes[0]
        endings[name] = suffix if suffix not in endings.values() else f".{name}{suffix}"
    return endings


def file_name(image: ImageEntry, ending: str) -> str:
    """Return the name of a file beside the table: the whole path of the image, without its scheme, and an ending.

    Example:
        >>> file_name(ImageEntry("s3://plants/day 2/a.jpg", 7, 0), ".rsml")
        'files/plants/day 2/a.jpg.rsml'
    """
    path = MEMBER_MARK.sub("/", image.path.rpartition("://")[2]).replace("\\", "/")
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    return "/".join([FILES, *parts]) + ending


def trait_records(skeleton: Skeleton, px_per_mm: float | None) -> list[dict[str, Any]]:
    """Measure the compact traits of a forest: one record per plant with the names in `TRAITS`, None if unknown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = measure(skeleton, columns="compact", px_per_mm=px_per_mm)
    return [{name: _plain(record[name]) for name in TRAITS} for record in table.to_dict("records")]


def _plain(value: Any) -> Any:
    """Return a value of a table as Arrow stores it, None if it is missing."""
    if isinstance(value, str):
        return value
    return None if value is None or value != value or math.isnan(float(value)) else value
