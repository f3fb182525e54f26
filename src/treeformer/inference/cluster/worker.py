"""Predict tasks in one process: fetch the images, predict them as one stream, write one part file per task."""

from __future__ import annotations

import errno
import functools
import io
import itertools
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from treeformer._util.pools import prefetch_map, process_pool, thread_pool
from treeformer.errors import TreeformerError
from treeformer.inference.cluster import storage
from treeformer.inference.cluster.job import Job, read_settings
from treeformer.inference.cluster.manifest import PARTS, ManifestReader, Task
from treeformer.inference.cluster.rows import NAME_TOO_LONG, SCHEMA, WRITE_OPTIONS, FetchedImage, RowMaker
from treeformer.inference.cluster.sources import ImageEntry
from treeformer.inference.cluster.storage import Folder
from treeformer.inference.predictor import Predictor
from treeformer.inference.provenance import model_hash
from treeformer.skeleton import Skeleton

# Images of object storage that are downloaded at once, and how many more may wait for the network.
PARALLEL_DOWNLOADS = 16
# With a GPU and this many images, processes read the images and decode the skeletons; starting them takes a second.
MIN_IMAGES_FOR_PROCESSES = 256

PredictorMaker = Callable[[Job, int | None], Predictor]
"""Called with the job and the number of CPU threads."""
Pair = tuple[FetchedImage, Skeleton | TreeformerError | str]
"""An image and its skeleton, or why there is none."""


def load_predictor(job: Job, threads: int | None) -> Predictor:
    """Load the model of a job."""
    return Predictor(job.model, engine=job.engine, threads=threads, precision=job.precision)


@dataclass(frozen=True)
class TaskReport:
    """A finished task."""

    part: str  # name of its part file
    images: int
    failed: int  # images with an error


class _StreamError(Exception):
    """The prediction itself failed, for a reason other than an unreadable image."""


