"""The page itself: list, keys and focus, views, pen and touch, predictions, requests."""

from __future__ import annotations

import pytest

import treeformer
from tests.web.browser.pages import folder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return folder(tmp_path_factory.mktemp("page"), "a.png", "b.png", "sub/c ü.png")


@pytest.fixture(scope="module")
def server(images, start_server):
    return start_server(images, images.parent / "results")


def test_list_and_keys_between_images(server, open_editor):
    editor = open_editor(server.address)
    page = editor.page
    names = page.locator("[data-image]").evaluate_all("(all) => all.map((one) => one.dataset.image)")
    assert names == ["a.png", "b.png", "sub/c ü.png"]
    page.wait_for_function("() => [...document.querySelectorAll('[data-image] img')].every((i) => i.naturalWidth > 0)")
    assert page.locator("[data-image] img").count() == 3
    assert editor.js("c.image") == "a.png"
    editor.press(".")
    editor.wait("c.image === 'b.png' && c.ready")
    editor.press(".")
    editor.wait("c.image === 'sub/c ü.png' && c.ready && c.stage.complete")
    editor.press(",")
    editor.wait("c.image === 'b.png' && c.ready")
    page.reload()
    editor.wait("c.image === 'b.png' && c.ready")


def test_text_fields_keep_their_keys(server, open_editor):
    """Shortcuts rest while someone types, and come back with Escape and after buttons were used."""
    editor = open_editor(server.address)
    page = editor.page
    page.get_by_label("Filter images").fill("")
    page.get_by_label("Filter images").press_sequentially("b.h")
    assert page.locator("[data-image]").count() == 0
    assert editor.js("c.overlay") is True
    page.get_by_label("Filter images").fill("")
    editor.press("Escape", "h")
    assert editor.js("c.overlay") is False
    editor.press("h")
    page.get_by_label("Nodes").click()
    editor.press("2")
    assert page.get_by_role("button", name="Plant 2").get_attribute("aria-pressed") == "true"
    editor.press("1")
    page.get_by_label("Nodes").click()
    page.get_by_role("button", name="Zoom in").click()
    editor.press("Escape", "Space")
    assert editor.js("c.state.reviewItem !== null"), "Space goes to the review queue, not to the button"
    editor.press("Escape")
    page.click('[data-image="a.png"]')  # it is open already
    editor.press("Space")
    assert editor.js("c.state.reviewItem !== null"), "Space goes to the review queue, not to the list"
    page.set_viewport_size({"width": 1000, "height": 500})
    editor.press("?")
    assert page.get_by_role("dialog").evaluate("(one) => one.scrollHeight > one.clientHeight && one.scrollTop === 0")


def test_review_keys_survive_a_cut(server, open_editor):
    editor = open_editor(server.address)
    editor.press("Space")
    first = editor.js("c.state.reviewItem")
    assert first["kind"] == "low-score"
    assert first["id"] == 5
    editor.press("x")
    assert editor.nodes[5]["parent"] is None
    editor.press("Space")
    assert editor.js("c.state.reviewItem?.key") != first["key"]
    editor.press("Control+z", "Control+z")
    assert editor.nodes[5]["parent"] == 2


def test_status_bar_changes_with_modifiers(server, open_editor):
    editor = open_editor(server.address)
    status = editor.page.locator("footer.status")
    plain = status.inner_text()
    editor.page.keyboard.down("Shift")
    shifted = status.inner_text()
    editor.page.keyboard.up("Shift")
    assert shifted != plain
    assert "Shift" in shifted
    assert status.inner_text() == plain
    editor.press("b")
    assert "Draw branch" in status.inner_text()
    editor.press("Escape")


