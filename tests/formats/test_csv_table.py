"""CSV tables: one row per node, readable by pandas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings

from tests.formats.annotated import annotated
from tests.strategies import examples
from treeformer import FormatError, Skeleton
from treeformer.formats import csv_table

in_one_folder = settings(
    deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.slow
@in_one_folder
@given(annotated())
def test_round_trip(tmp_path: Path, skeleton: Skeleton):
    csv_table.write(skeleton, tmp_path / "a.csv")
    again = csv_table.read(tmp_path / "a.csv")
    stored = {name: getattr(skeleton, name) for name in ("radius", "node_score", "plant")}
    if stored["radius"] is not None and np.isnan(stored["radius"]).all():
        stored["radius"] = None
    if not len(skeleton):
        stored = dict.fromkeys(stored)
    expected = Skeleton.from_parents(skeleton.nodes, skeleton.parents, **stored)
    assert again.replace(axes=None, edge_axis=None, edge_score=None) == expected

    def of_edges(s: Skeleton, values: np.ndarray | None) -> dict[frozenset[int], float]:
        return {} if values is None else dict(zip(map(frozenset, s.edges.tolist()), values.tolist(), strict=True))

    assert of_edges(again, again.edge_score) == of_edges(skeleton, skeleton.edge_score)
    if skeleton.has_explicit_axes and len(skeleton.edges):
        assert again.has_explicit_axes
        # The same edges are on one axis. Axis numbers may differ if an axis has no edge.
        ours, theirs = of_edges(skeleton, skeleton.edge_axis), of_edges(again, again.edge_axis)
        assert len(set(ours.values())) == len(set(theirs.values())) == len({(ours[e], theirs[e]) for e in ours})


def test_pandas_reads_it(tmp_path: Path, comb: Skeleton):
    csv_table.write(comb.replace(edge_score=np.linspace(0, 1, 7)), tmp_path / "comb.csv")
    table = pd.read_csv(tmp_path / "comb.csv")
    assert table.columns.tolist() == ["node", "x", "y", "parent", "edge_score"]
    assert table["parent"].tolist() == comb.parents.tolist()


def test_axes_are_read_with_their_parents(tmp_path: Path, comb: Skeleton):
    explicit = comb.replace(axes=comb.axes, edge_axis=comb.edge_axis)
    csv_table.write(explicit, tmp_path / "comb.csv")
    assert csv_table.read(tmp_path / "comb.csv").axes == comb.axes


def read_text(tmp_path: Path, text: str) -> Skeleton:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8", newline="")
    return csv_table.read(tmp_path / "t.csv")


@pytest.mark.parametrize(
    "text",
    [
        "x,y,parent\n0,0,-1\n1,1,0\n2,2,1\n",
        "X ; Y;parent;color\n0;0;;green\n\n1;1;0;\n2;2;1.0\n",
        "parent\tnode\ty\tx\ntwo\tthree\t2\t2\n\tone\t0\t0\none\ttwo\t1\t1\n",
        '\ufeff"x","y","parent"\r\n"0","0",""\r\n"1","1","0"\r\n"2","2","1"\r\n',
        '"note, free",x,y,parent\n"a, b",0,0,\n,1,1,0\nc,2,2,1\n',
        '"a,b,c,d,e";x;y;parent\n;0;0;\n;1;1;0\n;2;2;1\n',
        "x;y;parent\r0;0;\r1;1;0\r2;2;1\r",  # Excel's "CSV (Macintosh)"
    ],
)
def test_tables_of_other_programs(tmp_path: Path, text: str):
    skeleton = read_text(tmp_path, text)
    along = skeleton.nodes[np.argsort(skeleton.depth)]
    assert along.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert skeleton.is_tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n0,0\n", r"has no column 'parent' \(its first line is 'x,y'\)"),
        ("x,y,parent,x\n0,0,-1,5\n", r"has several columns 'x' \(its first line is 'x,y,parent,x'\)"),
        ("x,y,parent\n0,zero,-1\n", "line 2: y is 'zero', not a number"),
        ("x,y,parent\n0,,-1\n", "line 2: y is '', not a number"),
        ("x,y,parent\n0,nan,-1\n", "line 2: y is 'nan', not a number"),
        ("x,y,parent\n0,1e999,-1\n", "line 2: y is '1e999', but must be finite"),
        ("x,y,parent\n0,1_0,-1\n", "line 2: y is '1_0', not a number"),
        ("x,y,parent\n0,0,-1\n\n1,1,7\n", "line 4 refers to parent 7, which does not exist"),
        ("node,x,y,parent\na,0,0,\na,1,1,a\n", "line 3 repeats node a of line 2"),
        ("x,y,parent\n0,0,1\n1,1,0\n", r"line \d: the node is its own ancestor"),
        ("x,y,parent\n0,0,-1,5\n", "line 2 has 4 cells under 3 columns"),
        ("x,y,parent,plant\n0,0,-1,1\n1,1,0,\n", "line 3: plant is '', not a number"),
        ("x,y,parent,radius\n0,0,-1,-4\n", "radius of node 0 is -4.0"),
        ("x,y,parent,axis\n0,0,-1,\n1,1,0,-3\n", "axis -3.0 is below -1"),
    ],
)
def test_errors_identify_the_line(tmp_path: Path, text: str, message: str):
    with pytest.raises(FormatError, match=rf"^t\.csv: {message}") as caught:
        read_text(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("head", [b"", b"\n", b"\0x,y,parent", b"x" * 200_000, b'"', b"x,y\n0,0"])
def test_other_files_do_not_look_like_a_table(head: bytes):
    assert not csv_table.looks_like(head)


def test_a_cycle_cannot_be_written(tmp_path: Path, ring: Skeleton):
    with pytest.raises(FormatError, match=r"^ring\.csv: .* has a cycle"):
        csv_table.write(ring, tmp_path / "ring.csv")
