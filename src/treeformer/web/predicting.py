"""Predict images in the background: one thread, one model that is loaded when it is needed first, a queue of jobs."""

from __future__ import annotations

import queue
import secrets
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import treeformer
from treeformer.errors import TreeformerError
from treeformer.formats import native_json
from treeformer.hub.model_folder import WEIGHTS, ModelFolder, open_model
from treeformer.inference.predictor import Predictor
from treeformer.inference.provenance import HASH_LETTERS
from treeformer.skeleton import Skeleton
from treeformer.traits.definitions import LOW_CONFIDENCE_THRESHOLD
from treeformer.web.documents import complete
from treeformer.web.errors import RequestError
from treeformer.web.folder import Entry, Workspace
from treeformer.web.pyramid import Pyramids
from treeformer.web.saving import Store

State = Literal["waiting", "running", "done", "failed", "cancelled"]
Region = tuple[int, int, int, int]

MAX_WAITING = 1000
# Finished jobs that are still listed, and those of them that still have their skeleton.
MAX_FINISHED, MAX_DOCUMENTS = 50, 8
SHORTEST_REGION_PX = 8


class _CancelledError(Exception):
    """The job that is running was cancelled."""


@dataclass
class Job:
    """A request for predictions.

    Attributes:
        key: name of the job.
        entries: the images; None for all that have no result when the job begins.
        again: with `entries` None, also those whose prediction was not corrected.
        working_size: as for `Predictor.predict`.
        region: left, top, right, bottom, px of the full image; the result is then only returned.
        views: number of views, as for `Predictor.predict`.
        state: waiting, running, done, failed or cancelled.
        image: the image that is being predicted, or was last.
        done: number of finished images, or of tiles if the job has one image.
        total: number of images or tiles.
        error: one sentence if the job failed.
        document: the skeleton in the native format, for jobs of one image.
    """

    key: str
    entries: list[Entry] | None
    working_size: int | str | None = None
    region: Region | None = None
    views: int = 1
    again: bool = False
    state: State = "waiting"
    image: str | None = None
    done: int = 0
    total: int = 0
    error: str | None = None
    document: dict[str, Any] | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)

    def shown(self) -> dict[str, Any]:
        """Return the job as the page sees it."""
        keys = ("image", "state", "done", "total", "error")
        fields = {"job": self.key} | {key: getattr(self, key) for key in keys}
        return fields if self.document is None else fields | {"document": self.document}


