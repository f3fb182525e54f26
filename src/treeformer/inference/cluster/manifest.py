"""The plan of a run: which images, under which ids, in which tasks.

    OUT/job.json                         settings that change results, see `job`
    OUT/manifests/0000-3fa9c2.parquet    id, path, size, mtime, offset per image; never changed once written
    OUT/parts/0000-3fa9c2-0000012.parquet    results of task 12: rows 12·n to 13·n-1 of the manifest

A task has one result file, whose name follows from the manifest. A task that is repeated, even by two processes at the
same time, replaces its file by an equal one. What is left to do is what has no file: a list of names, not of ids.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from treeformer._util.arrays import BoolArray, IntArray
from treeformer._util.pools import batches
from treeformer.errors import FormatError, TreeformerError
from treeformer.inference.cluster.job import MANIFESTS, hash_settings, read_settings
from treeformer.inference.cluster.sources import ImageEntry
from treeformer.inference.cluster.storage import Folder, open_file

PARTS = "parts"
ID_BYTES = 16
# Images per task at most. A kill loses the unfinished tasks, one per process.
MAX_TASK_IMAGES = 256
# Few images are divided into at least this many tasks, so that all processes have work.
MIN_TASKS = 256
ROWS_PER_GROUP = 65_536

MANIFEST_SCHEMA = pa.schema(
    [
        ("id", pa.binary(ID_BYTES)),
        ("path", pa.binary()),  # UTF-8 as a rule; names of files may be any bytes
        ("size", pa.int64()),
        ("mtime", pa.int64()),
        ("offset", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Manifest:
    """A list of images that is divided into tasks."""

    name: str  # name of the file without its suffix. Names sort by age.
    count: int  # number of images
    task_images: int  # images per task; the last task may have fewer

    def tasks(self) -> list[Task]:
        """Return all tasks."""
        starts = range(0, self.count, self.task_images)
        return [
            Task(self.name, number, start, min(self.task_images, self.count - start))
            for number, start in enumerate(starts)
        ]


@dataclass(frozen=True)
class Task:
    """Consecutive rows of a manifest, whose results form one part file."""

    manifest: str
    number: int  # in the manifest
    start: int  # first row
    count: int  # rows

    @property
    def part(self) -> str:
        """Name of the part file."""
        return f"{self.manifest}-{self.number:07d}.parquet"


def read_manifests(folder: Folder) -> list[Manifest]:
    """Return the manifests of a folder, the oldest first."""
    manifests = []
    for name in folder.names(MANIFESTS, lambda name: name.endswith(".parquet")):
        with _reading(folder, name) as file:
            metadata = parquet.read_metadata(file)
        task_images = int(metadata.metadata.get(b"task_images", b"0"))
        if task_images < 1:
            raise FormatError(f"{folder.file(MANIFESTS)}/{name}: not a manifest of treeformer")
        manifests.append(Manifest(name.removesuffix(".parquet"), metadata.num_rows, task_images))
    return manifests


def unfinished(folder: Folder) -> list[Task]:
    """Return the tasks of all manifests that have no part file."""
    done = set(folder.names(PARTS))
    return [task for manifest in read_manifests(folder) for task in manifest.tasks() if task.part not in done]


class ManifestReader:
    """Read the rows of tasks. Keeps one manifest and one group of its rows in memory."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.name = ""
        self.file: Any = None
        self.groups: tuple[int, int] = (0, 0)
        self.rows: Any = None

    def table(self, task: Task) -> pa.Table:
        """Return the rows of a task."""
        if task.manifest != self.name:
            self.file = parquet.ParquetFile(_reading(self.folder, f"{task.manifest}.parquet"))
            self.name, self.rows = task.manifest, None
        groups = task.start // ROWS_PER_GROUP, (task.start + task.count - 1) // ROWS_PER_GROUP
        if self.rows is None or groups != self.groups:
            self.rows = self.file.read_row_groups(range(groups[0], groups[1] + 1))
            self.groups = groups
        return self.rows.slice(task.start - groups[0] * ROWS_PER_GROUP, task.count)

    def images(self, task: Task) -> list[tuple[str, ImageEntry]]:
        """Return (hexadecimal id, image) per row of a task."""
        columns = self.table(task).to_pydict()
        paths = (path.decode("utf-8", "surrogateescape") for path in columns["path"])
        rows = zip(columns["id"], paths, columns["size"], columns["mtime"], columns["offset"], strict=True)
        return [(id_.hex(), ImageEntry(*entry)) for id_, *entry in rows]


