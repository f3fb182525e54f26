"""Turn an image of a plant into its skeleton: a tree of nodes and edges."""

from __future__ import annotations

TYPE_CHECKING = False  # not imported from typing, which would take longer than everything else here
if TYPE_CHECKING:
    from typing import Any

    from treeformer.draw import plot
    from treeformer.errors import FormatError, SkeletonError, TreeformerError
    from treeformer.formats import read, read_all, write
    from treeformer.inference.predictor import load_model, predict
    from treeformer.skeleton import Axis, AxisFunction, Plant, Skeleton
    from treeformer.timeseries import Series
    from treeformer.traits.measure import measure
    from treeformer.web.notebook import edit_widget

__version__ = "0.1.0"

__all__ = [
    "Axis",
    "AxisFunction",
    "FormatError",
    "Plant",
    "Series",
    "Skeleton",
    "SkeletonError",
    "TreeformerError",
    "__version__",
    "edit_widget",
    "load_model",
    "measure",
    "plot",
    "predict",
    "read",
    "read_all",
    "write",
]

_NAMES_BY_MODULE = {
    "draw": ("plot",),
    "errors": ("FormatError", "SkeletonError", "TreeformerError"),
    "formats": ("read", "read_all", "write"),
    "inference.predictor": ("load_model", "predict"),
    "skeleton": ("Axis", "AxisFunction", "Plant", "Skeleton"),
    "timeseries": ("Series",),
    "traits": ("measure",),
    "web.notebook": ("edit_widget",),
}
_MODULES = ("data", "draw", "formats", "metrics", "models", "nn", "synthetic", "traits")


def __getattr__(name: str) -> Any:
    """Import public names and modules on first use, so that reading a file does not import the code for prediction.

    Nothing is imported before the command line can handle Ctrl-C, see `treeformer.__main__`.
    """
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"treeformer.{name}")
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            return getattr(import_module(f"treeformer.{module}"), name)
    raise AttributeError(f"module 'treeformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
