"""The dates of a series as the page gets them, from good and damaged tables."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.web.conftest import gradient
from treeformer import Skeleton, formats
from treeformer.cli import app
from treeformer.timeseries.similarity import Similarity
from treeformer.web.folder import Workspace, open_workspace
from treeformer.web.series import dates

HEAD = "name,time,shift_x,shift_y,rotation,scale,succeeded\n"


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    for name in ("d1", "d2", "sub/d3"):
        gradient(tmp_path / "images" / f"{name}.png")
    stems = {"d1.png": "rsml/d1", "d2.png": "rsml/d2"}
    return Workspace(tmp_path / "images", tmp_path / "results", stems=stems)


def test_the_command_writes_what_the_editor_reads(tmp_path):
    for day in (1, 2):
        gradient(tmp_path / "plate" / f"day{day}.png", (200, 200))
        tree = Skeleton([(90, 20), (92, 60), (90, 60 + 40 * day)], [(0, 1), (1, 2)], root=0, image_size=(200, 200))
        formats.write(tree, tmp_path / "plate" / f"day{day}.json")
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["series", str(tmp_path / "plate"), "-o", str(out), "--no-figures"])
    assert result.exit_code == 0, result.output
    workspace = open_workspace(out)
    assert workspace.images_root == (tmp_path / "plate").resolve()
    found = dates(workspace, workspace.entries())
    assert [(one.image, one.time, one.succeeded) for one in found] == [("day1.png", 1, True), ("day2.png", 2, True)]
    assert workspace.current_file(workspace.entry("day1.png")) == out.resolve() / "rsml" / "day1.rsml"


def test_the_page_gets_the_same_map(workspace):
    workspace.results_root.mkdir()
    table = HEAD + "d2,5.5,3,-4,30,1.25,False\nd1,2,0,0,0,1,True\nd3,1,0,0,0,1,True\nd9,1,0,0,0,1,True\n"
    (workspace.results_root / "registration.csv").write_text(table)
    first, second = dates(workspace, workspace.entries())
    assert first.shown() == {"image": "d1.png", "time": 2.0, "transform": [1, 0, 0, 0], "succeeded": True}
    a, b, c, d = second.shown()["transform"]
    x, y = 17.0, 29.0
    expected = Similarity(1.25, np.pi / 6, (3.0, -4.0)).apply(np.array([x, y]))
    assert [a * x - b * y + c, b * x + a * y + d] == pytest.approx(expected.tolist())
    assert not second.succeeded


@pytest.mark.parametrize(
    "table",
    [
        b"",
        b"\xff\xfe\x00",
        b"name,time\nd1,1\n",
        HEAD.encode() + b"d1,x,0,0,0,1,True\nd2,1,0,0,0,0,True\nd1,1,nan,0,0,1\n",
    ],
)
def test_a_damaged_table_is_no_series(workspace, table):
    workspace.results_root.mkdir()
    (workspace.results_root / "registration.csv").write_bytes(table)
    assert dates(workspace, workspace.entries()) == []


def test_the_request(make_client, workspace):
    assert make_client(workspace).get("/api/series").json() == {"dates": []}
