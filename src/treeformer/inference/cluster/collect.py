"""Collect the part files of a run into one table: check them, remove duplicates, count what is missing."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

import treeformer
from treeformer._util.arrays import BoolArray
from treeformer._util.files import remove_leftovers
from treeformer._util.progress import ProgressCallback
from treeformer.errors import FormatError, TreeformerError
from treeformer.inference.cluster.job import MANIFESTS, read_planned_settings
from treeformer.inference.cluster.manifest import (
    PARTS,
    Manifest,
    ManifestReader,
    Task,
    read_manifests,
    unfinished,
)
from treeformer.inference.cluster.rows import SCHEMA, WRITE_OPTIONS, path_text
from treeformer.inference.cluster.storage import Folder, absolute, is_remote, open_file
from treeformer.traits import COMPACT_COLUMNS

# Readers of Parquet folders leave out names that begin with "_".
RESULTS, INDEX = "results", "_index.json"
# Rows per file, and bytes that are written at once.
ROWS_PER_FILE = 100_000
BYTES_AT_ONCE = 64_000_000


@dataclass(frozen=True)
class CollectReport:
    """What `collect` found."""

    images: int  # number of rows that were written, one per image
    failed: int  # images with an error
    missing: int  # images without a result
    duplicates: int  # rows that were left out because a newer one is there
    damaged: int  # part files that were unreadable or wrong and have been removed


def collect(
    folder: Folder,
    *,
    partial: bool = False,
    traits: str | None = None,
    rows_per_file: int = ROWS_PER_FILE,
    progress: ProgressCallback | None = None,
) -> CollectReport:
    """Write the results of a run to `results/`: one row per image, in the order of the plan, in files of equal length.

    A part file must hold exactly the ids of its task; otherwise it is removed, and the next run makes it again. If an
    image was planned several times, because it changed or was tried again, the newest plan counts. The index is written
    last: if `results/_index.json` exists, the files that it names are complete.

    Missing results are an error unless `partial`. `traits` is a CSV file, a path or an address, for the traits of all
    images, one row per plant. `progress` counts tasks.
    """
    settings = read_planned_settings(folder)
    if traits is not None and not settings.get("traits"):
        raise TreeformerError(f"{folder.path}: the run was made with --no-traits: there are no traits to collect")
    manifests = read_manifests(folder)
    keep = _newest(folder, manifests)
    present = set(folder.names(PARTS))
    if settings.get("treeformer") != treeformer.__version__:
        _check_columns(folder, sorted(present), settings.get("treeformer"))
    tasks = [task for manifest in manifests for task in manifest.tasks()]
    missing = sum(int(_kept(keep, task).sum()) for task in tasks if task.part not in present)
    if missing and not partial:
        raise TreeformerError(f"{folder.path}: {missing} images have no result yet: run predict-cluster again")
    if traits is not None:  # before the results of an earlier call are deleted
        _check_traits_file(traits)
    for name in [INDEX, *folder.names(RESULTS, lambda name: name.endswith(".parquet"))]:
        folder.delete(f"{RESULTS}/{name}")
    reader, failed, duplicates, damaged = ManifestReader(folder), 0, 0, 0
    with _TableWriter(folder, rows_per_file) as table, _TraitsWriter(traits) as trait_table:
        for done, task in enumerate(tasks, start=1):
            kept = _kept(keep, task)
            rows = read_part(folder, task, reader) if task.part in present else None
            if rows is not None:
                duplicates += int((~kept).sum())
                rows = rows if kept.all() else rows.filter(pa.array(kept))
                failed += len(rows) - rows.column("error").null_count
                table.write(rows)
                trait_table.write(rows)
            elif task.part in present:
                damaged += 1
                missing += int(kept.sum())
            if progress is not None:
                progress(done, len(tasks))
        if damaged and not partial:
            raise TreeformerError(
                f"{folder.path}: {damaged} damaged part files were removed: run predict-cluster again"
            )
    if not missing and not is_remote(folder.path):  # no process writes any more
        remove_leftovers(Path(folder.file(PARTS)))
    index = {"rows": table.rows, "failed": failed, "missing": missing, "files": table.names}
    folder.write(f"{RESULTS}/{INDEX}", (json.dumps(index, indent=2) + "\n").encode())
    return CollectReport(table.rows, failed, missing, duplicates, damaged)


def _check_columns(folder: Folder, parts: list[str], version: object) -> None:
    """Raise `TreeformerError` if the parts of another version have other columns: `read_part` would remove them all."""
    for name in parts:
        try:
            with open_file(folder.file(f"{PARTS}/{name}")) as file:
                schema = parquet.read_schema(file)
        except (pa.ArrowException, OSError, FormatError):
            continue
        if not schema.equals(SCHEMA):
            raise TreeformerError(
                f"{folder.path}: the results were made with treeformer {version} and have other columns than those of"
                f" {treeformer.__version__}: collect them with that version"
            )
        return


def read_part(folder: Folder, task: Task, reader: ManifestReader) -> pa.Table | None:
    """Return one row per image of a task, in the order of the plan; remove a damaged file and return None."""
    try:
        rows = parquet.read_table(io.BytesIO(folder.read(f"{PARTS}/{task.part}")))
    except (pa.ArrowException, OSError):
        rows = None
    if rows is not None and rows.schema.equals(SCHEMA):
        expected = [id_.hex() for id_ in reader.table(task).column("id").to_pylist()]
        if rows.column("id").to_pylist() == expected:
            return rows
    folder.delete(f"{PARTS}/{task.part}")
    return None


def failed_ids(folder: Folder) -> set[bytes]:
    """Return the ids of the images whose newest result is an error, except those that are planned again already.

    An image that was replaced since it failed is planned under another id, so images are compared by their paths.
    """
    failed: dict[str, str] = {}
    for name in folder.names(PARTS):  # names sort by the age of their manifests
        try:
            with open_file(folder.file(f"{PARTS}/{name}")) as file:
                rows = parquet.read_table(file, columns=["id", "path", "error"]).to_pydict()
        except (pa.ArrowException, OSError, FormatError):
            continue  # `collect` removes it
        for id_, path, error in zip(rows["id"], rows["path"], rows["error"], strict=True):
            if error is None:
                failed.pop(path, None)
            else:
                failed[path] = id_
    reader = ManifestReader(folder)
    for task in unfinished(folder) if failed else ():
        for _, image in reader.images(task):
            failed.pop(path_text(image), None)
    return {bytes.fromhex(id_) for id_ in failed.values()}


def _newest(folder: Folder, manifests: list[Manifest]) -> dict[str, BoolArray]:
    """Return, per manifest, which rows have no row with the same path in a newer manifest."""
    if len(manifests) < 2:
        return {manifest.name: np.ones(manifest.count, dtype=bool) for manifest in manifests}
    keep: dict[str, BoolArray] = {}
    newer: list[pa.Array] = []
    for manifest in reversed(manifests):
        with open_file(folder.file(f"{MANIFESTS}/{manifest.name}.parquet")) as file:
            paths = parquet.read_table(file, columns=["path"]).column("path")
        is_old = pc.is_in(paths, value_set=pa.chunked_array(newer, type=paths.type))
        keep[manifest.name] = ~is_old.to_numpy()
        newer += paths.chunks
    return keep


def _kept(keep: dict[str, BoolArray], task: Task) -> BoolArray:
    return keep[task.manifest][task.start : task.start + task.count]


class _TableWriter:
    """Write rows to files of equal length. A file appears when it is complete."""

    def __init__(self, folder: Folder, rows_per_file: int) -> None:
        self.folder, self.rows_per_file = folder, rows_per_file
        self.rows, self.names = 0, list[str]()
        self.pending: list[pa.Table] = []
        self.stack = ExitStack()
        self.writer: Any = None
        self.in_file = 0

    def __enter__(self) -> _TableWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is None:
            self._flush()
            self._close()
        else:
            self.stack.__exit__(*error)

    def write(self, rows: pa.Table) -> None:
        while len(rows):
            room = self.rows_per_file - self.in_file - sum(map(len, self.pending))
            self.pending.append(rows.slice(0, room))
            rows = rows.slice(room)
            full = room <= len(self.pending[-1])
            if full or sum(table.nbytes for table in self.pending) > BYTES_AT_ONCE:
                self._flush()
            if full:
                self._close()

    def _flush(self) -> None:
        if not self.pending:
            return
        if self.writer is None:
            self.names.append(f"part-{len(self.names):05d}.parquet")
            file = self.stack.enter_context(self.folder.writing(f"{RESULTS}/{self.names[-1]}"))
            self.writer = self.stack.enter_context(parquet.ParquetWriter(file, SCHEMA, **WRITE_OPTIONS))
        table = pa.concat_tables(self.pending).combine_chunks()
        self.writer.write_table(table)
        self.rows, self.in_file, self.pending = self.rows + len(table), self.in_file + len(table), []

    def _close(self) -> None:
        self.stack.close()
        self.writer, self.in_file = None, 0


def _traits_file(path: str) -> tuple[Folder, str]:
    """Return the folder and the name of a file at a path or an address."""
    if is_remote(path):
        parent, _, name = absolute(path).rpartition("/")
        return Folder(parent), name
    local = Path(absolute(path))
    return Folder(str(local.parent)), local.name


def _check_traits_file(path: str) -> None:
    folder, name = _traits_file(path)
    if not is_remote(path) and Path(absolute(path)).is_dir():
        raise FormatError(f"{path}: is a folder, not a file")
    if not name:
        raise FormatError(f"{path}: has no file name")
    folder.check_writable()


class _TraitsWriter:
    """Write the traits of all images to a CSV file, with the columns of `predict --traits`."""

    def __init__(self, path: str | None) -> None:
        self.path, self.stack = path, ExitStack()
        self.writer: Any = None

    def __enter__(self) -> _TraitsWriter:
        if self.path is not None:
            folder, name = _traits_file(self.path)
            file = self.stack.enter_context(folder.writing(name))
            self.writer = self.stack.enter_context(csv.CSVWriter(file, TRAITS_SCHEMA))
        return self

    def __exit__(self, *error: Any) -> None:
        self.stack.__exit__(*error)

    def write(self, rows: pa.Table) -> None:
        if self.writer is not None:
            self.writer.write_table(traits_table(rows))


_TRAIT_TYPES: dict[str, Any] = {field.name: field.type for field in SCHEMA.field("traits").type.value_type}
TRAITS_SCHEMA = pa.schema([(name, _TRAIT_TYPES.get(name, pa.string())) for name in COMPACT_COLUMNS])


def traits_table(rows: pa.Table) -> pa.Table:
    """Return the traits in rows of the result table: one row per plant, with the columns of a compact table.

    `image` is the name of the image, `file` its path. Images with an error have no row.
    """
    lists = rows.column("traits").combine_chunks()
    parents = pc.list_parent_indices(lists)
    paths = rows.column("path").combine_chunks().take(parents)
    values = pc.list_flatten(lists)
    labels = {"file": paths, "image": pc.replace_substring_regex(paths, r"(?is)^.*(?:/|\.tar::)", "")}
    columns = [labels[name] if name in labels else pc.struct_field(values, name) for name in COMPACT_COLUMNS]
    return pa.Table.from_arrays(columns, schema=TRAITS_SCHEMA)


def read_results(folder: Folder) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a collected table in batches."""
    for name in folder.names(RESULTS, lambda name: name.endswith(".parquet")):
        with open_file(folder.file(f"{RESULTS}/{name}")) as file:
            yield from parquet.ParquetFile(file).iter_batches()
