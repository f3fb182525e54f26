"""Who may use the server, and what a hostile request reaches: nothing."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from PIL import Image

import treeformer
from tests.web.conftest import BASE, PORT, TOKEN, document, gradient, saved
from treeformer.web.errors import RequestError
from treeformer.web.folder import Workspace
from treeformer.web.security import resolve_inside

REQUESTS = [
    ("GET", "/"), ("GET", "/assets/index.js"), ("GET", "/api/session"), ("GET", "/api/images"),
    ("GET", "/api/series"), ("GET", "/api/thumbnail?image=a.png"), ("GET", "/api/pyramid?image=a.png"),
    ("GET", "/api/tile?image=a.png&level=0&x=0&y=0"), ("GET", "/api/crop?image=a.png&x0=0&y0=0&x1=9&y1=9&max=9"),
    ("GET", "/api/skeleton?image=a.png"), ("PUT", "/api/skeleton"), ("GET", "/api/draft?image=a.png&window=w"),
    ("PUT", "/api/draft"), ("DELETE", "/api/draft?image=a.png&window=w"), ("POST", "/api/predict"),
    ("POST", "/api/predict-missing"), ("POST", "/api/predict-again"), ("GET", "/api/next"), ("GET", "/api/training"),
    ("POST", "/api/training"), ("DELETE", "/api/training"), ("GET", "/api/gpu"), ("GET", "/api/jobs"),
    ("DELETE", "/api/jobs?job=x"), ("POST", "/api/traits"), ("GET", "/api/traits.csv"),
]  # fmt: skip


def files(folder):
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.parametrize("cookie", [None, "wrong", ""])
def test_no_request_without_the_cookie(workspace, make_client, folder, cookie):
    client = make_client(workspace, cookie=False)
    before = files(folder)
    headers = {} if cookie is None else {"Cookie": f"treeformer-{PORT}={cookie}"}
    for method, path in REQUESTS:
        answer = client.request(method, path, headers=headers)
        assert answer.status_code == 403, (method, path)
        assert "token" in answer.json()["error"], (method, path)
        assert files(folder) == before, (method, path)


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", TOKEN[:-1], "ä", "\0"])
def test_a_wrong_token_gives_no_cookie(workspace, make_client, token):
    client = make_client(workspace, cookie=False)
    answer = client.get("/", params={"token": token}, follow_redirects=False)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_two_tokens_are_refused(workspace, make_client):
    client = make_client(workspace, cookie=False)
    assert client.get(f"/?token={TOKEN}&token=x", follow_redirects=False).status_code == 403


def test_the_token_is_exchanged_for_a_strict_cookie(workspace, make_client):
    client = make_client(workspace, cookie=False)
    answer = client.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    # From a link on another site, a redirect would not carry the cookie.
    other = client.get("/", params={"token": TOKEN}, headers={"Sec-Fetch-Site": "cross-site"}, follow_redirects=False)
    assert other.status_code == 200
    assert "refresh" in other.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": f"evil.example:{PORT}"},
        {"Host": "127.0.0.1"},
        {"Host": f"127.0.0.1:{PORT + 1}"},
        {"Host": f"127.0.0.1:{PORT}.evil.example"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{PORT + 1}"},
        {"Origin": f"https://127.0.0.1:{PORT}"},
        {"Origin": f"http://localhost:{PORT}"},  # not the Host of the request
    ],
    ids=lambda headers: "=".join(*headers.items()),
)
def test_requests_for_another_host_or_from_another_page_are_refused(client, folder, headers):
    before = files(folder)
    for method, path in REQUESTS:
        answer = client.request(method, path, headers=headers)
        assert answer.status_code == 403, (method, path, answer.text)
        assert answer.json()["error"], (method, path)
        assert files(folder) == before, (method, path)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_images_cannot_be_embedded_in_other_pages(client, site):
    answer = client.get("/api/thumbnail?image=a.png", headers={"Sec-Fetch-Site": site})
    assert answer.status_code == 403
    assert client.get("/api/thumbnail?image=a.png").headers["cross-origin-resource-policy"] == "same-origin"


def test_a_change_needs_an_origin(client):
    del client.headers["Origin"]
    assert client.post("/api/predict-missing", json={}).status_code == 403
    assert client.get("/api/jobs").json() == {"jobs": []}


def test_localhost_is_this_server(workspace, make_client):
    client = make_client(workspace, cookie=False)
    name = f"localhost:{PORT}"
    headers = {"Host": name, "Origin": f"http://{name}"}
    assert client.get("/", params={"token": TOKEN}, headers=headers, follow_redirects=False).status_code == 303


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "OPTIONS", "PATCH", "FOO"])
def test_other_methods_are_refused(client, method):
    assert client.request(method, "/api/images").status_code == 405


def test_answers_carry_the_headers_of_a_local_page(client):
    answer = client.get("/api/images")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers


# ---- paths ---------------------------------------------------------------------------------------

HOSTILE = [
    "../secret.png", "sub/../../secret.png", "./a.png", "sub/../a.png", "//a.png", "/a.png", "a.png/", "a.png\0",
    "\0", "", ".", "..", "~/secret.png", "..\\secret.png", "C:\\secret.png", "C:secret.png", "file:///etc/passwd",
    "%2e%2e/secret.png", "..%2fsecret.png", "%252e%252e%252fsecret.png", "a.png%00.png", "．．/secret.png",
    "/etc/passwd", "notes.txt", ".hidden.png", "a.png\n", "\ud800", "x" * 5000, "a" * 255 + "/" + "b" * 255,
]  # fmt: skip
QUERIES = [
    "/api/thumbnail?image={}", "/api/pyramid?image={}", "/api/tile?image={}&level=0&x=0&y=0",
    "/api/crop?image={}&x0=0&y0=0&x1=9&y1=9&max=9", "/api/skeleton?image={}", "/api/draft?image={}&window=w",
]  # fmt: skip


@pytest.fixture
def with_secrets(folder):
    gradient(folder / "secret.png")
    (folder / "secret.json").write_text(json.dumps(document()))
    (folder / "images" / "notes.txt").write_text("private")
    gradient(folder / "images" / ".hidden.png")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_no_path_of_a_query_leads_out(with_secrets, client, query):
    for name in [*HOSTILE, str(with_secrets / "secret.png"), str(with_secrets / "images" / "a.png")]:
        quoted = quote(name.encode("utf-8", "surrogatepass"), safe="")
        for sent in (quoted, quote(quoted, safe="")):
            answer = client.get(query.format(sent))
            assert answer.status_code in (400, 404), (name, answer.text)
            assert answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/api/skeleton"), ("PUT", "/api/draft"), ("POST", "/api/predict")]
)
def test_no_path_of_a_body_leads_out(with_secrets, client, method, path):
    before = files(with_secrets)
    for name in [*HOSTILE, str(with_secrets / "secret.png"), None, 5, ["a.png"], {"a": 1}, True]:
        body = {"image": name, "document": document(), "revision": None, "window": "w"}
        answer = client.request(method, path, content=json.dumps(body), headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 404), (name, answer.text)
    assert files(with_secrets) == before


@pytest.mark.parametrize("window", ["", "../x", "..", "a/b", "a\\b", "a\0", "x" * 65, "a.b", "ä", None, 5, ["w"]])
def test_a_window_is_no_path(client, folder, window):
    before = files(folder)
    body = {"image": "a.png", "document": document(), "revision": None, "window": window}
    assert client.put("/api/draft", json=body).status_code == 400
    if isinstance(window, str):
        assert client.delete("/api/draft", params={"image": "a.png", "window": window}).status_code == 400
    assert files(folder) == before


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt", "/assets/../../secret.txt", "/assets/%2e%2e/%2e%2e/secret.txt", "/%2e%2e/secret.txt",
        "/assets/..%2f..%2fsecret.txt", "//etc/passwd", "/assets//etc/passwd", "/assets/%00", "/assets/link.txt",
        "/assets/..\\..\\secret.txt", "/C:/secret.txt", "/assets", "/" + "x" * 5000,
    ],
)  # fmt: skip
def test_no_path_of_the_page_leads_out(workspace, make_client, tmp_path, path):
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("page")
    (tmp_path / "secret.txt").write_text("secret")
    (static / "assets" / "link.txt").symlink_to(tmp_path / "secret.txt")
    client = make_client(workspace, static=static)
    answer = client.get(path)
    assert answer.status_code in (400, 403, 404)
    assert "secret" not in answer.text.replace("There", "")


# Odd, but names like any other.
HARMLESS = {
    "%2e%2e/secret.png", "..%2fsecret.png", "%252e%252e%252fsecret.png", "a.png%00.png", "．．/secret.png", "notes.txt",
    ".hidden.png", "a.png\n", "~/secret.png", "a" * 255 + "/" + "b" * 255,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_resolve_inside(tmp_path, name):
    root = tmp_path.resolve()
    if name in HARMLESS:
        assert resolve_inside(root, name).is_relative_to(root)
    else:
        with pytest.raises(RequestError):
            resolve_inside(root, name)


# ---- symbolic links ------------------------------------------------------------------------------


def test_images_that_link_out_are_not_listed(with_secrets, make_client):
    images = with_secrets / "images"
    (images / "out.png").symlink_to(with_secrets / "secret.png")
    (images / "in.png").symlink_to(images / "a.png")
    (images / "folder").symlink_to(with_secrets)
    (images / "loop.png").symlink_to(images / "loop.png")
    client = make_client(Workspace(images, with_secrets / "results"))
    listed = [row["image"] for row in client.get("/api/images").json()["images"]]
    assert listed == ["a.png", "b.jpg", "in.png", "sub/ä c.png"]
    for name in ("out.png", "folder/secret.png", "loop.png"):
        assert client.get("/api/pyramid", params={"image": name}).status_code == 404
    # A file that is replaced by a link after it was listed.
    (images / "a.png").unlink()
    (images / "a.png").symlink_to(with_secrets / "secret.png")
    for query in QUERIES:
        assert client.get(query.format("a.png")).status_code == 403


@pytest.mark.parametrize("name", ["a.json", "a.rsml", "a.swc"])
def test_results_that_link_out_are_neither_read_nor_replaced(with_secrets, client, name):
    results = with_secrets / "results"
    results.mkdir()
    outside = with_secrets / f"outside{name[1:]}"
    treeformer.write(treeformer.read(with_secrets / "secret.json"), outside)
    before = outside.read_bytes()
    (results / name).symlink_to(outside)
    assert client.get("/api/skeleton?image=a.png").status_code == 403
    assert client.get("/api/images").json()["images"][0]["state"] == "failed"
    body = {"image": "a.png", "document": document(), "revision": None, "accepted": False}
    assert client.put("/api/skeleton", json=body).status_code == 403
    assert outside.read_bytes() == before
    assert (results / name).is_symlink()


def test_a_results_folder_that_links_out_is_refused(folder, client):
    outside = folder / "outside"
    outside.mkdir()
    (folder / "results").mkdir()
    (folder / "results" / "sub").symlink_to(outside)
    body = {"image": "sub/ä c.png", "document": document(), "revision": None, "accepted": False}
    assert client.put("/api/skeleton", json=body).status_code == 403
    assert client.get("/api/skeleton", params={"image": "sub/ä c.png"}).status_code == 403
    assert not list(outside.iterdir())


def test_own_files_that_link_out_are_refused(folder, client):
    outside = folder / "outside"
    outside.mkdir()
    (folder / "results").mkdir()
    (folder / "results" / ".treeformer").symlink_to(outside)
    body = {"image": "a.png", "document": document(), "revision": None, "window": "w"}
    assert client.put("/api/draft", json=body).status_code == 403
    assert client.get("/api/thumbnail?image=a.png").status_code == 403
    assert not list(outside.iterdir())


# ---- bodies --------------------------------------------------------------------------------------


def asgi(app, headers, chunks):
    """Send a request straight to the application. Return the status and the number of chunks that it took."""
    taken, sent = 0, []

    async def receive():
        nonlocal taken
        if taken >= len(chunks):
            return {"type": "http.disconnect"}
        taken += 1
        return {"type": "http.request", "body": chunks[taken - 1], "more_body": taken < len(chunks)}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "PUT", "scheme": "http",
        "path": "/api/skeleton", "raw_path": b"/api/skeleton", "query_string": b"", "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", PORT),
    }  # fmt: skip
    # A browser test in the same process leaves an event loop running in this thread: use a thread of its own.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, app(scope, receive, send)).result()
    return sent[0]["status"], taken


@pytest.mark.parametrize("length", [None, "1000", str(200 * 2**20), "9" * 5000, "-5", "x"])
def test_two_hundred_megabytes_are_refused_without_collecting_them(client, length):
    chunk = bytes(2**20)
    headers = {"Host": BASE[7:], "Origin": BASE, "Cookie": f"treeformer-{PORT}={client.cookies[f'treeformer-{PORT}']}"}
    if length is not None:
        headers["Content-Length"] = length
    status, taken = asgi(client.app, headers, [chunk] * 200)
    if length in ("-5", "x"):
        assert (status, taken) == (400, 0)
    else:
        assert status == 413
        assert taken <= (65 if length in (None, "1000") else 0)


def test_an_upload_without_the_cookie_is_not_read(client):
    assert asgi(client.app, {"Host": BASE[7:], "Origin": BASE}, [bytes(2**20)] * 200) == (403, 0)


def test_the_longest_body_passes(workspace, make_client):
    client = make_client(workspace, max_body_bytes=5000)
    body = json.dumps({"image": "a.png", "document": document(), "revision": None}).encode()
    headers = {"Content-Type": "application/json"}
    assert client.put("/api/skeleton", content=body.ljust(5001), headers=headers).status_code == 413
    assert client.put("/api/skeleton", content=body.ljust(5000), headers=headers).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"5", b'{"a": NaN}', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b'{"a": 1e999}', b"null"],
)
@pytest.mark.parametrize(("method", "path"), [("PUT", "/api/skeleton"), ("PUT", "/api/draft"), ("POST", "/api/traits")])
def test_a_body_that_is_no_object_is_one_sentence(client, method, path, content):
    answer = client.request(method, path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 404)
    assert answer.json()["error"].endswith(".") or "invalid" in answer.json()["error"]


def test_a_form_is_refused(client):
    answer = client.put("/api/skeleton", content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415


def test_text_that_is_no_unicode_is_kept(client):
    odd = document(editor={"note": "\ud800"})
    body = json.dumps({"image": "a.png", "document": odd, "revision": None, "accepted": False})
    answer = client.put("/api/skeleton", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    loaded = client.get("/api/skeleton?image=a.png").json()
    assert loaded["document"]["metadata"]["editor"]["note"] == "\ud800"


def test_an_error_of_the_server_is_one_sentence(client, monkeypatch, capsys):
    def broken(*_):
        raise KeyError("secret detail")

    monkeypatch.setattr(client.services.store, "load", broken)
    answer = client.get("/api/skeleton?image=a.png")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "secret detail" in capsys.readouterr().err


def test_a_full_disk_is_one_sentence(client, monkeypatch, folder):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("treeformer._util.files._flush_to_disk", full)
    answer = saved(client)
    assert answer.status_code in (422, 500)
    assert "No space left" in answer.json()["error"]
    left = [path for path in (folder / "results").rglob("*") if path.is_file()]
    assert all(path.parent.name == "locks" and path.stat().st_size == 0 for path in left), left


def test_an_image_of_secret_size(client, folder):
    """The header of an image claims 100,000×100,000 px."""
    Image.new("1", (1, 1)).save(folder / "images" / "a.png")
    data = bytearray((folder / "images" / "a.png").read_bytes())
    import struct
    import zlib

    data[16:24] = struct.pack(">II", 100_000, 100_000)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    (folder / "images" / "a.png").write_bytes(bytes(data))
    for query in QUERIES[:4]:
        answer = client.get(query.format("a.png"))
        assert answer.status_code == 422
        assert "million pixels" in answer.json()["error"]
