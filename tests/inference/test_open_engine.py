"""The choice of an engine: torch is imported only if there may be a GPU."""

from __future__ import annotations

import importlib.machinery
import sys
import types
from pathlib import Path

import pytest

from treeformer.inference import open_engine

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has device files")


@pytest.fixture(autouse=True)
def torch_with_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace torch by a module that says that there is a GPU."""
    torch = types.ModuleType("torch")
    torch.__spec__ = importlib.machinery.ModuleSpec("torch", None)
    torch.cuda = types.SimpleNamespace(is_available=lambda: True)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)


def set_system(monkeypatch: pytest.MonkeyPatch, *devices: Path, driver: str = "libno-such-library.so.1") -> None:
    monkeypatch.setattr(open_engine, "GPU_DEVICES", devices)
    monkeypatch.setattr(open_engine, "GPU_DRIVER", driver)


@LINUX
def test_torch_is_not_asked_without_device_and_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_system(monkeypatch, tmp_path / "missing")
    assert not open_engine.torch_sees_gpu()


@LINUX
def test_a_device_file_or_a_driver_is_enough_to_ask_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_system(monkeypatch, tmp_path)
    assert open_engine.torch_sees_gpu()
    set_system(monkeypatch, driver="libc.so.6")
    assert open_engine.torch_sees_gpu()


def test_other_systems_always_ask_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    set_system(monkeypatch)
    monkeypatch.setattr(sys, "platform", "win32")
    assert open_engine.torch_sees_gpu()
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not open_engine.torch_sees_gpu()


def test_torch_is_not_imported_on_a_mac(monkeypatch):
    """Its import takes seconds, and torch has no CUDA there."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not open_engine.torch_sees_gpu()
