"""A port belongs to one server, on every system."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

pytest.importorskip("uvicorn")

from treeformer import TreeformerError
from treeformer.web import serve


def test_a_port_in_use_is_one_line():
    with serve._listen(0) as first:
        port = first.getsockname()[1]
        with pytest.raises(TreeformerError, match=f"^cannot listen on port {port}: .*choose another with --port$"):
            serve._listen(port)


@pytest.mark.parametrize(("platform", "wanted"), [("win32", "SO_EXCLUSIVEADDRUSE"), ("linux", "SO_REUSEADDR")])
def test_windows_is_asked_for_a_port_of_our_own(monkeypatch, platform, wanted):
    """On Windows, SO_REUSEADDR lets a second server take over connections of the first."""
    options = []

    class Recorder(socket.socket):
        def setsockopt(self, _level, option, _value):
            options.append(option)

    monkeypatch.setattr(serve.socket, "SO_EXCLUSIVEADDRUSE", -5, raising=False)
    monkeypatch.setattr(serve.socket, "socket", Recorder)
    monkeypatch.setattr(serve, "sys", SimpleNamespace(platform=platform))
    serve._listen(0).close()
    assert options == [getattr(socket, wanted)]
