"""Saving: conflicts, simultaneous saves, crashes, originals, foreign content, imports."""

from __future__ import annotations

import json
import threading

import pytest

import treeformer
from tests.web.conftest import document, gradient, saved
from treeformer import Axis, Skeleton, formats
from treeformer.web import saving
from treeformer.web.errors import RequestError
from treeformer.web.folder import Workspace

FOREIGN = """<?xml version="1.0" encoding="UTF-8"?>
<rsml><metadata><version>1</version><unit>mm</unit><resolution>4</resolution>
<last-modified>2024-06-20T18:03:01</last-modified><software>OtherTool</software><user>ada</user>
<file-key>k</file-key></metadata>
<scene><plant id="p7"><root id="r1" label="tap" accession="PO:0020127">
<properties><vigor>high</vigor></properties>
<geometry><polyline><point x="5" y="2"/><point x="6" y="12"/><point x="7" y="30"/></polyline>
<rootnavspline controlpointseparation="50"><point x="5" y="2"/></rootnavspline></geometry>
<functions><function name="diameter" domain="polyline"><sample>3</sample><sample>2</sample><sample>1</sample></function>
</functions>
<root id="r2" label="lat"><geometry><polyline><point x="6" y="12"/><point x="20" y="14"/></polyline></geometry></root>
</root></plant></scene></rsml>
"""


def load(client, image="a.png"):
    answer = client.get("/api/skeleton", params={"image": image})
    assert answer.status_code == 200, answer.text
    return answer.json()


def put(client, loaded, image="a.png", **fields):
    body = {"image": image, "document": loaded["document"], "revision": loaded["revision"], "accepted": False} | fields
    return client.put("/api/skeleton", json=body)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


# ---- conflicts -----------------------------------------------------------------------------------


def test_the_second_window_is_told_and_nothing_is_overwritten(client, folder):
    saved(client, x=1.0)
    first, second = load(client), load(client)
    assert put(client, first, document=document(2.0)).status_code == 200
    before = (folder / "results" / "a.json").read_bytes(), (folder / "results" / "a.rsml").read_bytes()
    answer = put(client, second, document=document(3.0))
    assert answer.status_code == 409
    conflict = answer.json()
    assert conflict["document"]["nodes"][0] == [2.0, 9.0]
    assert conflict["revision"] == load(client)["revision"]
    assert ((folder / "results" / "a.json").read_bytes(), (folder / "results" / "a.rsml").read_bytes()) == before
    # With the revision of the answer the second one is saved: the person has decided.
    assert put(client, conflict, document=document(3.0)).status_code == 200
    assert load(client)["document"]["nodes"][0] == [3.0, 9.0]


def test_a_result_that_another_program_wrote_meanwhile_is_a_conflict(client, folder):
    loaded = load(client)
    treeformer.write(Skeleton([(1, 1), (2, 2)], [(0, 1)]), folder / "results" / "a.json")
    assert put(client, loaded, document=document()).status_code == 409
    assert put(client, loaded, document=document()).json()["document"]["nodes"] == [[1, 1], [2, 2]]


def test_a_result_that_was_removed_meanwhile_is_a_conflict(client, folder):
    saved(client)
    loaded = load(client)
    for path in (folder / "results").glob("a.*"):
        path.unlink()
    answer = put(client, loaded)
    assert answer.status_code == 409
    assert answer.json()["revision"] is None