class Predictions:
    """The queue of jobs."""

    def __init__(
        self,
        workspace: Workspace,
        store: Store,
        pyramids: Pyramids,
        model: str = "default",
        load: Callable[[str], Predictor] | None = None,
    ) -> None:
        self.workspace, self.store, self.pyramids, self.model = workspace, store, pyramids, model
        self._load = load or Predictor
        self._predictor: Predictor | None = None
        self._jobs: dict[str, Job] = {}
        self._queue: queue.Queue[Job | None] = queue.Queue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._running: Job | None = None
        self._folder: ModelFolder | None = None

    def model_info(self) -> dict[str, Any] | None:
        """Return name, version and hash of the model, None if it cannot be opened."""
        folder = self._model_folder()
        return None if folder is None else _described(folder)

    def low_confidence_threshold(self) -> float:
        """Return the edge score below which an edge is doubtful, as the model gives it."""
        folder = self._model_folder()
        given = None if folder is None else folder.config.low_confidence_threshold
        return LOW_CONFIDENCE_THRESHOLD if given is None else given

    def _model_folder(self) -> ModelFolder | None:
        if self._folder is None:
            try:
                self._folder = open_model(self.model, check_hashes=False)
            except TreeformerError:
                return None
        return self._folder

    def predict(
        self, entry: Entry, working_size: int | str | None = None, region: Region | None = None, views: int = 1
    ) -> str:
        """Add a job for one image. Its result is saved only if the image has none."""
        if region is not None:
            size = self.pyramids.describe(entry)
            left, top, right, bottom = region
            region = (max(0, left), max(0, top), min(size["width"], right), min(size["height"], bottom))
            if min(region[2] - region[0], region[3] - region[1]) < SHORTEST_REGION_PX:
                raise RequestError(f"The region must have at least {SHORTEST_REGION_PX} px on each side.")
        return self._add(Job(secrets.token_hex(8), [entry], working_size, region, views, image=entry.image, total=1))

    def predict_missing(self) -> str:
        """Add a job for all images without a result. Return its name."""
        return self._add(Job(secrets.token_hex(8), None))

    def predict_again(self) -> str:
        """Add a job for all images without a correction: without a result, or with a prediction as it was made.

        Images that a person has saved or accepted, or has begun to correct, are left alone. Return the job's name.
        """
        return self._add(Job(secrets.token_hex(8), None, again=True))

    def use_model(self, model: str) -> None:
        """Predict with another model from now on."""
        with self._lock:
            self.model, self._predictor, self._folder = model, None, None

    def jobs(self) -> list[dict[str, Any]]:
        """Return all jobs, the oldest first."""
        with self._lock:
            return [job.shown() for job in self._jobs.values()]

    def cancel(self, key: object) -> None:
        """Cancel a job. A running one stops after the present batch of tiles."""
        with self._lock:
            job = self._jobs.get(key) if isinstance(key, str) else None
            if job is None:
                raise RequestError("There is no such job.", 404)
            job.cancelled.set()
            if job.state == "waiting":
                job.state = "cancelled"

    def close(self, timeout_s: float = 5.0) -> None:
        """Cancel all jobs and end the thread."""
        with self._lock:
            for job in self._jobs.values():
                job.cancelled.set()
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _add(self, job: Job) -> str:
        with self._lock:
            if sum(one.state == "waiting" for one in self._jobs.values()) >= MAX_WAITING:
                raise RequestError("Too many predictions are waiting.", 429)
            self._jobs[job.key] = job
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="treeformer-predictions", daemon=True)
                self._thread.start()
        self._queue.put(job)
        return job.key

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            with self._lock:
                if job.state != "waiting":
                    continue
                job.state, self._running = "running", job
            try:
                state, error = self._run(job)
            except _CancelledError:
                state, error = "cancelled", None
            except TreeformerError as problem:
                state, error = "failed", str(problem)
            except MemoryError:
                state, error = "failed", "There is not enough memory."
            except Exception as problem:  # the thread must survive
                state, error = "failed", f"{type(problem).__name__}: {problem}"
            with self._lock:
                job.state, job.error, self._running = state, error, None
                self._forget_old()

    def _run(self, job: Job) -> tuple[State, str | None]:
        entries = job.entries
        if entries is None:
            listed = self.workspace.refresh()
            states = self.workspace.summaries(listed)
            wanted = ("missing", "predicted") if job.again else ("missing",)
            entries = [entry for entry, one in zip(listed, states, strict=True) if one.state in wanted]
            job.total = len(entries)
        failures = []
        for entry in entries:
            self._check(job)
            job.image = entry.image
            try:
                skeleton = self._predict(job, entry)
                if job.region is None:
                    is_new = self.store.save_prediction(entry, skeleton, replace=job.again)
                    if not is_new and job.entries is None and self.store.skeleton(entry) is None:
                        raise RequestError(f"{entry.result.name} is a file of another kind, it was not overwritten.")
                    self.workspace.note_failure(entry, None)
                if job.entries is not None:
                    job.document = native_json.to_document(complete(skeleton))
            except TreeformerError as error:
                failures.append(f"{entry.image}: {error}")
                if job.region is None:
                    self.workspace.note_failure(entry, str(error))
            if job.entries is None:
                job.done += 1
        if not failures:
            return "done", None
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        return "failed", failures[0] + more

    def _predict(self, job: Job, entry: Entry) -> Skeleton:
        predictor = self._loaded()

        def progress(done: int, total: int) -> None:
            self._check(job)
            if job.entries is not None:
                job.done, job.total = done, total

        options: dict[str, Any] = {"working_size": job.working_size, "views": job.views, "progress": progress}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an image without a plant is a result
            if job.region is None:
                return predictor.predict(entry.path, **options)
            part = predictor.predict(self.pyramids.pixels(entry, job.region), **options)
        size = self.pyramids.describe(entry)
        moved = part.transform(
            [[1, 0, job.region[0]], [0, 1, job.region[1]]], image_size=(size["width"], size["height"])
        )
        return moved.replace(image_name=entry.path.name)

    def _loaded(self) -> Predictor:
        with self._lock:
            predictor, model = self._predictor, self.model
        if predictor is None:
            predictor = self._load(model)
            with self._lock:
                if self.model == model:
                    self._predictor = predictor
        return predictor

    def _check(self, job: Job) -> None:
        if job.cancelled.is_set():
            raise _CancelledError

    def _forget_old(self) -> None:
        finished = [job for job in self._jobs.values() if job.state not in ("waiting", "running")]
        for job in finished[: -MAX_FINISHED or None]:
            del self._jobs[job.key]
        for job in [job for job in finished if job.document is not None][:-MAX_DOCUMENTS]:
            job.document = None


def _described(model: ModelFolder) -> dict[str, Any]:
    version = model.config.version or treeformer.__version__
    return {"name": model.path.name, "version": version, "hash": model.hashes.get(WEIGHTS, "")[:HASH_LETTERS]}
