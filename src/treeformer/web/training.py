"""Train on the corrections of the workspace: `treeformer finetune` as a child process.

A process of its own can be ended at any time, and its memory is free afterwards. It prints one JSON object per line,
see `treeformer.finetuning.run.Report`. If the editor is killed, the process ends at its next line, because its
output is not read. The new model is a folder in `.treeformer/models` of the results root.
Results are not touched: to predict again with the new model is another request.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from treeformer._util.locks import take_lock
from treeformer.data.recipe import RECIPE_NAME
from treeformer.errors import TreeformerError
from treeformer.finetuning import work_folder
from treeformer.inference.open_engine import torch_sees_gpu
from treeformer.results.item import Item, Origin
from treeformer.results.policy import OPTION, why_not_learned_from
from treeformer.results.record import find_items, write_record
from treeformer.web.errors import RequestError
from treeformer.web.folder import Entry, Workspace
from treeformer.web.predicting import Predictions
from treeformer.web.saving import LOCKS

State = Literal["idle", "running", "done", "failed", "cancelled"]
MODELS = "models"
NEEDED = ("torch", "lightning", "onnx", "onnxscript")
COMMAND = (sys.executable, "-m", "treeformer", "finetune")
UNCORRECTED = ("predicted", "missing")
# Below the priority of the editor, so that one can go on correcting.
NICE = 10
# How long a process may take to end after it was asked to, s.
PATIENCE_S, PATIENCE_AT_END_S = 60.0, 3.0
# Ctrl-C in the terminal reaches the whole process group. It must not reach the training, which `close` asks to stop: a
# second signal ends it before its checkpoint is written.
OWN_GROUP: dict[str, Any] = {"start_new_session": True}
if sys.platform == "win32":
    OWN_GROUP = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
MAX_LINE_CHARS, MAX_MESSAGE_CHARS, MAX_LINES = 1 << 16, 500, 200
MAX_MINUTES = 7 * 24 * 60


def missing_packages() -> list[str]:
    """Return the packages that training needs and that are not installed."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


@dataclass
class Status:
    """What the page shows of the training.

    Attributes:
        state: idle, running, done, failed or cancelled.
        stage: what the process is doing, as in `treeformer.finetuning.run`.
        lines: its lines for people, the newest last; at the end of a failed run the reason.
        done: finished items of the stage.
        total: all items of the stage, 0 if unknown.
        seconds_left: estimated time to the end, None if unknown.
        before: F1 of the start model on the validation images, None if unknown.
        after: F1 of the new model, None before it is complete.
        model: name of the new model, None before it is complete.
        folder: its path.
        unannotated: whether images without corrections are learned from, too. Before a training, whether the one that
            was interrupted did: only then it is continued.
        pseudo_labels: number of these images that got pseudo-labels; at the end, with which the new model was trained.
            None if unknown.
    """

    state: State = "idle"
    stage: str = ""
    lines: list[str] = field(default_factory=list)
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    before: float | None = None
    after: float | None = None
    model: str | None = None
    folder: str | None = None
    unannotated: bool = False
    pseudo_labels: int | None = None

    def say(self, line: str) -> None:
        """Add a line."""
        self.lines = [*self.lines[-MAX_LINES + 1 :], " ".join(line.split())[:MAX_MESSAGE_CHARS]]


