"""The work folder of a run: stored features, checkpoints and the plan, so that an interrupted run can be resumed.

It lies beside the output, under the hidden name `.NAME-finetune`, and is removed when the model folder is complete, or
the run is refused before the training. A run with other images, another start model or other options begins anew; until
then the folder of the earlier one is kept under a longer name, and its own command continues it.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from treeformer._util.files import atomic_write, check_writable, remove_leftovers, sha256
from treeformer.errors import TreeformerError
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.hub.model_folder import ModelFolder

PLAN = "plan.json"
VERSION = 3


def fingerprint(images: Sequence[AnnotatedImage], start: ModelFolder, options: Mapping[str, Any]) -> str:
    """Return a hash of everything that a resumed run has to have in common with the interrupted one."""
    parts = [(image.name, sha256(image.path), sha256(image.skeleton_file)) for image in images]
    document = [VERSION, parts, dict(start.hashes), dict(options)]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def work_folder_of(output: Path) -> Path:
    """Return the path of the work folder of an output folder."""
    return output.absolute().parent / f".{output.name}-finetune"


def lock_file_of(output: Path) -> Path:
    """Return the path of the file that a run locks, so that no other one writes the same output."""
    return output.absolute().parent / f".{output.name}-finetune.lock"


def check_output(output: Path) -> None:
    """Check that a model folder can be written, before any work."""
    if output.name in ("", ".."):
        raise TreeformerError(f"{output}: give the new model folder a name")
    if output.is_symlink() or output.is_mount():  # a complete folder cannot be moved there
        raise TreeformerError(
            f"{output}: is a link or a mounted disk; choose a new name for the model, for example in it"
        )
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise TreeformerError(f"{output}: already exists; choose another name for the new model")
    check_writable(output.parent)


@contextmanager
def without_empty_parents(output: Path) -> Iterator[None]:
    """Remove the parent folders of an output that are created while a block runs and are empty afterwards."""
    missing = [folder for folder in output.absolute().parents if not folder.exists()]
    try:
        yield
    finally:
        with suppress(OSError):  # not empty, or never created
            for folder in missing:
                folder.rmdir()


def open_work_folder(output: Path, key: str) -> tuple[Path, dict[str, Any]]:
    """Open the work folder of an output, or begin a new one and put that of another run aside."""
    folder = work_folder_of(output)
    plan = read_plan(folder)
    if plan.get("fingerprint") != key:
        if plan:
            aside = _aside(folder, str(plan.get("fingerprint")))
            shutil.rmtree(aside, ignore_errors=True)
            folder.rename(aside)
        elif folder.exists():
            shutil.rmtree(folder)
        if _aside(folder, key).exists():
            _aside(folder, key).rename(folder)
        plan = read_plan(folder)
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    return folder, plan


def other_runs(output: Path) -> list[Path]:
    """Return the work folders of interrupted runs with the same output and other images or options."""
    folder = work_folder_of(output)
    name = re.compile(f"{re.escape(folder.name)}-[0-9a-f]{{12}}")
    return [path for path in sorted(folder.parent.iterdir()) if name.fullmatch(path.name)]


def _aside(folder: Path, key: str) -> Path:
    return folder.with_name(f"{folder.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}")


def read_plan(folder: Path) -> dict[str, Any]:
    """Return the plan in a work folder, empty if there is none that can be read. `unannotated` is an option of it."""
    try:
        plan = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return plan if isinstance(plan, dict) else {}


def write_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    """Write the plan of a run atomically."""
    with atomic_write(folder / PLAN) as temporary:
        temporary.write_text(json.dumps(dict(plan), indent=2) + "\n", encoding="utf-8")


def publish(folder: Path, output: Path) -> None:
    """Move a complete model folder to its place, in one step."""
    check_output(output)
    if output.exists():
        output.rmdir()
    folder.rename(output)


def free_bytes(folder: Path) -> int:
    """Return the free space of the disk of a folder, bytes."""
    return shutil.disk_usage(folder).free
