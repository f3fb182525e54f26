"""Every request of the editor's server, with valid parameters and with mistakes."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import treeformer
from tests.web.conftest import document, gradient, saved, states
from treeformer import Skeleton
from treeformer.hub.model_folder import open_model
from treeformer.web.folder import Workspace

# ---- session and list ----------------------------------------------------------------------------


def test_the_session_names_roots_and_model(client, folder):
    session = client.get("/api/session").json()
    assert session["version"] == treeformer.__version__
    assert session["images_root"] == str((folder / "images").resolve())
    assert session["results_root"] == str((folder / "results").resolve())
    assert session["model"].keys() == {"name", "version", "hash"}
    assert session["low_confidence_threshold"] == open_model().config.low_confidence_threshold


def test_the_list_shows_states_and_expected_errors(client, folder):
    rows = client.get("/api/images").json()["images"]
    assert [row["image"] for row in rows] == ["a.png", "b.jpg", "sub/ä c.png"]
    assert {row["state"] for row in rows} == {"missing"}
    treeformer.write(Skeleton([(1, 1), (5, 5)], [(0, 1)], edge_score=[0.25]), folder / "results" / "b.json")
    (folder / "results" / "a.json").write_text('{"format": "treeformer-skeleton", "version": 1, ')
    saved(client, "sub/ä c.png", accepted=True)
    by_image = {row["image"]: row for row in client.get("/api/images").json()["images"]}
    assert by_image["b.jpg"].pop("version")
    assert by_image["b.jpg"] | {"has_draft": False} == {
        "image": "b.jpg", "state": "predicted", "expected_errors": 0.75, "plants": 1, "nodes": 2, "has_draft": False,
        "error": None, "origin": "prediction", "open_places": 0,
    }  # fmt: skip
    assert by_image["a.png"]["state"] == "failed"
    assert "a.json" in by_image["a.png"]["error"]
    assert by_image["sub/ä c.png"]["state"] == "accepted"
    assert by_image["sub/ä c.png"]["expected_errors"] == 0


def test_edges_that_a_person_has_checked_are_not_expected_errors(client):
    edited = document(editor={"edge_source": ["predicted", "accepted", "drawn"], "node_source": ["predicted"] * 4})
    assert saved(client, document=edited).status_code == 200
    row = client.get("/api/images").json()["images"][0]
    assert row["state"] == "edited"
    assert row["expected_errors"] == pytest.approx(0.1)


# ---- skeletons -----------------------------------------------------------------------------------


def test_save_load_and_save_again(client, folder):
    empty = client.get("/api/skeleton", params={"image": "sub/ä c.png"}).json()
    assert empty["origin"] == "none"
    assert empty["revision"] is None
    assert empty["document"]["nodes"] == []
    assert empty["document"]["image_size"] == [64, 48]
    first = saved(client, "sub/ä c.png")
    assert first.json()["files"] == ["sub/ä c.json", "sub/ä c.rsml"]
    for name in ("ä c.json", "ä c.rsml"):
        skeleton = treeformer.read(folder / "results" / "sub" / name)
        assert sorted(skeleton.nodes.tolist()) == sorted(document()["nodes"])
        assert skeleton.image_name == "ä c.png"
    loaded = client.get("/api/skeleton", params={"image": "sub/ä c.png"}).json()
    assert loaded["origin"] == "result"
    assert loaded["revision"] == loaded["result_revision"] == first.json()["revision"]
    assert loaded["file"] == "sub/ä c.json"
    again = {"image": "sub/ä c.png", "document": loaded["document"], "revision": loaded["revision"], "accepted": True}
    assert client.put("/api/skeleton", json=again).status_code == 200
    assert not list((folder / "results").rglob("*.orig*"))


def test_a_document_states_roots_plants_and_axes(client, folder):
    treeformer.write(
        Skeleton([(5, 9), (5, 5), (2, 1), (8, 1), (40, 9)], [(0, 1), (1, 2), (1, 3)]), folder / "images" / "a.swc"
    )
    loaded = client.get("/api/skeleton", params={"image": "a.png"}).json()
    assert loaded["origin"] == "import"
    content = loaded["document"]
    assert len(content["roots"]) == 2
    assert len(content["plant"]) == 5
    assert set(content["edge_axis"]) == set(range(len(content["axes"])))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"document": None}, "object"),
        ({"document": {"format": "other"}}, "format"),
        ({"document": document() | {"edges": [[0, 1], [1, 2], [2, 0]], "edge_score": [1, 1, 1]}}, "cycle"),
        ({"document": document() | {"edges": [[0, 99]]}}, "invalid"),
        ({"document": document(editor={"node_source": ["predicted"]})}, "node_source"),
        ({"document": document(editor={"edge_source": ["guessed"] * 3})}, "edge_source"),
        ({"document": document(editor={"seconds": -1})}, "seconds"),
        ({"document": document(editor=[])}, "editor"),
        ({"accepted": "yes"}, "accepted"),
        ({"revision": "../x"}, "revision"),
        ({"window": "../x"}, "window"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_save_is_one_sentence_and_writes_nothing(client, folder, change, message):
    answer = saved(client, **change)
    assert answer.status_code in (400, 409)
    assert message in answer.json()["error"]
    assert not list(folder.glob("results/*.*"))


def test_provenance_and_scale_are_saved(client, folder):
    editor = {
        "node_source": ["predicted", "accepted", "edited", "drawn"],
        "edge_source": ["traced", "imported", "predicted"],
        "seconds": 12.5,
        "actions": 7,
        "px_per_mm": 2.0,
        "model": {"name": "default", "version": 6, "hash": "abc"},
    }
    assert saved(client, document=document(editor=editor), accepted=True).status_code == 200
    skeleton = treeformer.read(folder / "results" / "a.json")
    stored = skeleton.metadata["editor"]
    assert {key: stored[key] for key in editor} == editor
    assert stored["accepted"] is True
    assert treeformer.measure(skeleton)["unit"].tolist() == ["mm"]
    in_rsml = treeformer.read(folder / "results" / "a.rsml")
    assert treeformer.measure(in_rsml)["total_length"].tolist() == pytest.approx([skeleton.length / 2])
    assert all(axis.id for axis in in_rsml.axes)


# ---- drafts --------------------------------------------------------------------------------------


def test_a_draft_is_offered_until_it_is_saved(client):
    body = {"image": "a.png", "document": document(7.0), "revision": None, "window": "w1"}
    assert client.put("/api/draft", json=body).json() == {}
    loaded = client.get("/api/skeleton", params={"image": "a.png"}).json()
    assert loaded["origin"] == "draft"
    assert loaded["document"]["nodes"][0] == [7.0, 9.0]
    assert [row["has_draft"] for row in client.get("/api/images").json()["images"]] == [True, False, False]
    body = {"image": "a.png", "document": document(7.0), "revision": None, "accepted": False, "window": "w2"}
    recovered = {"window": loaded["window"], "time": loaded["time"]}
    assert client.put("/api/skeleton", json=body | {"recovered": recovered}).status_code == 200
    assert client.get("/api/skeleton", params={"image": "a.png"}).json()["origin"] == "result"
    assert not any(row["has_draft"] for row in client.get("/api/images").json()["images"])


def test_the_draft_of_another_open_window_is_kept_if_it_is_newer(client, folder):
    def store(x):
        body = {"image": "a.png", "document": document(x), "revision": None, "window": "w1"}
        assert client.put("/api/draft", json=body).json() == {}
        return next((folder / "results" / ".treeformer" / "drafts").iterdir())

    def older(path):
        # A clock that stands still between two drafts must not matter here.
        content = json.loads(path.read_text())
        path.write_text(json.dumps(content | {"time": content["time"] - 1}))

    older(store(7.0))
    loaded = client.get("/api/skeleton", params={"image": "a.png"}).json()
    recovered = {"window": loaded["window"], "time": loaded["time"]}
    path = store(8.0)
    assert client.delete("/api/draft", params={"image": "a.png"} | recovered).json() == {}
    assert path.exists()
    body = {"image": "a.png", "document": document(7.0), "revision": None, "accepted": False, "window": "w2"}
    assert client.put("/api/skeleton", json=body | {"recovered": recovered}).status_code == 200
    assert json.loads(path.read_text())["document"]["nodes"][0] == [8.0, 9.0]
    now = {"image": "a.png", "window": "w1", "time": json.loads(path.read_text())["time"]}
    assert client.delete("/api/draft", params=now).json() == {}
    assert not path.exists()


@pytest.mark.parametrize("recovered", [1, {}, {"window": "w", "time": "x"}, {"window": "../w", "time": 1}])
def test_a_recovered_draft_is_named_by_window_and_time(client, folder, recovered):
    body = {"image": "a.png", "document": document(), "revision": None, "window": "w2", "recovered": recovered}
    assert client.put("/api/skeleton", json=body).status_code == 400
    assert not (folder / "results" / "a.json").exists()


def test_a_draft_of_an_older_revision_is_listed_but_not_offered(client):
    old = {"image": "a.png", "document": document(7.0), "revision": None, "window": "w1"}
    client.put("/api/draft", json=old)
    body = {"image": "a.png", "document": document(3.0), "revision": None, "accepted": False, "window": "w2"}
    assert client.put("/api/skeleton", json=body).status_code == 200
    loaded = client.get("/api/skeleton", params={"image": "a.png"}).json()
    assert loaded["origin"] == "result"
    assert loaded["document"]["nodes"][0] == [3.0, 9.0]
    assert [draft["window"] for draft in loaded["other_drafts"]] == ["w1"]
    other = client.get("/api/draft", params={"image": "a.png", "window": "w1"}).json()
    assert other["document"]["nodes"][0] == [7.0, 9.0]
    assert client.delete("/api/draft", params={"image": "a.png", "window": "w1"}).json() == {}
    assert client.get("/api/draft", params={"image": "a.png", "window": "w1"}).status_code == 404


# ---- tiles ---------------------------------------------------------------------------------------


def image_of(answer) -> Image.Image:
    assert answer.status_code == 200, answer.text
    return Image.open(io.BytesIO(answer.content))


def test_tiles_cover_the_image(client, folder):
    pyramid = client.get("/api/pyramid", params={"image": "b.jpg"}).json()
    assert pyramid == {"width": 700, "height": 600, "tile": 512, "levels": 2}
    shown = {"image": "b.jpg", "width": "300"}
    assert client.get("/api/pyramid", params=shown | {"height": "200"}).json() == pyramid
    for height in ("0", "-3", "1e3", "1000000", ""):
        assert client.get("/api/pyramid", params=shown | {"height": height}).status_code == 400
    sizes = {
        (x, y): image_of(client.get("/api/tile", params={"image": "b.jpg", "level": 0, "x": x, "y": y})).size
        for x in range(2)
        for y in range(2)
    }
    assert sizes == {(0, 0): (512, 512), (1, 0): (188, 512), (0, 1): (512, 88), (1, 1): (188, 88)}
    half = image_of(client.get("/api/tile", params={"image": "b.jpg", "level": 1, "x": 0, "y": 0}))
    assert half.size == (350, 300)
    expected = np.asarray(Image.open(folder / "images" / "b.jpg").reduce(2), dtype=float)
    assert np.abs(np.asarray(half, dtype=float) - expected).mean() < 3


@pytest.mark.parametrize(
    ("level", "x", "y"),
    [(2, 0, 0), (-1, 0, 0), (0, 2, 0), (0, 0, 2), (0, -1, 0), ("x", 0, 0), (0, "1.5", 0), (0, 10**12, 0)],
)  # fmt: skip
def test_a_tile_outside_is_refused(client, level, x, y):
    answer = client.get("/api/tile", params={"image": "b.jpg", "level": level, "x": x, "y": y})
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]


def test_thumbnails_are_small_and_kept(client, folder):
    thumbnail = image_of(client.get("/api/thumbnail", params={"image": "b.jpg"}))
    assert max(thumbnail.size) == 160
    (file,) = (folder / "results" / ".treeformer" / "thumbnails").iterdir()
    again = client.get("/api/thumbnail", params={"image": "b.jpg"})
    assert again.content == file.read_bytes()


def test_a_crop_is_gray_and_reduced(client, folder):
    box = {"x0": 100, "y0": 50, "x1": 500, "y1": 250, "max": 200}
    crop = image_of(client.get("/api/crop", params={"image": "b.jpg", **box}))
    assert crop.mode == "L"
    assert crop.size == (200, 100)
    expected = Image.open(folder / "images" / "b.jpg").convert("L").crop((100, 50, 500, 250)).reduce(2)
    assert np.abs(np.asarray(crop, dtype=float) - np.asarray(expected, dtype=float)).max() <= 4
    # Beyond the border its pixels are repeated, so that the crop has the size that was asked for.
    wide = image_of(
        client.get("/api/crop", params={"image": "a.png", "x0": -10, "y0": 0, "x1": 74, "y1": 48, "max": 999})
    )
    assert wide.size == (84, 48)
    pixels = np.asarray(wide)
    assert (pixels[:, :10] == pixels[:, 10:11]).all()
    assert (pixels[:, 74:] == pixels[:, 73:74]).all()


@pytest.mark.parametrize(
    "change", [{"x1": 0}, {"max": 0}, {"max": 10**6}, {"x0": "nan"}, {"x0": 9000, "x1": 9999}, {"x1": 1e300}]
)
def test_an_invalid_crop_is_refused(client, change):
    answer = client.get("/api/crop", params={"image": "b.jpg", "x0": 0, "y0": 0, "x1": 9, "y1": 9, "max": 9} | change)
    assert answer.status_code == 400


# ---- traits --------------------------------------------------------------------------------------


def test_traits_of_a_document(client):
    table = client.post("/api/traits", json={"document": document(), "px_per_mm": 2}).json()
    (row,) = table["rows"]
    assert row["unit"] == "mm"
    assert row["total_length"] == 7.0
    assert row["mean_diameter"] is None
    assert set(row) == set(table["columns"])
    assert table["units"]["total_length"] == "mm"
    assert table["units"]["convex_hull_area"] == "mm²"
    empty = client.post(
        "/api/traits",
        json={"document": document() | {k: [] for k in ("nodes", "edges", "roots", "node_score", "edge_score")}},
    )
    assert empty.json()["rows"][0]["total_length"] == 0
    assert client.post("/api/traits", json={"document": document(), "px_per_mm": -1}).status_code == 422


def test_the_table_of_the_folder(client, folder):
    saved(client, "a.png")
    saved(client, "sub/ä c.png")
    (folder / "results" / "b.json").write_text("{broken")
    answer = client.get("/api/traits.csv", params={"px_per_mm": 2})
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    table = pd.read_csv(io.StringIO(answer.text))
    assert table["image"].tolist() == ["a.png", "sub/ä c.png", "b.jpg"]
    assert table["total_length"].tolist()[:2] == [7.0, 7.0]
    assert table["file"].tolist()[:2] == ["a.json", "sub/ä c.json"]
    assert "JSON" in table["note"].tolist()[2]
    texts = pd.read_csv(io.StringIO(answer.text), dtype=str)
    whole = ["plant", "lateral_count", "tip_count"]
    assert all(texts[name].tolist()[:2] == [str(int(float(text))) for text in texts[name][:2]] for name in whole)


def test_images_that_share_a_file_have_their_own_rows(client, folder):
    """As in the list of the page, in finetune and in next."""
    for name in ("b", "c", "broken"):
        for suffix in (".png", ".jpg"):
            gradient(folder / "images" / f"{name}{suffix}")
    two_plants = Skeleton([(9, 9), (9, 5), (20, 9), (20, 3)], [(0, 1), (2, 3)], root=[0, 2])
    treeformer.write(two_plants, folder / "images" / "b.json")
    treeformer.write(Skeleton([(9, 9), (9, 5)], [(0, 1)], image_name="c.png"), folder / "images" / "c.json")
    (folder / "images" / "broken.json").write_text("{broken")
    table = pd.read_csv(io.StringIO(client.get("/api/traits.csv").text))
    listed = ["b.jpg", "b.jpg", "b.png", "b.png", "c.png", "broken.jpg", "broken.png"]
    assert table["image"].tolist() == listed
    assert table["total_length"].tolist()[:4] == [4.0, 6.0, 4.0, 6.0]
    assert table["note"].str.contains("JSON").tolist()[-2:] == [True, True]


# ---- page ----------------------------------------------------------------------------------------


def test_the_page_and_its_files(workspace, make_client, tmp_path):
    static = tmp_path / "static"
    client = make_client(workspace, static=static)
    assert "make web" in client.get("/").text
    gradient(static / "assets" / "logo.png")
    (static / "index.html").write_text("<p>the page</p>")
    (static / "assets" / "index.js").write_text("1")
    assert client.get("/").text == "<p>the page</p>"
    assert client.get("/assets/index.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/assets/none.js").status_code == 404
    assert client.get("/api/none").status_code == 404
    assert client.get("/api/none").json()["error"]


def test_images_that_are_added_or_removed_while_the_server_runs(client, folder):
    gradient(folder / "images" / "new.png")
    assert "new.png" in states(client)
    assert client.get("/api/pyramid", params={"image": "new.png"}).status_code == 200
    for path in (folder / "images").rglob("*.*"):
        path.unlink()
    assert states(client) == {}
    assert client.get("/api/pyramid", params={"image": "new.png"}).status_code == 404


def test_results_beside_the_images(folder, make_client):
    client = make_client(Workspace(folder / "images", folder / "images"))
    assert saved(client, "a.png").json()["files"] == ["a.json", "a.rsml"]
    assert states(client)["a.png"] == "edited"
