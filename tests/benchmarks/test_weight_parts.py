"""Weights split into parts and joined again."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.weight_parts import HEADER_BYTES, join_weight_parts, write_weight_parts

from treeformer.errors import TreeformerError
from treeformer.hub import safetensors

RNG = np.random.default_rng(0)
WEIGHTS = {
    "a.weight": RNG.normal(size=(200, 300)).astype(np.float32),
    "b.bias": np.array([], dtype=np.float32),
    "b.weight": RNG.normal(size=(100, 300)),
    "steps": np.array([7], dtype=np.int64),
    "bn.running_var": np.array([0.5, 83_615.0], dtype=np.float32),
    "c.weight": RNG.normal(size=(300, 300)).astype(np.float16),
}
PART = HEADER_BYTES + 200_000


@pytest.fixture
def weights(tmp_path):
    safetensors.write(tmp_path / "net.safetensors", WEIGHTS, {"config": "{}"})
    return tmp_path / "net.safetensors"


def test_parts_are_small_and_join_to_the_same_weights(weights, tmp_path):
    parts = write_weight_parts(weights, tmp_path / "out", part_bytes=PART)
    assert [path.name for path in parts] == ["net-1-of-2.safetensors", "net-2-of-2.safetensors"]
    assert all(path.stat().st_size < PART for path in parts)
    join_weight_parts(tmp_path / "out", "net", tmp_path / "again.safetensors")
    again = safetensors.read(tmp_path / "again.safetensors")
    assert again.keys() == WEIGHTS.keys()
    for name, array in WEIGHTS.items():
        expected = array.astype(np.float16) if array.dtype.kind == "f" and array.ndim > 1 else array
        assert again[name].dtype == expected.dtype
        assert np.array_equal(again[name], expected), name
    assert safetensors.read_header(tmp_path / "again.safetensors")[1] == {"config": "{}"}


def test_a_checkpoint_gives_its_averaged_weights(tmp_path):
    arrays = {"model/w": np.zeros(3, np.float32), "average/w": np.ones(3, np.float32)}
    safetensors.write(tmp_path / "checkpoint.safetensors", arrays)
    write_weight_parts(tmp_path / "checkpoint.safetensors", tmp_path / "out")
    join_weight_parts(tmp_path / "out", "checkpoint", tmp_path / "w.safetensors")
    assert safetensors.read(tmp_path / "w.safetensors")["w"].tolist() == [1, 1, 1]


def test_mistakes_are_one_line_errors(weights, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(TreeformerError, match="no such file"):
        write_weight_parts(tmp_path / "none.safetensors", out)
    with pytest.raises(TreeformerError, match="weight alone is larger"):
        write_weight_parts(weights, out, part_bytes=HEADER_BYTES + 1000)
    with pytest.raises(TreeformerError, match="no part of net"):
        join_weight_parts(tmp_path, "net", tmp_path / "again.safetensors")
    parts = write_weight_parts(weights, out, part_bytes=PART)
    parts[0].unlink()
    with pytest.raises(TreeformerError, match=r"net-1-of-2\.safetensors: missing"):
        join_weight_parts(out, "net", tmp_path / "again.safetensors")
    write_weight_parts(weights, out)
    with pytest.raises(TreeformerError, match="two different files"):
        join_weight_parts(out, "net", tmp_path / "again.safetensors")
    for wrong, shape in ((np.inf, (2, 1)), (np.nan, (2, 1)), (1e6, (2, 1)), (np.inf, 2), (np.nan, 2)):
        array = np.array([0.0, wrong], np.float32).reshape(shape)
        safetensors.write(tmp_path / "wild.safetensors", {"w": array})
        with pytest.raises(TreeformerError, match=r"float\d\d cannot hold"):
            write_weight_parts(tmp_path / "wild.safetensors", out)
