"""`treeformer edit` as a process: it prints its address, survives kill -9 with its drafts, and ends with Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.inference.fake_engine import line_engine, predictor
from tests.messages import one_line
from tests.web.conftest import document, gradient
from tests.web.test_training import stub


class Server:
    """A running editor, and a client with its cookie."""

    def __init__(self, *arguments: object, code: str | None = None, **environment: str) -> None:
        program = ["-m", "treeformer"] if code is None else ["-c", code]
        self.process = subprocess.Popen(
            [sys.executable, *program, "edit", *map(str, arguments), "--no-browser"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
            start_new_session=True,  # as a terminal does, so that tests can press Ctrl-C
        )
        self.address = self.process.stdout.readline().strip()
        self.base = self.address.partition("/?")[0]
        self.client = httpx.Client(base_url=self.base, headers={"Origin": self.base}, timeout=600)
        assert self.client.get(self.address).status_code == 303

    def end(self, how: signal.Signals) -> str:
        """Send a signal, wait for the end, return what was printed on standard error."""
        self.client.close()
        self.process.send_signal(how)
        return self.process.communicate(timeout=600)[1]


@pytest.fixture(scope="module")
def serve():
    servers = []

    def start(*arguments: object, code: str | None = None, **environment: str) -> Server:
        servers.append(Server(*arguments, code=code, **environment))
        return servers[-1]

    yield start
    for server in servers:
        server.client.close()
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


@pytest.fixture
def images(tmp_path) -> Path:
    gradient(tmp_path / "images" / "a.png")
    return tmp_path / "images"


@pytest.mark.slow
def test_it_serves_this_computer_only_and_ends_with_ctrl_c(serve, images, tmp_path):
    server = serve(images, "--results", tmp_path / "results")
    assert server.base.startswith("http://127.0.0.1:")
    assert len(server.address.partition("token=")[2]) >= 32
    assert server.client.get("/").status_code == 200
    (row,) = server.client.get("/api/images").json()["images"]
    assert row["image"] == "a.png"
    port = int(server.base.rpartition(":")[2])
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in addresses:
        if not address.startswith("127."):
            with pytest.raises(OSError, match=r"refused|timed out|unreachable"):
                socket.create_connection((address, port), timeout=2)
    assert httpx.get(f"{server.base}/api/images").status_code == 403
    error = server.end(signal.SIGINT)
    assert server.process.returncode == 0, error
    assert "Traceback" not in error
    assert len(error.splitlines()) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "left"),
    [(signal.SIGINT, "stopped"), (signal.SIGHUP, "stopped"), (signal.SIGKILL, "nobody reads")],
    ids=["ctrl-c", "terminal-closed", "killed"],
)
def test_the_training_ends_with_the_editor_and_keeps_its_checkpoint(serve, images, how, left):
    """The terminal sends the first two signals to the process group of the editor."""
    use_stub = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); "  # ignored if the tests run under nohup
        f"from treeformer.web import services; services.COMMAND = {stub('checkpoint')};"
        " from treeformer.cli import main; main()"
    )
    server = serve(images, code=use_stub)
    body = {"image": "a.png", "document": document(), "revision": None, "accepted": True, "window": "w"}
    assert server.client.put("/api/skeleton", json=body).status_code == 200
    assert server.client.post("/api/training", json={}).status_code == 202
    deadline = time.monotonic() + 600
    while "waiting" not in server.client.get("/api/training").json()["lines"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    server.client.close()
    os.killpg(server.process.pid, how)
    server.process.communicate(timeout=600)
    checkpoint = images / ".treeformer" / "models" / "checkpoint"
    while not checkpoint.exists() or not checkpoint.read_text():
        assert how is signal.SIGKILL, "the training was not ended by the editor"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert checkpoint.read_text() == left


@pytest.fixture(scope="module")
def two_servers(serve, tmp_path_factory) -> list[Server]:
    """Two servers of one folder."""
    folder = tmp_path_factory.mktemp("two")
    gradient(folder / "images" / "a.png")
    return [serve(folder / "images", "--results", folder / "results") for _ in range(2)]


@pytest.mark.slow
def test_two_servers_have_different_tokens_and_cookies(two_servers):
    first, second = two_servers
    assert first.address.partition("token=")[2] != second.address.partition("token=")[2]
    assert httpx.get(f"{second.base}/?token={first.address.partition('token=')[2]}").status_code == 403
    # Cookies are sent to every port of a host. That of one server does not open the other.
    cookies = {**first.client.cookies}
    assert httpx.get(f"{second.base}/api/images", cookies=cookies).status_code == 403
    assert first.client.get("/api/images").status_code == 200


@pytest.mark.slow
def test_two_servers_on_one_folder_the_second_save_is_told(two_servers):
    body = {"image": "a.png", "revision": None, "accepted": False, "window": "w"}
    answers = [
        server.client.put("/api/skeleton", json=body | {"document": document(float(k))})
        for k, server in enumerate(two_servers, start=1)
    ]
    assert [answer.status_code for answer in answers] == [200, 409]
    assert answers[1].json()["document"]["nodes"][0] == [1.0, 9.0]
    loaded = two_servers[1].client.get("/api/skeleton", params={"image": "a.png"}).json()
    assert loaded["revision"] == answers[0].json()["revision"]


@pytest.mark.slow
def test_a_draft_survives_kill_9(serve, images, tmp_path):
    server = serve(images, "--results", tmp_path / "results")
    body = {"image": "a.png", "document": document(7.0), "revision": None, "window": "w1"}
    assert server.client.put("/api/draft", json=body).status_code == 200
    server.end(signal.SIGKILL)
    again = serve(images, "--results", tmp_path / "results")
    assert again.client.get("/api/images").json()["images"][0]["has_draft"]
    loaded = again.client.get("/api/skeleton", params={"image": "a.png"}).json()
    assert loaded["origin"] == "draft"
    assert loaded["document"]["nodes"][0] == [7.0, 9.0]


@pytest.mark.slow
def test_kill_9_while_drafts_and_results_are_written(serve, images, tmp_path):
    """Whatever the moment, the draft and the result are complete files, the last confirmed ones or newer."""
    import threading

    results = tmp_path / "results"
    server = serve(images, "--results", results)
    for pause in (0.03, 0.15):
        confirmed = [0]
        revision = server.client.get("/api/skeleton", params={"image": "a.png"}).json()["result_revision"]

        def work(server=server, confirmed=confirmed, revision=revision):
            try:
                for x in range(1, 10_000):
                    fields = {"image": "a.png", "document": document(float(x)), "revision": revision, "window": "w"}
                    server.client.put("/api/draft", json=fields)
                    if x % 5 == 0:
                        revision = server.client.put("/api/skeleton", json=fields).json()["revision"]
                    confirmed[0] = x
            except (httpx.HTTPError, RuntimeError, KeyError):
                return

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(pause)
        server.process.kill()
        thread.join()
        server.process.communicate()
        server = serve(images, "--results", results)
        loaded = server.client.get("/api/skeleton", params={"image": "a.png"})
        assert loaded.status_code == 200, loaded.text
        if confirmed[0]:
            assert loaded.json()["document"]["nodes"][0][0] >= confirmed[0]
        assert not [path for path in results.rglob(".*-*-*") if path.is_file()]  # leftovers were removed


@pytest.mark.slow
def test_predict_then_edit_the_results(run, serve, images, tmp_path, monkeypatch):
    gradient(images / "sub" / "b.png", (80, 80))
    monkeypatch.setattr("treeformer.inference.predictor.Predictor", lambda *_, **__: predictor(line_engine()))
    assert run("predict", images, "-o", tmp_path / "results")[0] == 0
    server = serve(tmp_path / "results")
    rows = server.client.get("/api/images").json()["images"]
    assert [(row["image"], row["state"]) for row in rows] == [("a.png", "predicted"), ("sub/b.png", "predicted")]


def test_a_mistake_is_one_line(run, tmp_path, images):
    code, _, err = run("edit", tmp_path / "none")
    assert code == 2
    assert "no such file" in one_line(err)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = run("edit", images, "--port", taken.getsockname()[1], "--no-browser")
        assert code == 2
        assert "--port" in one_line(err)
    code, _, err = run("edit", images, "--model", tmp_path / "no model")
    assert code == 2
    assert "no such folder" in one_line(err)


@pytest.mark.slow
def test_a_missing_package_is_one_line(run, images, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, err = run("edit", images)
    assert code == 2
    assert one_line(err) == "treeformer: the editor needs further packages: pip install 'treeformer[web]'"
