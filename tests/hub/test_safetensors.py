"""Reading and writing safetensors files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from treeformer.errors import FormatError
from treeformer.hub import safetensors

ARRAYS = st.dictionaries(
    st.text(min_size=1, max_size=12).filter(lambda name: name != "__metadata__"),
    st.sampled_from(sorted(safetensors.DTYPES)).flatmap(
        lambda name: hnp.arrays(
            safetensors.DTYPES[name], hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
        )
    ),
    max_size=5,
)


def raw(header: dict, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@given(arrays=ARRAYS, metadata=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2))
def test_written_arrays_are_read(arrays, metadata, tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "a.safetensors"
    safetensors.write(path, arrays, metadata)
    back = safetensors.read(path)
    entries, stored = safetensors.read_header(path)
    content = path.read_bytes()
    assert stored == metadata
    assert back.keys() == arrays.keys() == entries.keys()
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert back[name].tobytes() == array.tobytes()
        entry = entries[name]
        assert content[entry.offset : entry.offset + entry.length] == array.tobytes()
        assert entry.offset % array.dtype.itemsize == 0


def test_the_bytes_are_those_of_the_specification(tmp_path):
    safetensors.write(tmp_path / "a", {"x": np.array([1.0, -2.0], np.float16)})
    content = (tmp_path / "a").read_bytes()
    length = int.from_bytes(content[:8], "little")
    assert json.loads(content[8 : 8 + length]) == {"x": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]}}
    assert content[8 + length :] == bytes.fromhex("003c00c0")


def test_bfloat16_is_read_as_float32(tmp_path):
    header = {"x": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}
    (tmp_path / "a").write_bytes(raw(header, bytes.fromhex("803f20c0")))
    assert safetensors.read(tmp_path / "a")["x"].tolist() == [1.0, -2.5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "does not fit"),
        (b"\xff" * 20, "does not fit"),
        (b"\x02" + b"\0" * 7 + b"{]", "not JSON"),
        (raw([], b""), "not a table"),
        (raw({"__metadata__": {"a": 1}}, b""), "metadata"),
        (raw({"x": 3}, b""), "'x' is not described"),
        (raw({"x": {"dtype": "F8", "shape": [1], "data_offsets": [0, 1]}}, b"0"), "unknown type 'F8'"),
        (raw({"x": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}}, b"0"), "shape"),
        (raw({"x": {"dtype": "U8", "shape": [1], "data_offsets": [1]}}, b"0"), "shape"),
        (raw({"x": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}, b"0"), "does not fit in the file"),
        (raw({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 1]}}, b"0000"), "does not fit in the file"),
        (raw({"x": {"dtype": "U8", "shape": [0, 2**62, 4], "data_offsets": [0, 0]}}, b""), "does not fit in the file"),
        (raw({"x": {"dtype": "U8", "shape": [1] * 9, "data_offsets": [0, 1]}}, b"0"), "shape"),
        (b"\x88\x13" + b"\0" * 6 + b"9" * 5000, "not JSON"),
        (raw({"n" * 5000: 3}, b""), "array 'n{30,}… is not described"),
        (raw({"x": {"dtype": "F" * 5000, "shape": [1], "data_offsets": [0, 1]}}, b"0"), "unknown type 'F{30,}…"),
        (raw({str(n): 0 for n in range(10_001)}, b""), "has 10,001 arrays, more than 10,000"),
        (b"\x41\x42\x0f" + b"\0" * 5 + b" " * 1_000_001, "its header has 1,000,001 bytes, more than 1,000,000"),
    ],
)
def test_an_invalid_file_raises_a_one_line_error(tmp_path, content, message):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message) as caught:
        safetensors.read(path)
    assert "bad.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 100


@pytest.mark.slow
def test_what_cannot_be_read_is_not_written(tmp_path):
    with pytest.raises(FormatError, match="10,001 arrays are too many"):
        safetensors.write(tmp_path / "a", {str(n): np.zeros(0, np.uint8) for n in range(10_001)})
    with pytest.raises(FormatError, match="names are too long"):
        safetensors.write(tmp_path / "a", {"n" * 1_000_000: np.zeros(0, np.uint8)})
    assert list(tmp_path.iterdir()) == []


@given(content=st.binary(max_size=60))
def test_any_bytes_are_read_or_raise_a_format_error(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "a"
    path.write_bytes(content)
    try:
        safetensors.read(path)
    except FormatError:
        return
    assert content[8:9] == b"{"


def test_a_missing_file_and_an_unsupported_type(tmp_path):
    with pytest.raises(FormatError, match="nowhere"):
        safetensors.read(tmp_path / "nowhere")
    with pytest.raises(FormatError, match="complex"):
        safetensors.write(tmp_path / "a", {"z": np.zeros(1, complex)})
    assert not (tmp_path / "a").exists()
