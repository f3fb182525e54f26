"""SWC: lossless conversion through native JSON, and errors that identify the line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import treeformer
from tests.strategies import examples, forests
from treeformer import FormatError, Skeleton
from treeformer.formats import native_json, swc
from treeformer.skeleton.validation import MAX_PX

in_one_folder = settings(
    deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
finite = st.floats(allow_nan=False, allow_infinity=False)
pixels = st.floats(-MAX_PX, MAX_PX)
characters = st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"])
comments = st.lists(st.text(characters, max_size=12), max_size=3)


def rows(text: str) -> list[list[float]]:
    return [[float(word) for word in line.split()] for line in text.split("\n") if line and not line.startswith("#")]


@st.composite
def files(draw: st.DrawFn) -> str:
    """Draw SWC text of other tools: consecutive indices not from 1, types, heights and comments."""
    count = draw(st.integers(0, 12))
    start = draw(st.integers(0, 5))
    lines = ["#" + comment for comment in draw(comments)]
    for at in range(count):
        parent = draw(st.integers(-1, at - 1))
        kind, radius = draw(st.integers(0, 7)), abs(draw(pixels))
        x, y, z = draw(pixels), draw(pixels), draw(finite)
        lines.append(f"{start + at} {kind} {x!r} {y!r} {z!r} {radius!r} {start + parent if parent >= 0 else -1}")
    return "\n".join(lines) + "\n"


@in_one_folder
@given(files())
def test_swc_to_json_to_swc(tmp_path: Path, text: str):
    first, second, third = (tmp_path / name for name in ("first.swc", "second.json", "third.swc"))
    first.write_text(text, encoding="utf-8", newline="")
    if not text.strip():
        return
    native_json.write(swc.read(first), second)
    swc.write(native_json.read(second), third)
    written = third.read_text(encoding="utf-8")
    assert [line for line in written.split("\n") if line.startswith("#")] == [
        line for line in text.split("\n") if line.startswith("#")
    ]
    # Indices are renumbered from 1. Everything else is exactly the same, in the same order.
    old, new = rows(text), rows(written)
    offset = 1 - old[0][0] if old else 0
    assert [[row[0] + offset, *row[1:6], row[6] if row[6] < 0 else row[6] + offset] for row in old] == new


@pytest.mark.slow
@in_one_folder
@given(forests())
def test_forests_round_trip(tmp_path: Path, skeleton: Skeleton):
    path = tmp_path / "forest.swc"
    swc.write(skeleton, path)
    parent_of = {int(row[0]): int(row[6]) for row in rows(path.read_text())}
    assert all(parent < index for index, parent in parent_of.items())
    again = swc.read(path)
    order = np.argsort(skeleton.depth, kind="stable")
    if (skeleton.parents < np.arange(len(skeleton))).all():
        order = np.arange(len(skeleton))
    assert np.array_equal(again.nodes, skeleton.nodes[order])
    place = np.argsort(order)
    assert again.parents.tolist() == [place[p] if p >= 0 else -1 for p in skeleton.parents[order]]
    assert again.roots.tolist() == sorted(place[skeleton.component_root])
    unknown = np.full(len(skeleton), np.nan)
    radius = unknown if skeleton.radius is None else skeleton.radius
    assert np.array_equal(unknown if again.radius is None else again.radius, radius[order], equal_nan=True)
    assert again.metadata == {}


def read_text(tmp_path: Path, text: str) -> Skeleton:
    path = tmp_path / "neuron.swc"
    path.write_text(text, encoding="utf-8")
    return swc.read(path)


def test_rows_in_any_order_any_indices_extra_columns_and_tabs(tmp_path: Path):
    text = "7 3 0 2 0 1 5\n# between\n\n5\t1\t0\t1\t0\t1\t3\textra words\n3 1 0 0 0 1 -1\n 40 2 9 9 0 1.5 -1\n"
    skeleton = read_text(tmp_path, text)
    assert skeleton.nodes.tolist() == [[0, 2], [0, 1], [0, 0], [9, 9]]
    assert skeleton.parents.tolist() == [1, 2, -1, -1]
    assert len(skeleton.plants) == 2
    assert skeleton.metadata["swc"]["comments"] == [" between"]
    swc.write(skeleton, tmp_path / "out.swc")
    assert rows((tmp_path / "out.swc").read_text()) == [
        [1, 1, 0, 0, 0, 1, -1],
        [2, 2, 9, 9, 0, 1.5, -1],
        [3, 1, 0, 1, 0, 1, 1],
        [4, 3, 0, 2, 0, 1, 3],
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_as_on_any_system(tmp_path: Path, end: str):
    lines = ["# Neurolucida", "1 3 0 0 0 1 -1", "2 3 5 5 0 1 1", "3 3 5 9 0 1 2", ""]
    (tmp_path / "a.swc").write_bytes(end.join(lines).encode())
    skeleton = treeformer.read(tmp_path / "a.swc")
    assert skeleton.nodes.tolist() == [[0, 0], [5, 5], [5, 9]]
    assert skeleton.metadata["swc"]["comments"] == [" Neurolucida"]


def test_types_and_heights_are_written_back_only_for_the_same_nodes(tmp_path: Path):
    skeleton = read_text(tmp_path, "1 3 0 0 7.5 1 -1\n2 3 10 0 8.5 1 1\n")
    swc.write(skeleton.replace(radius=[2, 2]), tmp_path / "same.swc")
    assert rows((tmp_path / "same.swc").read_text())[1] == [2, 3, 10, 0, 8.5, 2, 1]
    swc.write(skeleton.resample(5), tmp_path / "other.swc")
    assert {tuple(row[1::3]) for row in rows((tmp_path / "other.swc").read_text())} == {(0, 0)}


@pytest.mark.parametrize("kept", [5, {"comments": 3, "type": "x"}, {"comments": ["a\n1 0 0\r0 0 -1"], "z": [None]}])
def test_invalid_metadata_is_ignored(tmp_path: Path, kept: object):
    skeleton = Skeleton([(1, 2)], [], root=0, metadata={"swc": kept})
    swc.write(skeleton, tmp_path / "a.swc")
    assert len(rows((tmp_path / "a.swc").read_text())[-1]) == 7


def test_an_unknown_radius_is_below_zero(tmp_path: Path):
    assert read_text(tmp_path, "1 0 0 0 0 -1 -1\n").radius is None
    mixed = read_text(tmp_path, "1 0 0 0 0 -1 -1\n2 0 1 0 0 0 1\n").radius
    assert mixed is not None
    assert np.array_equal(mixed, [np.nan, 0], equal_nan=True)


def test_comments_in_latin_1_are_preserved(tmp_path: Path):
    (tmp_path / "a.swc").write_bytes(b"# M\xfcller\n1 0 0 0 0 1 -1\n")
    native_json.write(swc.read(tmp_path / "a.swc"), tmp_path / "a.json")
    swc.write(native_json.read(tmp_path / "a.json"), tmp_path / "b.swc")
    assert (tmp_path / "b.swc").read_bytes().startswith(b"# M\xfcller\n")


def test_an_empty_skeleton(tmp_path: Path):
    swc.write(Skeleton([], []), tmp_path / "none.swc")
    assert swc.read(tmp_path / "none.swc") == Skeleton([], [])


def test_a_cycle_cannot_be_written(tmp_path: Path, ring: Skeleton):
    with pytest.raises(FormatError, match=r"^ring\.swc: SWC can store only forests"):
        swc.write(ring, tmp_path / "ring.swc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0 0 0 0 1 2\n2 0 1 0 0 1 1\n", r"line \d: the node is its own ancestor"),
        ("1 0 0 0 0 1 -1\n\n2 0 1 0 0 1 2\n", "line 3: the node is its own ancestor"),
        ("1 0 0 0 0 1 -1\n2 0 1 0 0 1 8\n", "line 2 refers to parent 8, which does not exist"),
        ("1 0 0 0 0 1 -1\n1 0 1 0 0 1 1\n", "line 2 repeats index 1 of line 1"),
        ("1 0 0 0 0 1 -1\n2 0 x 0 0 1 1\n", "line 2: x is 'x', not a finite number"),
        ("1 0 nan 0 0 1 -1\n", "line 1: x is 'nan', not a finite number"),
        ("1 0 0 inf 0 1 -1\n", "line 1: y is 'inf', not a finite number"),
        ("1 0 0 1_0 0 1 -1\n", "line 1: y is '1_0'"),
        ("1.5 0 0 0 0 1 -1\n", "line 1: index is '1.5', not an integer"),
        ("1 0 0 0 0 1\n", "line 1: has 6 of 7 columns"),
        ("hello\n", "line 1: has 1 of 7 columns: 'hello'"),
        (" \n", "is empty"),
    ],
)
def test_errors_identify_the_line(tmp_path: Path, text: str, message: str):
    with pytest.raises(FormatError, match=rf"^neuron\.swc: {message}") as caught:
        read_text(tmp_path, text)
    assert "\n" not in str(caught.value)
