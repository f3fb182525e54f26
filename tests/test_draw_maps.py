"""Maps as pictures: the right panel in the right place, in the right colour."""

from __future__ import annotations

import numpy as np
from PIL import Image

from treeformer.draw_maps import CAPTION_PX, GAP_PX, draw_maps


def test_panels_and_colours():
    nodes, flow = np.zeros((2, 8, 8)), np.zeros((2, 2, 8, 8))
    found_nodes, found_flow = np.full((2, 8, 8), np.nan), np.zeros((2, 2, 8, 8))
    nodes[1, 2, 3] = 1.0
    found_nodes[0, 5, 5] = 0.5
    flow[0, :, 1, 1] = (1, 0)  # to the right: red
    flow[1, :, 6, 6] = (-0.5, 0)  # to the left at half length: dark cyan
    flow[0, :, 6, 6] = (0.1, 0)
    found_flow[0, :, 4, 4] = (7, 0)  # too long is as bright as can be
    sheet = draw_maps(Image.new("RGB", (16, 16), (9, 9, 9)), nodes, flow, found_nodes, found_flow)
    assert sheet.size == (5 * 16 + 4 * GAP_PX, 16 + CAPTION_PX)

    def colour(panel, row, column):
        return sheet.getpixel((panel * (16 + GAP_PX) + 2 * column + 1, CAPTION_PX + 2 * row + 1))

    assert colour(0, 3, 3) == (9, 9, 9)
    assert colour(1, 2, 3) == (255, 255, 255)
    assert colour(1, 5, 5) == (0, 0, 0)
    assert colour(2, 5, 5) == (128, 128, 128)
    assert colour(2, 2, 3) == (0, 0, 0)
    assert colour(3, 1, 1) == (255, 0, 0)
    red, green, blue = colour(3, 6, 6)
    assert red == 0
    assert abs(green - 128) < 6
    assert abs(blue - 128) < 6
    assert colour(4, 4, 4) == (255, 0, 0)
    assert colour(4, 1, 1) == (0, 0, 0)
