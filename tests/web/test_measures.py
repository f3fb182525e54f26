"""The traits that the browser editor shows are those of `measure`, and it writes what it reads."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.traits.figures import random_forest
from treeformer import examples, formats
from treeformer.formats import native_json
from treeformer.skeleton import Skeleton
from treeformer.traits import COMPACT_COLUMNS, measure

WEB = Path(__file__).parents[2] / "web"
COLUMNS = [name for name in COMPACT_COLUMNS if name not in ("image", "file", "note")]


def run_node(*arguments: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    if not (WEB / "node_modules" / "vite").is_dir():
        pytest.skip("web/node_modules is missing: run npm ci in web/")
    done = subprocess.run([node, *arguments], cwd=WEB, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def document_of(skeleton: Skeleton, folder: Path) -> dict:
    native_json.write(skeleton, folder / "one.json")
    return json.loads((folder / "one.json").read_text(encoding="utf-8"))


def expected(document: dict) -> list[dict]:
    (skeleton,) = native_json.skeletons(document)
    editor = document.get("metadata", {}).get("editor")
    scale = editor.get("px_per_mm") if isinstance(editor, dict) else None
    return measure(skeleton, px_per_mm=scale)[COLUMNS].to_dict("records") if len(skeleton) else []


def assert_same(row: dict, reference: dict, where: str) -> None:
    for name in COLUMNS:
        value = reference[name]
        if isinstance(value, float) and math.isnan(value):
            assert row[name] is None, (where, name)
        elif isinstance(value, str):
            assert row[name] == value, (where, name)
        else:
            # Angles near 0 and areas of flat hulls are differences of nearly equal numbers.
            assert row[name] == pytest.approx(value, rel=1e-9, abs=1e-6), (where, name)


def compare(documents: list[dict], folder: Path) -> int:
    """Measure documents in both languages; return the number of plants."""
    (folder / "in.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents), encoding="utf-8")
    run_node("test/replay/measure.mjs", str(folder / "in.jsonl"), str(folder / "out.jsonl"))
    lines = (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(documents)
    count = 0
    for number, (line, document) in enumerate(zip(lines, documents, strict=True)):
        result, references = json.loads(line), expected(document)
        assert result["document"] == document, number
        rows = result["traits"]
        assert len(rows) == len(references), number
        for row, reference in zip(rows, references, strict=True):
            assert_same(row, reference, f"document {number}")
            count += 1
    return count


@pytest.mark.slow
def test_traits_of_the_examples_and_of_forests_with_inferred_axes(tmp_path):
    skeletons = [formats.read(path.with_suffix(".rsml")) for path in examples.IMAGES]
    skeletons += [skeleton.with_inferred_axes for skeleton in skeletons]
    rng = np.random.default_rng(0)
    for seed in range(6):
        forest = random_forest(seed, [3, 12, 30])
        scored = {"edge_score": rng.random(len(forest.edges)), "radius": rng.random(len(forest)) * 5}
        skeletons += [forest, forest.replace(**scored, metadata={"rsml": {"unit": "cm", "resolution": "118"}})]
    assert compare([document_of(one, tmp_path) for one in skeletons], tmp_path) > 30


@pytest.mark.slow
def test_traits_of_edited_documents(tmp_path):
    run_node("test/replay/write.mjs", str(tmp_path / "sequences.jsonl"), "60", "77")
    lines = (tmp_path / "sequences.jsonl").read_text(encoding="utf-8").splitlines()
    assert compare([json.loads(line)["document"] for line in lines], tmp_path) > 60