def test_pan_zoom_and_fit(server, open_editor):
    editor = open_editor(server.address)
    page = editor.page
    fitted = editor.js("c.view")
    place = editor.at(100, 100)
    page.mouse.move(*place)
    page.mouse.wheel(0, -240)
    editor.wait(f"c.view.scale > {fitted['scale']} * 1.2")
    assert editor.at(100, 100) == pytest.approx(place, abs=1), "the point below the pointer stays"
    scale = editor.js("c.view.scale")
    page.mouse.wheel(7, 11)
    assert editor.js("c.view.scale") == scale
    assert editor.at(100, 100) == pytest.approx((place[0] - 7, place[1] - 11), abs=1)
    editor.drag((300, 40), (320, 60))
    assert editor.at(100, 100) == pytest.approx((place[0] - 7 + 20 * scale, place[1] - 11 + 20 * scale), abs=2)
    editor.press("f")
    assert editor.js("c.view.scale") == pytest.approx(fitted["scale"])
    editor.press("+", "ArrowLeft")
    assert editor.js("c.view.scale") > fitted["scale"]


def test_pen_and_two_fingers(server, open_editor):
    """A pen moves a node, two fingers zoom; neither edits by accident."""
    editor = open_editor(server.address, has_touch=True)
    page = editor.page
    events = page.context.new_cdp_session(page)
    x, y = editor.at(180, 160)
    pen = {"pointerType": "pen", "button": "left", "clickCount": 1, "force": 0.5}
    events.send("Input.dispatchMouseEvent", {"type": "mousePressed", "x": x, "y": y, **pen})
    for k in range(1, 6):
        events.send("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x + 6 * k, "y": y, "buttons": 1, **pen})
    events.send("Input.dispatchMouseEvent", {"type": "mouseReleased", "x": x + 30, "y": y, **pen})
    assert editor.nodes[5]["x"] == pytest.approx(180 + 30 / editor.js("c.view.scale"), abs=1)
    editor.press("Control+z")

    def touch(kind: str, *points: tuple[float, float]) -> None:
        fingers = [{"x": px, "y": py, "id": k} for k, (px, py) in enumerate(points)]
        events.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})

    scale = editor.js("c.view.scale")
    x, y = editor.at(180, 160)
    touch("touchStart", (x, y))
    touch("touchStart", (x, y), (x + 60, y))
    for k in range(1, 7):
        touch("touchMove", (x - 10 * k, y), (x + 60 + 10 * k, y))
    touch("touchEnd")
    assert editor.js("c.view.scale") == pytest.approx(scale * 3, rel=0.15)
    assert editor.nodes[5]["x"] == 180


def test_keys_do_nothing_behind_a_dialog(server, open_editor):
    """The last Tab leads out of a dialog. The canvas behind it must not take the keys."""
    editor = open_editor(server.address)
    editor.open("b.png")
    editor.press("Control+a")
    editor.page.get_by_role("button", name="Predict…").click()
    editor.page.evaluate("document.activeElement.blur()")
    assert editor.page.evaluate("document.activeElement === document.body")
    editor.press("Delete", ",", ".")
    assert len(editor.nodes) == 7
    assert editor.js("c.image") == "b.png"
    editor.press("Escape")
    editor.page.get_by_role("dialog").wait_for(state="detached")
    editor.press("Control+a", "Delete")
    assert len(editor.nodes) == 0
    editor.press("Control+z")


def test_predict_again_and_in_a_region(server, open_editor, images):
    editor = open_editor(server.address)
    editor.open("b.png")
    before = (images.parent / "results" / "b.json").read_bytes()
    editor.page.get_by_role("button", name="Predict…").click()
    editor.page.get_by_label("Longer side").select_option("custom")
    editor.page.get_by_label("px", exact=True).fill("")
    assert editor.page.get_by_role("button", name="Predict", exact=True).is_disabled(), "a size is missing"
    editor.page.get_by_label("Longer side").select_option("512")
    editor.page.get_by_label("Predict 6 views").check()
    editor.page.get_by_role("button", name="Predict", exact=True).click()
    editor.wait("c.predictions.running === null && c.state.undoAnnotation.includes('Predict')", timeout_s=600)
    assert editor.document["metadata"]["prediction"]["views"] == 6
    assert (images.parent / "results" / "b.json").read_bytes() == before, "only a save writes"
    editor.press("Control+z")
    assert len(editor.nodes) == 7

    editor.press("g")
    editor.drag((130, 130), (390, 290))
    editor.page.get_by_role("dialog").wait_for()
    editor.page.get_by_role("button", name="Predict", exact=True).click()
    editor.wait("c.predictions.running === null && c.state.undoAnnotation.includes('region')", timeout_s=600)
    kept = editor.nodes
    assert {0, 1, 2, 3, 4} <= set(kept), "nodes outside of the region stay"
    assert not {5, 6} & set(kept)
    editor.press("Control+z")
    assert len(editor.nodes) == 7