def _reading(folder: Folder, name: str) -> Any:
    return open_file(folder.file(f"{MANIFESTS}/{name}"))


def image_id(image: ImageEntry, settings_hash: bytes) -> bytes:
    """Return the id of an image: 16 bytes from its path, size, time of modification and the settings of the job."""
    text = f"{image.size}\0{image.mtime}\0{image.offset}\0{image.path}".encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=ID_BYTES, key=settings_hash).digest()


def add_images(
    folder: Folder, images: Iterable[ImageEntry], settings_hash: bytes, *, task_images: int | None = None
) -> Manifest | None:
    """Add the images that are in no manifest yet to the plan, as a new manifest. An image that changed is a new image.

    Return None if all images are known. A path may repeat, also with another size or time: its last image counts. Tasks
    have 256 images by default, fewer if there are less than 65,536 images. The settings must still be those of
    `open_job`. The rows go through a temporary file, so that memory holds ids, but not paths.
    """
    rows = ((image_id(image, settings_hash), image) for image in images)
    return _write_manifest(folder, rows, known_ids(folder), task_images, settings_hash)


def _check_settings(folder: Folder, settings_hash: bytes) -> None:
    """Raise `TreeformerError` if another command has replaced the settings since this one stored them."""
    if hash_settings(read_settings(folder)) != settings_hash:
        raise TreeformerError(f"{folder.path}: a run with other settings has started here: choose another output")


def known_ids(folder: Folder) -> pa.ChunkedArray:
    """Return the ids of all images in the plan."""
    columns = []
    for name in folder.names(MANIFESTS, lambda name: name.endswith(".parquet")):
        with _reading(folder, name) as file:
            columns += parquet.read_table(file, columns=["id"]).column("id").chunks
    return pa.chunked_array(columns, type=pa.binary(ID_BYTES))


def add_again(folder: Folder, ids: set[bytes]) -> Manifest | None:
    """Plan images again, under the same ids, as a new manifest; None without ids.

    The newest result of an image counts.
    """
    key = hash_settings(read_settings(folder))
    return _write_manifest(folder, _rows_with(folder, ids), pa.chunked_array([], type=pa.binary(ID_BYTES)), None, key)


def _rows_with(folder: Folder, ids: set[bytes]) -> Iterator[tuple[bytes, ImageEntry]]:
    reader = ManifestReader(folder)
    for manifest in read_manifests(folder):
        for task in manifest.tasks():
            for id_, image in reader.images(task):
                if bytes.fromhex(id_) in ids:
                    yield bytes.fromhex(id_), image