class Training:
    """At most one training at a time. All methods may be called from several threads.

    Every training starts from the model that the editor was started with, so that no image that it is validated on was
    used before.
    """

    def __init__(
        self,
        workspace: Workspace,
        predictions: Predictions,
        command: Sequence[str] = COMMAND,
        has_gpu: Callable[[], bool] = torch_sees_gpu,
    ) -> None:
        self.workspace, self.predictions, self.command, self.has_gpu = workspace, predictions, tuple(command), has_gpu
        self._start_model = predictions.model
        self._status = Status(unannotated=self._was_unannotated())
        self._process: subprocess.Popen[str] | None = None
        self._cancelled = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def status(self) -> dict[str, Any]:
        """Return the state as the page sees it, and which packages are missing."""
        missing = missing_packages() if self.command == COMMAND else []
        with self._lock:
            return {**vars(self._status), "missing_packages": missing}

    def start(
        self, max_minutes: float | None = None, *, unannotated: bool = False, include_unaccepted: bool = False
    ) -> None:
        """Begin to train."""
        if max_minutes is not None and not 0 < max_minutes <= MAX_MINUTES:
            raise RequestError("The time limit must be a positive number of minutes.")
        if self.command == COMMAND and missing_packages():
            raise RequestError("Training needs further packages: pip install 'treeformer[train,export]'", 409)
        entries = self.workspace.refresh()
        summaries = self.workspace.summaries(entries)
        origins = [(entry, one.origin) for entry, one in zip(entries, summaries, strict=True) if one.origin is not None]
        learned = [entry for entry, one in origins if why_not_learned_from(one, include_unaccepted) is None]
        if not learned:
            is_corrected = any(origin is Origin.correction for _, origin in origins)
            hint = ", or include the corrections that were not accepted" if is_corrected else ""
            raise RequestError(f"Accept at least one image first{hint}.", 409)
        others = [entry for entry, one in zip(entries, summaries, strict=True) if one.state in UNCORRECTED]
        if unannotated and not others:
            raise RequestError("There is no image without corrections to learn from.", 409)
        if unannotated and not self.has_gpu():
            raise RequestError("Learning from images without corrections needs a GPU, and torch sees none.", 409)
        needed = [*learned, *others] if unannotated else learned
        with self._lock:
            if self._status.state == "running":
                raise RequestError("A training is running already.", 409)
            target, lock = self._new_folder()
            try:
                options = [*(["--unannotated"] * unannotated), *([OPTION] * include_unaccepted)]
                process = self._begin(entries, needed, target, max_minutes, options)
            except BaseException:
                os.close(lock)
                raise
            _lower_priority(process.pid)
            self._process, self._cancelled = process, False
            self._status = Status("running", "survey", unannotated=unannotated)
            self._thread = threading.Thread(
                target=self._follow, args=(process, target, lock), name="treeformer-training", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Ask a running process to stop; it keeps what it needs to be continued. Otherwise forget the last one."""
        with self._lock:
            process = self._process
            if process is None:
                self._status = Status(unannotated=self._status.unannotated)
                return
            self._cancelled = True
        _interrupt(process)
        timer = threading.Timer(PATIENCE_S, _kill, (process,))
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            process, self._cancelled = self._process, True
        if process is None:
            return
        _interrupt(process)
        try:
            process.wait(PATIENCE_AT_END_S)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.wait()
        self.join()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until the process has ended and its model is in use."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _new_folder(self) -> tuple[Path, int]:
        """Return the path of the new model and a lock, so that another editor of the folder chooses another one.

        An interrupted run has not used its name, so it is continued. Its lock is free, even if the editor was killed.
        """
        root, locks = self.workspace.own_folder(MODELS), self.workspace.own_folder(LOCKS)
        root.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            target = root / f"trained-{number}"
            if not target.exists() and (lock := take_lock(locks / target.name)) is not None:
                if not target.exists():  # otherwise another editor has just completed it
                    return target, lock
                os.close(lock)
            number += 1

    def _was_unannotated(self) -> bool:
        """Return True if a training was interrupted that learns from images without corrections, too."""
        with suppress(RequestError):  # a folder that leads out of the results root
            root = self.workspace.own_folder(MODELS)
            names = (root / f"trained-{number}" for number in itertools.count(1))
            target = next(path for path in names if not path.exists())
            return work_folder.read_plan(work_folder.work_folder_of(target)).get("unannotated") is True
        return False

    def _folder_of_images(self, entries: Sequence[Entry], needed: Sequence[Entry], other: Path) -> Path:
        """Return a folder in which the process finds the images of the list, and no others.

        This is the results root, if possible: the process reads the rule for plates there, and its report names the
        folder. But the list may be a part of it, as after `treeformer edit FOLDER/one.png`.
        """
        root = self.workspace.results_root
        if _has_only(root, entries, needed):
            return root
        self._record(entries)
        if _has_only(root, entries, needed):
            return root
        shutil.rmtree(other, ignore_errors=True)  # a record is added to an older one
        other.mkdir()
        # Resolved: paths in a record are relative, and ".." after a symbolic link leads elsewhere.
        write_record(other.resolve(), [entry.path for entry in entries], _items(entries))
        with suppress(FileNotFoundError):
            shutil.copyfile(root / RECIPE_NAME, other / RECIPE_NAME)
        return other

    def _record(self, entries: Sequence[Entry]) -> None:
        """Record where the images are, so that the process finds them if the results are elsewhere."""
        workspace = self.workspace
        if workspace.results_root != workspace.images_root:
            workspace.results_root.mkdir(parents=True, exist_ok=True)
            write_record(workspace.results_root, workspace.sources(), _items(entries))

    def _begin(
        self,
        entries: Sequence[Entry],
        needed: Sequence[Entry],
        target: Path,
        max_minutes: float | None,
        options: Sequence[str],
    ) -> subprocess.Popen[str]:
        """Start the process."""
        images = self._folder_of_images(entries, needed, _images_folder(target))
        arguments = [str(images), "-o", str(target), "--progress", "json", "--model", self._start_model]
        if max_minutes is not None:
            arguments += ["--max-minutes", f"{max_minutes:g}"]
        arguments += options
        try:
            return subprocess.Popen(
                [*self.command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                **OWN_GROUP,
            )
        except OSError as error:
            raise RequestError(f"The training cannot be started: {error.strerror or error}.", 500) from None

    def _follow(self, process: subprocess.Popen[str], target: Path, lock: int) -> None:
        """Read the reports until the process ends, release its name, and use its model."""
        assert process.stdout is not None
        assert process.stderr is not None
        errors: list[str] = []
        reader = threading.Thread(target=_collect, args=(process.stderr, errors.append), daemon=True)
        reader.start()
        try:
            _collect(process.stdout, self._note)
            code = process.wait()
            reader.join()
            shutil.rmtree(_images_folder(target), ignore_errors=True)
        finally:
            os.close(lock)
        complete = code == 0 and target.is_dir()
        if complete:
            self.predictions.use_model(str(target))
        with self._lock:
            status, self._process = self._status, None
            status.seconds_left = None
            if complete:
                status.state, status.model, status.folder = "done", target.name, str(target)
            elif self._cancelled:
                status.state = "cancelled"
                status.say("Cancelled. Training with the same images continues where it stopped.")
            else:
                last = next((line for line in reversed(errors) if line.strip()), "").removeprefix("treeformer: ")
                status.state = "failed"
                status.say(last or f"The training ended with code {code}.")

    def _note(self, line: str) -> None:
        """Take over a report. Other lines, as warnings of libraries, are ignored."""
        with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
            report = json.loads(line)
            stage, done, total = str(report["stage"]), int(report["done"]), int(report["total"])
            figures = report.get("figures") or {}
            with self._lock:
                status = self._status
                status.stage, status.done, status.total = stage, done, total
                status.seconds_left = _number(report.get("seconds_left"))
                if message := str(report.get("message") or ""):
                    status.say(message)
                if (before := _number(figures.get("before_topo_f1"))) is not None:
                    status.before = before
                if (after := _number(figures.get("after_topo_f1"))) is not None:
                    status.after = after
                if (labels := _number(figures.get("pseudo_labels"))) is not None:
                    status.pseudo_labels = int(labels)


def _images_folder(target: Path) -> Path:
    """Return the path of the record of images that belongs to a new model."""
    return target.with_name(f".{target.name}-images")


def _items(entries: Sequence[Entry]) -> list[Item]:
    return [entry.item for entry in entries]


def _has_only(folder: Path, entries: Sequence[Entry], needed: Sequence[Entry]) -> bool:
    """Return True if `treeformer finetune` finds all images that are trained on, and only images of the list."""
    try:
        found = {item.image.resolve() for item in find_items(folder)}
    except TreeformerError:  # no image, or one that is recorded was deleted
        return False
    return {entry.path.resolve() for entry in needed} <= found <= {entry.path.resolve() for entry in entries}


def _number(value: object) -> float | None:
    return float(value) if type(value) in (int, float) and math.isfinite(value) else None  # type: ignore[arg-type]


def _collect(stream: IO[str], use: Callable[[str], None]) -> None:
    while line := stream.readline(MAX_LINE_CHARS):
        use(line)
    stream.close()


def _lower_priority(pid: int) -> None:
    if sys.platform != "win32":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, pid, NICE)


def _interrupt(process: subprocess.Popen[str]) -> None:
    with suppress(OSError):
        process.send_signal(signal.SIGINT if sys.platform != "win32" else signal.SIGTERM)


def _kill(process: subprocess.Popen[str]) -> None:
    with suppress(OSError):
        process.kill()