def test_theme_names_and_requests(server, open_editor):
    """Dark follows the system, every button has a name, and no request leaves this computer."""
    addresses: list[str] = []
    editor = open_editor(server.address, color_scheme="dark")
    page = editor.page
    page.on("request", lambda request: addresses.append(request.url))
    assert page.locator(".tf-root").get_attribute("data-theme") == "dark"
    page.get_by_role("button", name="Light or dark").click()
    assert page.locator(".tf-root").get_attribute("data-theme") == "light"
    page.reload()
    editor.wait_ready()
    assert page.locator(".tf-root").get_attribute("data-theme") == "light"
    nameless = page.locator("button").evaluate_all(
        "(all) => all.filter((one) => !(one.textContent.trim() || one.getAttribute('aria-label'))).length"
    )
    assert nameless == 0
    assert addresses
    assert all(url.startswith((server.address.split("?")[0], "data:", "blob:")) for url in addresses)


def test_accepting_everything_and_sorting(server, open_editor, images):
    editor = open_editor(server.address)
    editor.open("sub/c ü.png")
    editor.press("Shift+Enter")
    assert editor.js("c.state.review.length") == 0
    editor.press("Control+Enter")
    editor.page.wait_for_selector('[data-image="sub/c ü.png"] .state.accepted')
    saved = treeformer.read(images.parent / "results" / "sub" / "c ü.json")
    assert saved.metadata["editor"]["accepted"] is True
    names = editor.page.locator("[data-image]").evaluate_all("(all) => all.map((one) => one.dataset.image)")
    assert names[-1] == "sub/c ü.png"


def test_outline_with_drag_and_keys(server, open_editor):
    """Attach a lateral to another axis by dragging its row, undo, and do the same with keys."""
    editor = open_editor(server.address)
    editor.open("a.png")
    page = editor.page
    page.locator("summary", has_text="Outline").click()
    rows = page.get_by_role("tree", name="Outline").get_by_role("treeitem")
    rows.first.wait_for()
    labels = rows.evaluate_all("(all) => all.map((one) => one.dataset.row)")
    nodes = editor.nodes
    assert labels[0] == "plant-0"
    heads = {
        row: [n["id"] for n in nodes.values() if n["axis"] == int(row[5:])] for row in labels if row[:5] == "axis-"
    }
    # The last axis goes to the one before it.
    moved, target = labels[-1], labels[-2]
    head = min(heads[moved])
    before = nodes[head]["parent"]
    assert before not in heads[target]

    page.locator(f'[data-row="{moved}"]').drag_to(page.locator(f'[data-row="{target}"]'))
    assert editor.nodes[head]["parent"] in heads[target]
    assert len(editor.nodes) == len(nodes)
    assert rows.count() == len(labels)
    editor.press("Control+z")
    assert editor.nodes[head]["parent"] == before

    # With keys: M takes a row, the arrow goes to the one above, Enter puts it there.
    page.locator(f'[data-row="{moved}"]').focus()
    editor.press("m", "ArrowUp", "Enter")
    assert editor.nodes[head]["parent"] in heads[target]
    # What lies below an axis cannot take it.
    page.locator(f'[data-row="{target}"]').drag_to(page.locator(f'[data-row="{moved}"]'))
    assert editor.nodes[head]["parent"] in heads[target]
    page.get_by_text("That axis begins below this one.").wait_for()
    # A click selects the axis on the canvas.
    page.locator(f'[data-row="{target}"]').click()
    assert set(editor.js("[...c.state.selection]")) == set(heads[target])
    editor.press("Control+z")


def test_on_a_phone_the_list_is_closed_at_first(server, open_editor):
    editor = open_editor(server.address, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = editor.page
    assert page.locator("[data-image]").count() == 0
    page.get_by_role("button", name="List of images").tap()
    page.locator('[data-image="b.png"]').tap()
    editor.wait("c.image === 'b.png' && c.ready")
    assert page.locator("[data-image]").count() == 0