def _write_manifest(
    folder: Folder,
    rows: Iterable[tuple[bytes, ImageEntry]],
    known: pa.ChunkedArray,
    task_images: int | None,
    settings_hash: bytes,
) -> Manifest | None:
    if task_images is not None and task_images < 1:
        raise TreeformerError(f"a task must have at least 1 image, not {task_images}")
    with tempfile.TemporaryDirectory(prefix="treeformer-") as temporary:
        spool = Path(temporary) / "rows.parquet"
        with parquet.ParquetWriter(spool, MANIFEST_SCHEMA, compression="zstd") as writer:
            spooled = [_spool(writer, chunk) for chunk in batches(rows, ROWS_PER_GROUP)]
        ids = [column for column, _ in spooled]
        new = _is_last(np.concatenate([np.empty(0, int), *(hashes for _, hashes in spooled)]), spool)
        new &= ~pc.is_in(pa.chunked_array(ids, type=pa.binary(ID_BYTES)), value_set=known).to_numpy()
        count = int(new.sum())
        if count == 0:
            return None
        size = task_images or min(MAX_TASK_IMAGES, -(-count // MIN_TASKS))
        digest = hashlib.sha256()
        for start, column in _aligned(ids):
            digest.update(_data(column.filter(pa.array(new[start : start + len(column)]))))
        schema = MANIFEST_SCHEMA.with_metadata({"task_images": str(size)})
        # The first plan fixes the settings, so none may be stored between this check and the plan.
        with folder.locked():
            _check_settings(folder, settings_hash)
            number = len(folder.names(MANIFESTS, lambda name: name.endswith(".parquet")))
            name = f"{number:04d}-{digest.hexdigest()[:8]}"
            with (
                folder.writing(f"{MANIFESTS}/{name}.parquet") as file,
                parquet.ParquetWriter(file, schema, compression="zstd") as writer,
            ):
                for group in _regrouped(parquet.ParquetFile(spool).iter_batches(ROWS_PER_GROUP), new):
                    writer.write_table(group.cast(schema), row_group_size=ROWS_PER_GROUP)
    return Manifest(name, count, size)


def _spool(writer: parquet.ParquetWriter, chunk: list[tuple[bytes, ImageEntry]]) -> tuple[pa.Array, IntArray]:
    """Write rows to the temporary file. Return their ids and the hashes of their paths."""
    ids = pa.array([id_ for id_, _ in chunk], type=pa.binary(ID_BYTES))
    paths = [image.path.encode("utf-8", "surrogateescape") for _, image in chunk]
    numbers = [[image[field] for _, image in chunk] for field in (1, 2, 3)]
    columns = [ids, pa.array(paths, type=pa.binary()), *(pa.array(values, type=pa.int64()) for values in numbers)]
    writer.write_table(pa.Table.from_arrays(columns, schema=MANIFEST_SCHEMA))
    return ids, np.fromiter(map(hash, paths), dtype=int, count=len(paths))


def _aligned(columns: list[pa.Array]) -> Iterator[tuple[int, pa.Array]]:
    start = 0
    for column in columns:
        yield start, column
        start += len(column)


def _is_last(hashes: IntArray, spool: Path) -> BoolArray:
    """Return True for the last row of each path, from the hashes of all paths and the file that holds them."""
    last = np.ones(len(hashes), dtype=bool)
    order = np.argsort(hashes, kind="stable")
    repeats = hashes[order[1:]][hashes[order[1:]] == hashes[order[:-1]]]
    if not len(repeats):
        return last
    may_repeat, start = np.isin(hashes, repeats), 0
    row_of: dict[bytes, int] = {}
    for batch in parquet.ParquetFile(spool).iter_batches(ROWS_PER_GROUP, columns=["path"]):
        rows = start + np.flatnonzero(may_repeat[start : start + len(batch)])
        for row, path in zip(rows.tolist(), batch.column(0).take(pa.array(rows - start)).to_pylist(), strict=True):
            if (earlier := row_of.get(path)) is not None:
                last[earlier] = False
            row_of[path] = row
        start += len(batch)
    return last


def _data(chunk: pa.Array) -> memoryview:
    """Return the bytes of ids, one after the other."""
    start = chunk.offset * ID_BYTES
    return memoryview(chunk.buffers()[1])[start : start + len(chunk) * ID_BYTES]


def _regrouped(rows: Iterable[pa.RecordBatch], keep: BoolArray) -> Iterator[pa.Table]:
    """Yield the rows to keep in tables of `ROWS_PER_GROUP` rows, so that the group of a row follows from its number."""
    pending: list[pa.Table] = []
    start = 0
    for batch in rows:
        pending.append(pa.Table.from_batches([batch]).filter(pa.array(keep[start : start + len(batch)])))
        start += len(batch)
        if sum(map(len, pending)) >= ROWS_PER_GROUP:
            table = pa.concat_tables(pending)
            yield table.slice(0, ROWS_PER_GROUP).combine_chunks()
            pending = [table.slice(ROWS_PER_GROUP).combine_chunks()]
    table = pa.concat_tables(pending)
    if len(table):
        yield table
