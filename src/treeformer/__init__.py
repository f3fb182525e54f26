"""From a single image of a plant to its skeleton: a tree of nodes and edges, never a broken graph."""

from __future__ import annotations

TYPE_CHECKING = False  # typing has it, too, but is longer in coming than all else here
if TYPE_CHECKING:
    from typing import Any

    from treeformer.errors import FormatError, SkeletonError, TreeformerError
    from treeformer.formats import read, read_all, write
    from treeformer.inference.predictor import load_model, predict
    from treeformer.skeleton import Axis, AxisFunction, Plant, Skeleton
    from treeformer.traits import measure

__version__ = "0.1.0"

__all__ = [
    "Axis",
    "AxisFunction",
    "FormatError",
    "Plant",
    "Skeleton",
    "SkeletonError",
    "TreeformerError",
    "__version__",
    "load_model",
    "measure",
    "predict",
    "read",
    "read_all",
    "write",
]

_NAMES_OF = {
    "errors": ("FormatError", "SkeletonError", "TreeformerError"),
    "formats": ("read", "read_all", "write"),
    "inference.predictor": ("load_model", "predict"),
    "skeleton": ("Axis", "AxisFunction", "Plant", "Skeleton"),
    "traits": ("measure",),
}


def __getattr__(name: str) -> Any:
    """A name is imported when it is first asked for: reading a file should not wait for what predicts.

    And nothing at all is imported before the command line is ready for Ctrl-C, see `treeformer.__main__`.
    """
    from importlib import import_module

    for module, names in _NAMES_OF.items():
        if name in names:
            return getattr(import_module(f"treeformer.{module}"), name)
    raise AttributeError(f"module 'treeformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
