"""Traits for the page: the compact table of one skeleton, and that of the whole folder as CSV."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treeformer._util.text import as_unicode
from treeformer.skeleton import Skeleton
from treeformer.traits import measure, measure_files
from treeformer.traits.definitions import TRAITS
from treeformer.web.folder import Workspace
from treeformer.web.saving import Store

if TYPE_CHECKING:
    import pandas as pd

# The unit of a trait by its kind; {} is px or mm.
UNITS = {"length": "{}", "area": "{}²", "1/length": "1/{}", "length/time": "{}/time", "angle": "°"}


def traits_of(skeleton: Skeleton, px_per_mm: float | None) -> dict[str, Any]:
    """Measure one skeleton."""
    table = measure(skeleton, px_per_mm=px_per_mm, columns="compact")
    columns = [str(name) for name in table]
    unit = str(table["unit"].iloc[0]) if len(table) else "px"
    kinds = {column: trait.kind for trait in TRAITS for column in trait.columns()}
    units = {name: UNITS[kinds[name]].format(unit) for name in columns if kinds.get(name) in UNITS}
    rows = [{name: _plain(value) for name, value in row.items()} for row in table.to_dict("records")]
    return {"columns": columns, "rows": rows, "units": units}


def folder_table(workspace: Workspace, store: Store, px_per_mm: float | None) -> pd.DataFrame:
    """Measure all skeletons of a workspace. Images that fail have a row with the error as note."""
    import pandas as pd

    images: dict[Path, list[str]] = {}  # by file: a.png and a.jpg may share a.json
    entries = [workspace.entry(entry.image) for entry in workspace.refresh()]
    for entry, path in zip(entries, workspace.current_files(entries), strict=True):
        if path is not None:
            images.setdefault(path, []).append(entry.image)

    def read(path: Path) -> Skeleton:
        from treeformer import formats

        return formats.read(path).replace(image_name=None)

    table, failures = measure_files(images, px_per_mm=px_per_mm, read=read)
    pairs = [(image, as_unicode(str(file))) for file, sharing in images.items() for image in sharing]
    measured = table.drop(columns="image")
    table = pd.DataFrame(pairs, columns=["image", "file"]).merge(measured, on="file")[list(table)]
    root = workspace.results_root
    files = {as_unicode(str(path)): str(path.relative_to(root)) for path in images if path.is_relative_to(root)}
    table["file"] = [files.get(name, name) for name in table["file"]]
    if failures:  # their rows have no counts, which would make the others decimal numbers
        counts = [name for name, kind in table.dtypes.items() if kind.kind in "iu"]
        table = table.astype(dict.fromkeys(counts, "Int64"))
    for line in failures:
        file = next((file for file in images if line.startswith(f"{file}: ")), Path())
        for image in images.get(file, [""]):
            table.loc[len(table), ["image", "note"]] = [image, line.removeprefix(f"{file}: ")]
    return table


def _plain(value: Any) -> Any:
    """Return a value of a table as JSON has it: numbers, texts, and None if it is unknown."""
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "item"):
        value = value.item()
    try:
        return value if math.isfinite(value) else None
    except TypeError:  # pandas.NA
        return None
