"""`dataset.yaml`: the settings that created a folder data set. They prevent mixing files of different settings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from treeformer._util.config import parse_yaml
from treeformer._util.files import atomic_write, atomic_write_bytes
from treeformer._util.locks import sole_lock
from treeformer._util.text import short_repr
from treeformer.errors import TreeformerError

RECIPE_NAME = "dataset.yaml"
# A folder with this file is being written, or the command that wrote it was stopped or failed.
INCOMPLETE_NAME = ".incomplete"
LOCK_NAME, LOCK_S = ".lock", 30.0


def read_recipe(folder: Path) -> dict[str, Any] | None:
    """Read the settings in `dataset.yaml` of a folder, None if the file does not exist."""
    import yaml

    path = folder / RECIPE_NAME
    try:
        recipe = parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise TreeformerError(f"{path}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        raise TreeformerError(f"{path}: not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(recipe, dict):
        raise TreeformerError(f"{path}: not a mapping of keys to values")
    return recipe


def write_recipe(folder: Path, recipe: Mapping[str, Any]) -> None:
    """Write `dataset.yaml`."""
    import yaml

    with atomic_write(folder / RECIPE_NAME) as temporary:
        temporary.write_text(yaml.safe_dump(dict(recipe), sort_keys=False, allow_unicode=True), encoding="utf-8")


def recorded_count(folder: Path, recipe: Mapping[str, Any]) -> int:
    """Return the number of images, or of series, that a recipe states, 0 if missing."""
    count = recipe.get("count", 0)
    if not isinstance(count, int):
        raise TreeformerError(f"{folder / RECIPE_NAME}: count must be a whole number, not {short_repr(count)}")
    return count


@contextmanager
def being_written(folder: Path, *, completes: bool = True) -> Iterator[None]:
    """Mark a folder as incomplete until a block succeeds. The mark stays if the block fails or is killed.

    It also stays if the block does not complete the folder.
    """
    atomic_write_bytes(folder / INCOMPLETE_NAME, b"")
    yield
    if completes:
        (folder / INCOMPLETE_NAME).unlink(missing_ok=True)


def is_incomplete(folder: Path) -> bool:
    """Return True if a folder is being written, or the command that wrote it was stopped or failed."""
    return (folder / INCOMPLETE_NAME).is_file()


def check_complete(folder: Path, *, may_be_part: bool = True) -> None:
    """Check that a folder of images is not a part of a data set that has not been finished.

    A split or a series (`may_be_part`) is marked in the folder above.
    """
    absolute = folder.absolute()
    for place in (absolute, *([absolute.parent] if may_be_part else [])):
        if is_incomplete(place):
            raise TreeformerError(
                f"{folder}: is incomplete, because the command that wrote it was stopped or failed: repeat the command,"
                f" or remove {place / INCOMPLETE_NAME} to use the images that are there"
            )


def claim(folder: Path, recipe: Mapping[str, Any], *, may_differ: Collection[str] = ()) -> dict[str, Any] | None:
    """Reserve a folder for a recipe: write `dataset.yaml` to a new or empty folder, or compare with the existing one.

    Values of the keys `may_differ` may be others. Return the recipe found in the folder, None for a new folder. Another
    recipe, or other files without a recipe, are an error.
    """
    if folder.exists() and not folder.is_dir():
        raise TreeformerError(f"{folder}: is a file, not a folder")
    found = read_recipe(folder)
    if found is None:
        with sole_lock(folder / LOCK_NAME, LOCK_S):  # another command may have begun in the same moment
            found = read_recipe(folder)
            if found is None:
                if any(not entry.name.startswith(".") for entry in folder.iterdir()):
                    raise TreeformerError(f"{folder}: holds other files and no {RECIPE_NAME}; choose an empty folder")
                write_recipe(folder, recipe)
                return None
    for name in [*recipe, *found]:
        if name not in may_differ and recipe.get(name) != found.get(name):
            raise TreeformerError(
                f"{folder}: was created with {name} {found.get(name)}, not {recipe.get(name)}; choose another folder"
            )
    return found
