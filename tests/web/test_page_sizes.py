"""The check of the static page's file sizes, which CI runs after `make page`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "check_page.py"
NAMES = (
    "index.html", "sw.js", "assets/index-1.css", "assets/index-1.js", "assets/worker-1.js", "runtime/ort-1.wasm",
    "example-1.jpg",
)  # fmt: skip


def page(folder, model, weights):
    for name in NAMES:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"-")
    (folder / "model").mkdir()
    (folder / "model" / "model-1.json").write_text(json.dumps({"name": model}), encoding="utf-8")
    (folder / "model" / "model-1.onnx").write_bytes(bytes(weights))


def check(folder):
    done = subprocess.run([sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("model", "largest"), [("default", 18_000_000), ("small", 6_000_000), ("mine", 18_000_000)])
def test_the_limit_of_the_weights_depends_on_the_model(tmp_path, model, largest):
    page(tmp_path, model, largest)
    assert check(tmp_path) == (0, "")
    with (tmp_path / "model" / "model-1.onnx").open("ab") as file:
        file.write(b"-")
    assert check(tmp_path) == (1, f"model/model-1.onnx: {largest + 1} bytes, at most {largest} are allowed\n")


def test_missing_and_unexpected_files_are_named(tmp_path):
    page(tmp_path, "default", 1)
    (tmp_path / "sw.js").unlink()
    (tmp_path / "notes.txt").touch()
    assert check(tmp_path) == (1, "sw.js: 0 files, 1 is needed\nnotes.txt: unexpected\n")
