"""`dataset.yaml`: how a folder data set was made, so that nothing made otherwise is ever mixed into it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from treeformer._util.files import atomic_write
from treeformer.errors import TreeformerError

RECIPE_NAME = "dataset.yaml"


def read_recipe(folder: Path) -> dict[str, Any] | None:
    """What `dataset.yaml` says, None where there is none."""
    import yaml

    path = folder / RECIPE_NAME
    try:
        recipe = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise TreeformerError(f"{path}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        raise TreeformerError(f"{path}: not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(recipe, dict):
        raise TreeformerError(f"{path}: not a table of names and values")
    return recipe


def write_recipe(folder: Path, recipe: Mapping[str, Any]) -> None:
    """Write `dataset.yaml`."""
    import yaml

    with atomic_write(folder / RECIPE_NAME) as temporary:
        temporary.write_text(yaml.safe_dump(dict(recipe), sort_keys=False, allow_unicode=True), encoding="utf-8")


def claim(folder: Path, recipe: Mapping[str, Any], *, may_differ: Collection[str] = ()) -> dict[str, Any] | None:
    """Take a folder for this recipe: a new or empty one, or one where the same recipe was begun before.

    Returns the recipe found there, None for a new folder. An error where the folder holds anything else.
    may_differ: the names of values that another run may change.
    """
    if folder.exists() and not folder.is_dir():
        raise TreeformerError(f"{folder}: is a file, not a folder")
    found = read_recipe(folder)
    if found is None:
        if folder.is_dir() and any(not entry.name.startswith(".") for entry in folder.iterdir()):
            raise TreeformerError(f"{folder}: holds other files and no {RECIPE_NAME}; choose an empty folder")
        write_recipe(folder, recipe)
        return None
    for name in [*recipe, *found]:
        if name not in may_differ and recipe.get(name) != found.get(name):
            raise TreeformerError(
                f"{folder}: was made with {name} {found.get(name)}, not {recipe.get(name)}; choose another folder"
            )
    return found
