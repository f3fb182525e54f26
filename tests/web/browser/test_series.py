"""A time series: the dates as a slider, one color per axis, and corrections that are offered to the other dates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image, ImageDraw

import treeformer
from tests.web.browser.conftest import Server
from treeformer import Series, Skeleton
from treeformer.results.item import Item
from treeformer.results.record import write_record
from treeformer.timeseries.similarity import Similarity

DAYS = (2, 3, 4)
SIZE = (420, 400)


def plate(day: int) -> tuple[Skeleton, Similarity]:
    """A plant that grows, on a plate that is turned a little more at each date."""
    nodes, edges = [(180.0, 50.0)], []
    for k in range(1, 3 * day + 2):
        nodes.append((180 + 5 * math.sin(k), 50.0 + 20 * k))
        edges.append((k - 1, k))
    for side, base in ((-1, 3), (1, 5)):
        for k in range(1, day + 1):
            edges.append((base if k == 1 else len(nodes) - 1, len(nodes)))
            nodes.append((nodes[base][0] + side * 16 * k, nodes[base][1] + 9 * k))
    motion = Similarity(1.0, 0.03 * day, (10.0 * day, -5.0 * day))
    return Skeleton(motion.apply(np.array(nodes)), edges, root=0, image_size=SIZE), motion


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What `treeformer series` writes."""
    folder = tmp_path_factory.mktemp("series")
    images, out = folder / "plate", folder / "out"
    images.mkdir()
    items = []
    for day in DAYS:
        skeleton, _ = plate(day)
        image = Image.new("L", SIZE, 60)
        for a, b in skeleton.edges:
            ImageDraw.Draw(image).line([*map(tuple, skeleton.nodes[[a, b]])], fill=220, width=4)
        image.save(images / f"day{day}.png")
        items.append(Item(images / f"day{day}.png", out / "rsml" / f"day{day}"))
    series = Series([(float(day), plate(day)[0]) for day in DAYS])
    series.write(out, names=[f"day{day}" for day in DAYS], figures=False)
    write_record(out, [images], items)
    return out


def colors(editor) -> dict[str, str]:
    """The color of each axis by its id, as it is drawn."""
    return editor.js(
        """Object.fromEntries(c.state.graph.nodes.values().flatMap((n) => {
            const id = n.axis === null ? null : c.state.graph.axes.get(n.axis).record.id;
            return id ? [[id, c.stage.scene.color[c.stage.scene.index.get(n.id)]]] : [];
        }))"""
    )


@pytest.mark.slow
def test_dates_keep_place_and_colors_and_take_corrections(results, open_editor):
    server = Server(results)
    try:
        editor = open_editor(server.address)
        editor.open("day3.png")
        slider = editor.page.get_by_label("Date", exact=True)
        assert slider.get_attribute("max") == "2"
        assert slider.input_value() == "1"
        shown = colors(editor)
        assert len(set(shown.values())) == len(shown) == 3

        # The same place of the plate stays in the middle, at the same size.
        (x, y), motion = (np.array([200.0, 160.0]), {day: plate(day)[1] for day in DAYS})
        place = motion[3].apply(np.array([x, y]))
        editor.zoom_to(*place, 2.5)
        editor.press("PageDown")
        editor.wait("c.image === 'day4.png' && c.ready && Math.abs(c.view.scale - 2.5) < 0.05")
        middle = editor.js("(({x, y}) => [x, y])(c.view.toImage({x: c.view.width / 2, y: c.view.height / 2}))")
        assert np.hypot(*(np.array(middle) - motion[4].apply(np.array([x, y])))) < 6
        assert colors(editor) == shown

        # A branch that is removed here is offered to the other dates, and shown there before it is applied.
        tip = max(editor.nodes.values(), key=lambda node: node["x"])
        lateral = [node for node in editor.nodes.values() if node["axis"] == tip["axis"]]
        editor.js(f"c.editor.select([{min(node['id'] for node in lateral)}])")
        editor.press("Shift+Delete")
        left = len(editor.nodes)
        editor.save()
        before = treeformer.read(results / "rsml" / "day3.rsml")
        editor.press("PageUp")
        editor.page.wait_for_selector("text=1 correction of time 4 fits here")
        assert len(editor.nodes) == len(before)
        editor.page.click("[data-offer=apply]")
        editor.wait(f"c.state.graph.size === {len(before) - 3}")
        assert not editor.page.locator("[data-offer=apply]").count()
        editor.press("Control+z")
        editor.wait(f"c.state.graph.size === {len(before)}")
        editor.press("Control+Shift+z")
        editor.save()
        assert len(treeformer.read(results / "rsml" / "day3.json")) == len(before) - 3

        # What is ignored is not offered again; the date that was corrected is not offered its own correction.
        editor.press("PageUp")
        editor.page.click("[data-offer=ignore]")
        editor.press("PageDown")
        editor.wait("c.image === 'day3.png' && c.ready")
        editor.press("PageDown")
        editor.wait(f"c.image === 'day4.png' && c.ready && c.state.graph.size === {left}")
        assert not editor.page.locator("[data-offer=apply]").count()
    finally:
        server.kill()