class TaskRunner:
    """Hold one model and predict tasks with it.

    The model must be that of the run. `workers` threads read images ahead, processes for many images on a GPU; `batch`
    is the number of tiles per batch, by default the engine's choice.
    """

    def __init__(
        self,
        folder: Folder,
        job: Job,
        *,
        threads: int | None = None,
        workers: int = 2,
        batch: int | None = None,
        make_predictor: PredictorMaker = load_predictor,
    ) -> None:
        self.folder, self.job, self.workers, self.batch = folder, job, workers, batch
        self.predictor = make_predictor(job, threads)
        found, expected = model_hash(self.predictor.model), read_settings(folder).get("model_hash")
        if found != expected:
            raise TreeformerError(f"{job.model}: this node has another model (hash {found}) than the run ({expected})")
        self.make_row = RowMaker(job, found, folder)
        self.reader = ManifestReader(folder)
        self.options: dict[str, Any] = {
            "working_size": job.working_size,
            "single_plant": job.single_plant,
            "min_confidence": job.min_confidence,
            "views": job.views,
        }

    def run(self, tasks: Iterable[Task]) -> Iterator[TaskReport]:
        """Predict tasks, as one stream of images; yield a report after the part file of each has been written."""
        remaining = deque(tasks)
        while remaining:
            try:
                for report in self._run_stream(list(remaining)):
                    remaining.popleft()
                    yield report
            except _StreamError:
                # Something other than an unreadable image, such as lack of memory. Find out which image it is.
                yield self._run_singly(remaining.popleft())

    def _run_stream(self, tasks: list[Task]) -> Iterator[TaskReport]:
        count = sum(task.count for task in tasks)
        on_gpu = self.predictor.engine.device.startswith("cuda")
        processes = self.workers if on_gpu and count >= MIN_IMAGES_FOR_PROCESSES else 0
        with ExitStack() as stack:
            temporary = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="treeformer-", ignore_cleanup_errors=True)
            )
            pairs = stack.enter_context(closing(self._pairs(tasks, temporary, processes > 0)))
            if processes:
                pool = stack.enter_context(process_pool(processes))
                rows = prefetch_map(pool, functools.partial(_make_row, self.make_row), pairs, 2 * processes)
            else:
                rows = itertools.starmap(self.make_row, pairs)
            for task in tasks:
                yield self._write(task, list(itertools.islice(rows, task.count)))

    def _pairs(self, tasks: list[Task], temporary: str, processes: bool) -> Generator[Pair, None, None]:
        """Yield every image with its result, in order."""
        waiting: deque[FetchedImage] = deque()
        images = (image for task in tasks for image in self.reader.images(task))

        def local_paths() -> Iterator[str]:
            fetch = functools.partial(_fetch, temporary)
            for image in prefetch_map(pool, fetch, images, PARALLEL_DOWNLOADS):
                waiting.append(image)
                if image.local is not None:
                    yield image.local

        loading: dict[str, Any] = {"batch": self.batch, "workers": self.workers, "processes": processes}
        with (
            thread_pool(PARALLEL_DOWNLOADS) as pool,
            closing(self.predictor.predict_many(local_paths(), **self.options, **loading)) as results,
        ):
            while True:
                try:
                    result = next(results, None)
                except (TreeformerError, OSError):
                    raise
                except Exception as error:
                    raise _StreamError from error
                while waiting and waiting[0].local is None:
                    yield waiting[0], waiting.popleft().error or ""
                if result is None:
                    return
                yield waiting.popleft(), result

    def _run_singly(self, task: Task) -> TaskReport:
        """Predict the images of a task one by one. Any failure is an error of its image."""
        rows = []
        with tempfile.TemporaryDirectory(prefix="treeformer-", ignore_cleanup_errors=True) as temporary:
            for image in (_fetch(temporary, row) for row in self.reader.images(task)):
                result: Skeleton | TreeformerError | str = image.error or ""
                if image.local is not None:
                    result = _try_predict(self.predictor, image.local, self.options)
                rows.append(self.make_row(image, result))
        return self._write(task, rows)

    def _write(self, task: Task, rows: list[dict[str, Any]]) -> TaskReport:
        assert len(rows) == task.count
        buffer = io.BytesIO()
        parquet.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), buffer, **WRITE_OPTIONS)
        self.folder.write(f"{PARTS}/{task.part}", buffer.getvalue())
        return TaskReport(task.part, len(rows), sum(row["error"] is not None for row in rows))


def _make_row(make_row: RowMaker, pair: Pair) -> dict[str, Any]:
    return make_row(*pair)


def _try_predict(predictor: Predictor, path: str, options: dict[str, Any]) -> Skeleton | TreeformerError | str:
    try:
        return next(predictor.predict_many([path], workers=0, **options))
    except Exception as error:
        return f"prediction failed: {type(error).__name__}: {str(error).strip()}"[:500]


def _fetch(temporary: str, row: tuple[str, ImageEntry]) -> FetchedImage:
    """Make the bytes of an image available as a local file of the same name, because a prediction states the name."""
    id_, entry = row
    try:
        if entry.offset < 0 and not storage.is_remote(entry.path):
            _check_size(entry, storage.entries([entry.path])[0].size)
            return FetchedImage(id_, entry, entry.path)
        data = storage.read_bytes(entry.file, max(0, entry.offset), None if entry.offset < 0 else entry.size)
        _check_size(entry, len(data))
        folder = Path(tempfile.mkdtemp(dir=temporary))
        local = folder / entry.name
        local.write_bytes(data)
        return FetchedImage(id_, entry, str(local), is_copy=True)
    except TreeformerError as error:
        return FetchedImage(id_, entry, None, error=str(error).removeprefix(f"{entry.file}: "))
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # the disk for temporary copies is full or broken
            raise
        return FetchedImage(id_, entry, None, error=NAME_TOO_LONG)


def _check_size(entry: ImageEntry, size: int) -> None:
    if size < 0:
        raise TreeformerError("no such file")
    if entry.size not in (-1, size):
        raise TreeformerError(f"has {size} bytes, not {entry.size}: it has changed since it was listed")
