"""A workspace with small images, the application in this process, and clients with and without the cookie."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.inference.fake_engine import line_engine, predictor
from treeformer import Skeleton
from treeformer.formats import native_json

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from starlette.testclient import TestClient

from treeformer.web.app import create_app
from treeformer.web.folder import Workspace
from treeformer.web.services import Services

PORT, TOKEN = 8765, "correct-token"
BASE = f"http://127.0.0.1:{PORT}"


def gradient(path: Path, size: tuple[int, int] = (64, 48), **options: Any) -> Path:
    """Write an image with a gradient, so that no two parts are equal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if options:
        gradient_image(size).save(path, **options)
    else:
        path.write_bytes(encoded_gradient(path.suffix, size))
    return path


def gradient_image(size: tuple[int, int]) -> Image.Image:
    x, y = np.meshgrid(np.linspace(0, 255, size[0]), np.linspace(0, 255, size[1]))
    return Image.fromarray(np.stack([x, y, 255 - x], axis=2).astype(np.uint8))


@cache
def encoded_gradient(suffix: str, size: tuple[int, int]) -> bytes:
    """Return the file of a gradient, which is encoded once for all tests."""
    file = io.BytesIO()
    gradient_image(size).save(file, Image.registered_extensions()[suffix])
    return file.getvalue()


def document(x: float = 5.0, **metadata: Any) -> dict[str, Any]:
    """A tree of four nodes; `x` makes it recognizable."""
    skeleton = Skeleton(
        [(x, 9), (5, 5), (2, 1), (8, 1)],
        [(0, 1), (1, 2), (1, 3)],
        root=0,
        node_score=[0.9] * 4,
        edge_score=[0.9, 0.5, 0.8],
        metadata=metadata,
    )
    return native_json.to_document(skeleton)


@pytest.fixture
def folder(tmp_path) -> Path:
    """Three images, one of them in a sub-folder, and the roots `images` and `results`."""
    gradient(tmp_path / "images" / "a.png")
    gradient(tmp_path / "images" / "b.jpg", (700, 600))
    gradient(tmp_path / "images" / "sub" / "ä c.png")
    return tmp_path


@pytest.fixture
def workspace(folder) -> Workspace:
    return Workspace(folder / "images", folder / "results")


@pytest.fixture
def make_client() -> Iterator[Callable[..., TestClient]]:
    """Return a function that makes a client with the cookie for a workspace."""
    opened = []

    def make(workspace: Workspace, *, cookie: bool = True, **options: Any) -> TestClient:
        static = options.pop("static", None)
        services = Services.of(
            workspace,
            load=options.pop("load", lambda _: predictor(line_engine())),
            train=options.pop("train", ("no-such-program",)),
            has_gpu=options.pop("has_gpu", lambda: False),
            **({"static": static} if static else {}),
        )
        app = create_app(services, token=TOKEN, port=PORT, **options)
        client = TestClient(app, base_url=BASE, headers={"Origin": BASE}, raise_server_exceptions=False)
        client.__enter__()
        opened.append(client)
        client.services = services
        if cookie:
            assert client.get("/", params={"token": TOKEN}).status_code in (200, 404)
        return client

    yield make
    for client in opened:
        client.__exit__(None, None, None)


@pytest.fixture
def client(workspace, make_client) -> TestClient:
    return make_client(workspace)


def saved(client: TestClient, image: str = "a.png", x: float = 5.0, **fields: Any) -> Any:
    """Save a document over the current revision."""
    revision = client.get("/api/skeleton", params={"image": image}).json()["result_revision"]
    body = {"image": image, "document": document(x), "revision": revision, "accepted": False} | fields
    return client.put("/api/skeleton", json=body)


def states(client):
    return {row["image"]: row["state"] for row in client.get("/api/images").json()["images"]}
