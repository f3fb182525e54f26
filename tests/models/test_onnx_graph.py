"""Which images the ranges of the 8-bit graph come from. Tracing, which is slow, is replaced."""

from __future__ import annotations

import numpy as np

from treeformer.hub.model_folder import GRAPH, INT8_GRAPH, ModelSettings
from treeformer.models import onnx_graph


def test_ranges_are_measured_on_the_given_images(tmp_path, monkeypatch):
    measured: list[list[np.ndarray]] = []
    monkeypatch.setattr(onnx_graph, "trace", lambda *_: "proto")
    monkeypatch.setattr(onnx_graph, "externalize_weights", lambda *_: None)
    monkeypatch.setattr(onnx_graph, "quantize", lambda *_: None)
    monkeypatch.setattr(onnx_graph, "measure", lambda _proto, _folder, images: measured.append(list(images)))
    monkeypatch.setattr(onnx_graph, "calibration_images", lambda side: [np.zeros((side, side, 3), np.uint8)])
    monkeypatch.setattr(onnx_graph, "_write", lambda path, _proto: path.write_bytes(b""))
    settings = ModelSettings("TreeFormer", {}, input_size=64)
    own = np.full((64, 64, 3), 7, np.uint8)
    onnx_graph.write_graphs(tmp_path, None, settings, images=iter([own]))
    onnx_graph.write_graphs(tmp_path, None, settings)
    assert [[image.mean() for image in images] for images in measured] == [[7.0], [0.0]]
    assert (tmp_path / INT8_GRAPH).exists()
    onnx_graph.write_graphs(tmp_path, None, settings, int8=False, images=iter([own]))
    assert len(measured) == 2
    assert (tmp_path / GRAPH).exists()
    assert not (tmp_path / INT8_GRAPH).exists()
