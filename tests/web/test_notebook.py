"""The notebook widget through the widget protocol: what Python sends, and what it makes of what the page sends."""

from __future__ import annotations

import functools
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import treeformer
from treeformer import Skeleton, TreeformerError, edit_widget, examples

pytest.importorskip("anywidget", reason="anywidget is missing: pip install -e '.[notebook]'")
IMAGE = examples.FOLDER / "seedling.jpg"
EMPTY = {"format": "treeformer-skeleton", "version": 1, "nodes": [], "edges": []}


def skeleton() -> Skeleton:
    return treeformer.read(IMAGE.with_suffix(".rsml"))


@functools.cache
def any_widget():
    return edit_widget(None, np.zeros((8, 8, 3), np.uint8))


def receive(widget, **changes) -> None:
    """Hand the widget a message as the front end sends it."""
    message = {"comm_id": "0", "data": {"method": "update", "state": changes, "buffer_paths": []}}
    widget._handle_msg({"content": message, "buffers": []})


def test_the_page_gets_skeleton_image_and_code():
    widget = edit_widget(skeleton(), IMAGE, height=480)
    state = widget.get_state()
    assert json.loads(state["_document"])["format"] == "treeformer-skeleton"
    sent = Image.open(io.BytesIO(state["_image"]))
    assert sent.size == tuple(state["_size"]) == Image.open(IMAGE).size
    assert state["_name"] == "seedling.jpg"
    assert state["height"] == 480
    assert "render" in state["_esm"]
    assert ".tf-root" in state["_css"]
    assert "import " not in state["_esm"].split("//#", 1)[0][:200], "the module must need no other file"
    assert len(repr(widget)) < 200
    assert widget.skeleton.edges.tolist() == skeleton().edges.tolist()
    assert np.allclose(widget.skeleton.nodes, skeleton().nodes)


def test_an_edit_in_the_page_is_the_skeleton_in_python():
    widget = edit_widget(skeleton(), IMAGE)
    seen = []
    widget.observe(lambda change: seen.append(len(widget.skeleton)), "_document")
    edited = EMPTY | {"nodes": [[1.5, 2.5], [3.5, 4.5]], "edges": [[0, 1]], "roots": [0]}
    receive(widget, _document=json.dumps(edited))
    assert widget.skeleton.nodes.tolist() == [[1.5, 2.5], [3.5, 4.5]]
    assert widget.skeleton.edges.tolist() == [[0, 1]]
    assert seen == [2]
    widget.skeleton = skeleton()
    assert len(widget.skeleton) == len(skeleton()) == seen[-1]


@given(st.one_of(st.text(max_size=20), st.recursive(st.none() | st.integers(), st.lists).map(json.dumps)))
def test_other_messages_are_an_error_of_one_line(text):
    widget = any_widget()
    receive(widget, _document=text)
    with pytest.raises(TreeformerError) as caught:
        _ = widget.skeleton
    assert "\n" not in str(caught.value)
    receive(widget, _document=json.dumps(EMPTY))
    assert len(widget.skeleton) == 0


def test_arrays_pillow_images_and_large_images():
    wide = edit_widget(None, np.zeros((10, 5000), np.uint8))
    assert wide.skeleton.image_size == (5000, 10)
    assert Image.open(io.BytesIO(wide.get_state()["_image"])).size == (4096, 8)
    named = Skeleton([[1, 1]], [], image_name="plate.png")
    assert edit_widget(named, Image.new("L", (20, 10))).get_state()["_name"] == "plate.png"


def test_mistakes_are_errors_of_one_line(tmp_path):
    image = np.zeros((8, 8, 3), np.uint8)
    with pytest.raises(TreeformerError, match="another size"):
        edit_widget(Skeleton([], [], image_size=(9, 8)), image)
    with pytest.raises(TreeformerError, match="a Skeleton or None is needed, not str"):
        edit_widget("skeleton.rsml", image)  # type: ignore[arg-type]
    with pytest.raises(TreeformerError, match="at least 320 px"):
        edit_widget(None, image, height=10)
    with pytest.raises(TreeformerError, match=r"missing\.png"):
        edit_widget(None, tmp_path / "missing.png")
    with pytest.raises(TreeformerError, match="a Skeleton is needed"):
        edit_widget(None, image).skeleton = None  # type: ignore[assignment]


@pytest.mark.slow
def test_without_anywidget_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['anywidget'] = None\n"
        "import numpy, treeformer\n"
        "try:\n    treeformer.edit_widget(None, numpy.zeros((8, 8, 3), 'uint8'))\n"
        "except treeformer.TreeformerError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "the widget needs anywidget: pip install 'treeformer[notebook]'\n"