def test_of_many_simultaneous_saves_one_succeeds(client, folder):
    services, count = client.services, 16
    entry = services.workspace.entry("a.png")
    barrier, outcomes = threading.Barrier(count), []

    def save(number):
        barrier.wait()
        try:
            services.store.save(entry, document(float(number)), None)
            outcomes.append((200, number))
        except RequestError as error:
            outcomes.append((error.status, number))

    threads = [threading.Thread(target=save, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(status for status, _ in outcomes) == [200] + [409] * (count - 1)
    winner = min(outcomes)[1]
    assert load(client)["document"]["nodes"][0] == [float(winner), 9.0]
    in_rsml = treeformer.read(folder / "results" / "a.rsml")
    assert [float(winner), 9.0] in in_rsml.nodes.tolist()
    assert names(folder / "results") == ["a.json", "a.rsml"]


def test_of_the_saves_of_several_processes_one_succeeds(workspace, make_client, monkeypatch):
    """Each store stands for a process: it has locks of its own. The others try while the first one is writing."""
    stores = [make_client(workspace).services.store for _ in range(3)]
    entry, outcomes, others = workspace.entry("a.png"), [], []

    def save(number):
        try:
            stores[number].save(entry, document(float(number)), None)
            outcomes.append((200, number))
        except RequestError as error:
            outcomes.append((error.status, number))

    write = saving.write_saved
    is_first = True

    def slow(*arguments):
        nonlocal is_first
        if not is_first:
            return write(*arguments)
        is_first = False
        others.extend(threading.Thread(target=save, args=(number,)) for number in (1, 2))
        for thread in others:
            thread.start()
        for thread in others:
            thread.join(0.2)
        return write(*arguments)

    monkeypatch.setattr(saving, "write_saved", slow)
    save(0)
    for thread in others:
        thread.join()
    assert sorted(outcomes) == [(200, 0), (409, 1), (409, 2)]
    assert json.loads(entry.result.read_bytes())["nodes"][0] == [0.0, 9.0]


# ---- crashes -------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process ends here: nothing handles it."""


@pytest.mark.slow
@pytest.mark.parametrize("step", range(10))
def test_a_crash_at_any_step_of_a_save_leaves_complete_files(workspace, make_client, folder, monkeypatch, step):
    """Stop before the k-th flush or rename. The old or the new result is there, the foreign file always."""
    results = folder / "results"
    results.mkdir()
    (results / "a.rsml").write_text(FOREIGN)
    client = make_client(workspace)
    loaded = load(client)
    draft = {"image": "a.png", "document": document(7.0), "revision": loaded["revision"], "window": "w"}
    assert client.put("/api/draft", json=draft).status_code == 200
    calls = 0

    def counting(function):
        def call(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls == step + 1:
                raise Crash
            return function(*arguments, **options)

        return call

    import treeformer._util.files as files

    with monkeypatch.context() as patch:
        patch.setattr(files, "_flush_to_disk", counting(files._flush_to_disk))
        patch.setattr(files.Path, "replace", counting(files.Path.replace))
        entry = workspace.entry("a.png")
        with pytest.raises(Crash):
            client.services.store.save(entry, document(7.0), loaded["revision"])
    assert FOREIGN in [path.read_text() for path in results.glob("*.rsml")]
    assert not (results / "a.json").exists()
    again = make_client(Workspace(folder / "images", results))
    state = load(again)
    # Until RSML has been replaced the draft is offered, afterwards the new RSML.
    assert state["origin"] == ("draft" if step < 8 else "import")
    assert [7.0, 9.0] in state["document"]["nodes"]
    # After the crash, saving works, and there is no second copy of the original.
    assert put(again, state, document=document(8.0)).status_code == 200
    kept = [path for path in results.glob("a.orig*.rsml") if path.read_text() == FOREIGN]
    assert len(kept) == 1


def test_a_save_has_ten_steps(client, folder, monkeypatch):
    (folder / "results").mkdir()
    (folder / "results" / "a.rsml").write_text(FOREIGN)
    loaded = load(client)
    import treeformer._util.files as files

    calls = []
    for owner, name in ((files, "_flush_to_disk"), (files.Path, "replace")):
        original = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a, _f=original, **k: (calls.append(1), _f(*a, **k))[1])
    assert put(client, loaded).status_code == 200
    assert len(calls) == 10


# ---- originals -----------------------------------------------------------------------------------


def test_foreign_rsml_is_kept_once_and_its_content_preserved(client, folder):
    results = folder / "results"
    results.mkdir()
    (results / "a.rsml").write_text(FOREIGN)
    loaded = load(client)
    assert loaded["origin"] == "import"
    assert loaded["file"] == "a.rsml"
    assert put(client, loaded).status_code == 200
    assert names(results) == ["a.json", "a.orig.rsml", "a.rsml"]
    assert (results / "a.orig.rsml").read_text() == FOREIGN
    written = (results / "a.rsml").read_text()
    for text in ("rootnavspline", "<vigor>high</vigor>", 'id="p7"', 'id="r2"', "OtherTool", "<user>ada</user>"):
        assert text in written
    for path in ("a.json", "a.rsml"):
        skeleton = treeformer.read(results / path)
        assert [axis.id for axis in skeleton.axes] == ["r1", "r2"]
        assert skeleton.axes[0].functions[0].samples == (3, 2, 1)
    # The editor wrote these files: further saves keep nothing.
    for x in (1.0, 2.0):
        assert saved(client, x=x).status_code == 200
    assert names(results) == ["a.json", "a.orig.rsml", "a.rsml"]


def test_a_prediction_is_kept_before_the_first_save(client, folder):
    path = folder / "results" / "a.json"
    treeformer.write(Skeleton([(1, 1), (2, 2)], [(0, 1)], node_score=[1, 1], edge_score=[0.5]), path)
    prediction = path.read_bytes()
    assert put(client, load(client)).status_code == 200
    assert (folder / "results" / "a.orig.json").read_bytes() == prediction
    assert saved(client).status_code == 200
    assert names(folder / "results") == ["a.json", "a.orig.json", "a.rsml"]


def state(client, image="a.png"):
    row = next(row for row in client.get("/api/images").json()["images"] if row["image"] == image)
    return row["state"], row["origin"]


PREDICTED = Skeleton([(1, 1), (2, 2)], [(0, 1)], root=0, node_score=[1, 1], edge_score=[0.5])


def test_a_save_without_a_change_or_of_the_scale_changes_no_state(client, folder):
    path = folder / "results" / "a.json"
    treeformer.write(PREDICTED, path)
    for scale in (None, 4.0):
        loaded = load(client)
        loaded["document"]["metadata"] = {**loaded["document"].get("metadata", {}), "editor": {"px_per_mm": scale}}
        assert put(client, loaded).json()["origin"] == "prediction"
        assert state(client) == ("predicted", "prediction")
    assert "<unit>mm</unit>" in (folder / "results" / "a.rsml").read_text()
    # Another program that changes the file has corrected it.
    changed = json.loads(path.read_text())
    changed["nodes"][0] = [7.0, 1.0]
    path.write_text(json.dumps(changed))
    assert state(client) == ("edited", "correction")


def test_a_change_corrects_and_a_save_without_one_keeps_what_was_accepted(client, folder):
    treeformer.write(PREDICTED, folder / "results" / "a.json")
    loaded = load(client)
    loaded["document"]["nodes"][0] = [7.0, 1.0]
    assert put(client, loaded).json()["origin"] == "correction"
    assert put(client, load(client)).json()["origin"] == "correction"
    assert put(client, load(client), accepted=True).json()["origin"] == "accepted"
    assert put(client, load(client)).json()["origin"] == "accepted"
    assert load(client)["document"]["metadata"]["editor"]["accepted"] is True
    loaded = load(client)
    loaded["document"]["nodes"][0] = [8.0, 1.0]
    assert put(client, loaded).json()["origin"] == "correction"


@pytest.mark.parametrize("key", ["node_source", "edge_source"])
def test_places_that_a_person_has_checked_are_a_change(client, folder, key):
    treeformer.write(PREDICTED, folder / "results" / "a.json")
    loaded = load(client)
    sources = {"node_source": ["predicted"] * 2, "edge_source": ["predicted"]}
    loaded["document"]["metadata"] = {"editor": sources}
    assert put(client, loaded).json()["origin"] == "prediction"
    loaded = load(client)
    loaded["document"]["metadata"]["editor"][key][0] = "accepted"
    assert put(client, loaded).json()["origin"] == "correction"


def test_an_annotation_stays_one(client, folder, y_shape):
    treeformer.write(y_shape.replace(image_size=None), folder / "images" / "a.swc")
    assert put(client, load(client)).json()["origin"] == "annotation"
    assert state(client) == ("edited", "annotation")


def test_a_file_that_another_program_changed_after_a_save_is_kept(client, folder):
    results = folder / "results"
    saved(client)
    (results / "a.rsml").write_text(FOREIGN)
    saved(client, x=2.0)
    assert (results / "a.orig.rsml").read_text() == FOREIGN
    changed = json.loads((results / "a.json").read_text())
    changed["nodes"][0] = [30.0, 9.0]
    (results / "a.json").write_text(json.dumps(changed))
    (results / "a.rsml").write_text(FOREIGN.replace("ada", "bob"))
    saved(client, x=3.0)
    assert json.loads((results / "a.orig.json").read_text()) == changed
    assert (results / "a.orig.rsml").read_text() == FOREIGN
    assert (results / "a.orig-2.rsml").read_text() == FOREIGN.replace("ada", "bob")


def test_a_json_file_of_another_kind_is_kept(client, folder):
    (folder / "results").mkdir()
    path = folder / "results" / "a.json"
    path.write_text('{"camera": "f/8"}')
    assert load(client)["origin"] == "none"
    assert put(client, load(client), document=document()).status_code == 200
    assert (folder / "results" / "a.orig.json").read_text() == '{"camera": "f/8"}'


def test_a_prediction_does_not_replace_a_file_of_another_kind(client, folder):
    (folder / "results").mkdir()
    path = folder / "results" / "a.json"
    path.write_text('{"camera": "f/8"}')
    entry = client.services.workspace.entry("a.png")
    assert client.services.store.save_prediction(entry, Skeleton([(1, 1)], [])) is False
    assert path.read_text() == '{"camera": "f/8"}'


def test_an_original_never_takes_the_name_of_another_result(folder, make_client):
    gradient(folder / "images" / "a.orig.png")
    client = make_client(Workspace(folder / "images", folder / "results"))
    (folder / "results").mkdir()
    (folder / "results" / "a.rsml").write_text(FOREIGN)
    assert put(client, load(client)).status_code == 200
    assert (folder / "results" / "a.orig-2.rsml").read_text() == FOREIGN
    assert load(client, "a.orig.png")["origin"] == "none"


def test_a_broken_result_can_be_replaced_and_is_kept(client, folder):
    (folder / "results").mkdir()
    (folder / "results" / "a.json").write_text('{"format": "treeformer-skeleton", ')
    answer = client.get("/api/skeleton?image=a.png")
    assert answer.status_code == 422
    assert "a.json" in answer.json()["error"]
    conflict = put(client, {"document": document(), "revision": None})
    assert conflict.status_code == 409
    assert put(client, conflict.json(), document=document()).status_code == 200
    assert (folder / "results" / "a.orig.json").read_text() == '{"format": "treeformer-skeleton", '


# ---- imports -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("where", ["images", "results"])
@pytest.mark.parametrize("name", ["rsml", "swc", "json", "graphml", "geojson", "labelme", "node-link"])
def test_files_of_other_programs_are_starting_points(client, folder, y_shape, where, name):
    suffix = formats.FORMATS[name].suffixes[0]
    path = folder / where / f"a{suffix}"
    treeformer.write(y_shape, path, format=name)
    original = path.read_bytes()
    loaded = load(client)
    is_result = where == "results" and name == "json"
    assert loaded["origin"] == ("result" if is_result else "import")
    nodes = sorted(loaded["document"]["nodes"])
    assert nodes == sorted(y_shape.nodes.tolist())
    assert len(loaded["document"]["roots"]) == 1
    assert put(client, loaded).status_code == 200
    assert sorted(treeformer.read(folder / "results" / "a.json").nodes.tolist()) == nodes
    kept = path.with_name(f"a.orig{suffix}")
    if where == "images" or suffix not in (".json", ".rsml"):
        assert path.read_bytes() == original
        assert not kept.exists()
    else:
        assert kept.read_bytes() == original


def test_the_result_comes_before_other_files(client, folder, y_shape, comb):
    treeformer.write(comb, folder / "images" / "a.rsml")
    assert len(load(client)["document"]["nodes"]) == len(comb)
    treeformer.write(y_shape, folder / "results" / "a.swc")
    assert len(load(client)["document"]["nodes"]) == len(y_shape)


def test_a_file_with_a_cycle_is_one_sentence(client, folder):
    (folder / "results").mkdir()
    cycle = Skeleton([(0, 0), (1, 0), (1, 1)], [(0, 1), (1, 2), (2, 0)])
    treeformer.write(cycle, folder / "results" / "a.json")
    answer = client.get("/api/skeleton?image=a.png")
    assert answer.status_code == 422
    assert "cycle" in answer.json()["error"]


def test_what_rsml_cannot_represent_is_saved_as_json_alone(client, folder):
    """A chain of axes, each a lateral of the one before, deeper than RSML files may be nested."""
    count = 400
    axes = [Axis((k, k + 1), parent=k - 1 if k else None) for k in range(count)]
    deep = Skeleton(
        [(k, k % 2) for k in range(count + 1)],
        [(k, k + 1) for k in range(count)],
        root=0,
        axes=axes,
        edge_axis=list(range(count)),
    )
    answer = put(client, load(client), document=formats.native_json.to_document(deep))
    assert answer.status_code == 200, answer.text
    assert "RSML" in answer.json()["warning"]
    assert answer.json()["files"] == ["a.json"]
    assert names(folder / "results") == ["a.json"]


def test_a_scale_that_was_removed_is_not_in_the_files(client, folder):
    sized = document(1.0) | {"metadata": {"editor": {"px_per_mm": 4.0}}}
    assert put(client, load(client), document=sized).status_code == 200
    loaded = load(client)
    metadata = loaded["document"]["metadata"]
    assert metadata["rsml"]["unit"] == "mm"
    # As the page removes it.
    rsml = {key: value for key, value in metadata["rsml"].items() if key not in ("unit", "resolution")}
    metadata |= {"rsml": rsml, "editor": metadata["editor"] | {"px_per_mm": None}}
    assert put(client, loaded).status_code == 200
    assert "<unit>pixel</unit>" in (folder / "results" / "a.rsml").read_text()
    assert client.get("/api/traits.csv").text.count(",px,") == 1


def test_each_image_is_measured_with_its_own_scale(client):
    for image, scale in (("a.png", 4.0), ("sub/ä c.png", None)):
        sized = document(1.0) | {"metadata": {"editor": {"px_per_mm": scale}}}
        assert put(client, load(client, image), image, document=sized).status_code == 200
    rows = client.get("/api/traits.csv").text.splitlines()[1:]
    assert [",mm," in row for row in rows] == [True, False]
