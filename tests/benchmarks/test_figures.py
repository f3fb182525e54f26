"""Sheets of tiles, small files, and curves from synthetic results."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.figures.curves import curves, f1_curve
from benchmarks.figures.maps import direction_image, node_image
from benchmarks.figures.out_of_domain import as_markdown, read_figures, write_figures
from benchmarks.figures.sheet import GAP_PX, HEADING_PX, TILE_PX, save_small, sheet
from benchmarks.tables.recipes import Run
from PIL import Image

from tests.benchmarks.factories import result, row
from treeformer.errors import TreeformerError

RUN = Run("synthetic", "sfs", 0)


def test_tiles_are_placed_in_rows_and_columns():
    red, blue = (Image.new("RGB", (50, 50), color) for color in ("red", "blue"))
    page = sheet(["a", "b"], ["x", "y"], [[red, "a long text " * 30], [blue, red]])
    assert page.size == (2 * (TILE_PX + GAP_PX) + GAP_PX, HEADING_PX + 2 * (TILE_PX + HEADING_PX))
    middle = TILE_PX // 2
    top = [2 * HEADING_PX + middle + r * (TILE_PX + HEADING_PX) for r in range(2)]
    left = [GAP_PX + middle + c * (TILE_PX + GAP_PX) for c in range(2)]
    assert page.getpixel((left[0], top[0])) == (255, 0, 0)
    assert page.getpixel((left[0], top[1])) == (0, 0, 255)
    assert page.getpixel((left[1], top[1])) == (255, 0, 0)


@pytest.mark.slow
def test_files_are_small_for_incompressible_images(tmp_path):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (120, 120, 3), dtype=np.uint8))
    save_small(noise, tmp_path / "noise.png", 6_000)
    assert (tmp_path / "noise.png").stat().st_size < 6_000
    lines = Image.new("RGB", (500, 500), "white")
    lines.paste("red", (100, 100, 400, 104))
    save_small(lines, tmp_path / "lines.png")
    with Image.open(tmp_path / "lines.png") as again:
        assert again.size == (500, 500)
        assert again.convert("RGB").getpixel((200, 102)) == (255, 0, 0)
    with pytest.raises(TreeformerError, match="does not fit"):
        save_small(noise, tmp_path / "tiny.png", 500)


def test_maps_show_confidence_and_angle():
    nodes = np.zeros((2, 3, 4))
    nodes[1, 2, 3] = 2.0
    assert np.asarray(node_image(nodes)).tolist() == [[0] * 4, [0] * 4, [0, 0, 0, 255]]
    directions = np.zeros((1, 2, 1, 3))
    directions[0, :, 0, 0] = (1, 0)
    directions[0, :, 0, 1] = (-1, 0)
    right, left, none = np.asarray(direction_image(directions))[0].tolist()
    assert right == [255, 0, 0]
    assert left[0] == 0
    assert min(left[1:]) > 200
    assert none == [0, 0, 0]


def test_curves_are_f1_over_minutes(tmp_path):
    made = result(RUN, [row()])
    assert f1_curve(made, "ours") == ([2.0, 4.0], [0.0, 0.75])
    curves({RUN.name: made}, tmp_path / "curves.png")
    with Image.open(tmp_path / "curves.png") as image:
        assert len(image.convert("RGB").getcolors(100_000)) > 10
    with pytest.raises(TreeformerError, match="no result"):
        curves({}, tmp_path / "none.png")


def test_out_of_domain_figures_are_written_to_a_file_and_a_table(tmp_path):
    figures = {"osr-roots on synthetic": {"images": 7, "topo_paper_f1": [0.5, 0.4, 0.6], "topo_f1": [0.25, 0.2, 0.3]}}
    with pytest.raises(TreeformerError, match="no out-of-domain figures"):
        read_figures(tmp_path / "figures.json")
    write_figures(figures, tmp_path / "figures.json")
    table = as_markdown(read_figures(tmp_path / "figures.json"))
    assert "| synthetic, 7 images | — | 0.500 (0.250) | — |" in table
    assert "| agar-plates, no ground truth | — | — | — |" in table
