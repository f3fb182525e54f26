"""The widget of `treeformer.edit_widget`. This module needs anywidget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from treeformer.errors import TreeformerError
from treeformer.formats import native_json
from treeformer.skeleton import Skeleton

STATIC = Path(__file__).parent / "static" / "widget"


class SkeletonWidget(anywidget.AnyWidget):
    """The editor of one image in a notebook; see `treeformer.edit_widget`."""

    _esm = STATIC / "widget.js"
    _css = STATIC / "widget.css"
    _document = traitlets.Unicode().tag(sync=True)
    _image = traitlets.Bytes().tag(sync=True)
    _size = traitlets.List(traitlets.Int()).tag(sync=True)
    _name = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int(600, help="Height of the widget, px of the screen.").tag(sync=True)

    def __init__(
        self, skeleton: Skeleton, image: bytes, size: tuple[int, int], *, name: str = "image", height: int = 600
    ) -> None:
        self._read: tuple[str, Skeleton] | None = None
        super().__init__(_document=_text(skeleton), _image=image, _size=list(size), _name=name, height=height)

    @property
    def skeleton(self) -> Skeleton:
        """The skeleton as it is in the editor now. Setting it replaces what the editor shows."""
        text: str = self._document
        if self._read is None or self._read[0] != text:
            self._read = text, _skeleton(text)
        return self._read[1]

    @skeleton.setter
    def skeleton(self, skeleton: Skeleton) -> None:
        if not isinstance(skeleton, Skeleton):
            raise TreeformerError(f"a Skeleton is needed, not {type(skeleton).__name__}")
        self._document = _text(skeleton)

    def _repr_keys(self) -> Any:
        """Leave the image out of the widget's repr."""
        return (name for name in super()._repr_keys() if not name.startswith("_"))


def _text(skeleton: Skeleton) -> str:
    return native_json.to_text(skeleton, Path("widget"))


def _skeleton(text: str) -> Skeleton:
    try:
        document = json.loads(text)
    except ValueError:
        raise TreeformerError("the widget sent something else than JSON") from None
    if not isinstance(document, dict):
        raise TreeformerError("the widget sent something else than a skeleton")
    return next(native_json.skeletons(document))
