"""The static page scales images as Pillow does, and reads 16-bit grayscale PNG as Python does."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from tests.web.page_outputs import run_node
from treeformer._util.images import open_lazy

# Width, height, block of the first reduction, target size.
SIZES = [
    (97, 61, 1, (40, 25)),
    (40, 33, 1, (64, 53)),
    (200, 130, 3, (31, 20)),
    (201, 131, 2, (50, 33)),
    (5, 3, 1, (512, 307)),
]


def text(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def bytes_of(encoded: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(encoded), dtype=np.uint8)


def run(cases: list[dict], folder) -> list[dict]:
    (folder / "in.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    run_node("test/predict/resize.mjs", str(folder / "in.jsonl"), str(folder / "out.jsonl"))
    return [json.loads(line) for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]


def png16(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.slow
def test_pixels_are_those_of_pillow(tmp_path):
    rng = np.random.default_rng(0)
    cases, expected = [], []
    for width, height, block, target in SIZES:
        smooth = np.asarray(Image.fromarray(rng.integers(0, 255, (9, 9, 3), dtype=np.uint8)).resize((width, height)))
        pixels = np.where(rng.random((height, width, 1)) < 0.5, smooth, rng.integers(0, 256, (height, width, 3)))
        image = Image.fromarray(pixels.astype(np.uint8))
        reduced = image.reduce(block)
        span = (width / block, height / block)
        box = (0.0, 0.0, min(span[0], reduced.width), min(span[1], reduced.height))
        expected.append((reduced, reduced.resize(target, Image.Resampling.LANCZOS, box=box)))
        case = {"kind": "resize", "width": width, "height": height, "block": block, "target": target, "span": span}
        cases.append(case | {"bytes": text(np.asarray(image))})
    for result, (reduced, resized) in zip(run(cases, tmp_path), expected, strict=True):
        assert np.array_equal(bytes_of(result["blocks"]), np.asarray(reduced).ravel())
        assert np.array_equal(bytes_of(result["pixels"]), np.asarray(resized).ravel())


@pytest.mark.slow
def test_16_bit_grayscale(tmp_path):
    rng = np.random.default_rng(1)
    arrays = [rng.integers(0, high, (23, 31), dtype=np.uint16) for high in (200, 1000, 4096, 16000, 65536)]
    # A gradient makes the encoder choose other filters than noise does.
    arrays.append(np.add.outer(np.arange(60), np.arange(80)).astype(np.uint16) * 400)
    files = [png16(array) for array in arrays]
    cases = [{"kind": "png", "bytes": base64.b64encode(data).decode()} for data in files]
    for result, data, array in zip(run(cases, tmp_path), files, arrays, strict=True):
        assert result["header"]["png"] == {
            "width": array.shape[1], "height": array.shape[0], "bits": 16, "color": 0, "interlaced": False,
        }  # fmt: skip
        rgb = open_lazy(Image.open(io.BytesIO(data))).part((0, 0, array.shape[1], array.shape[0]))
        assert np.array_equal(bytes_of(result["pixels"]), rgb[..., 0].ravel())
