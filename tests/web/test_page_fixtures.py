"""The static page decodes network outputs to the same skeletons and traits as Python does."""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treeformer
from tests.web.page_outputs import MadeUpEngine, Recorder, decode_in_node, encode, web_settings
from treeformer import examples
from treeformer._util.images import open_image
from treeformer.formats import native_json
from treeformer.hub.model_folder import ModelFolder, ScaleRule, ScaleSignal, open_model
from treeformer.inference.onnx_engine import OnnxEngine
from treeformer.inference.predictor import Predictor
from treeformer.inference.tiles import Tile, tile_grid
from treeformer.skeleton import Skeleton
from treeformer.synthetic import make_image
from treeformer.traits import COMPACT_COLUMNS, measure

TRAITS = [name for name in COMPACT_COLUMNS if name not in ("image", "file", "note")]
SIZES = [(512, 512), (300, 200), (512, 700), (1400, 900), (1024, 1024)]
PRESETS = ("taproot", "seedling", "vine", "orchard", "several")
# Images of the test with the default model: the examples, and synthetic ones.
COUNT = int(os.environ.get("TREEFORMER_PAGE_IMAGES", "9"))


def with_settings(model: ModelFolder, **changes: Any) -> ModelFolder:
    return dataclasses.replace(model, config=dataclasses.replace(model.config, **changes))


def unstructured() -> ModelFolder:
    """Return the default model with plain spanning forests: the page does not know structured decoding."""
    return with_settings(open_model("default"), structure=None)


def case_of(model: ModelFolder, engine: Any, image: Any, name: str, working_size: Any) -> tuple[dict, Skeleton]:
    """Predict an image in Python. Return what the page needs to decode the same outputs, and the skeleton."""
    recorder = Recorder(engine)
    skeleton = Predictor(model, engine=recorder).predict(image, working_size=working_size)
    height, width = image.shape[:2]
    return {
        "settings": web_settings(model),
        "working_size": working_size,
        "size": [width, height],
        "name": name,
        "outputs": [encode(raw) for raw in recorder.outputs],
    }, skeleton


def assert_same(result: dict, skeleton: Skeleton, case: dict, folder: Path) -> None:
    name = case["name"]
    assert result["calls"] == len(case["outputs"]), name
    document, expected = result["document"], native_json.to_document(skeleton)
    for key in ("image_size", "nodes", "edges", "roots", "node_score", "edge_score", "plant", "edge_axis", "radius"):
        assert document.get(key) == expected.get(key), (name, key)
    axes = [{**row, "nodes": list(row["nodes"])} for row in expected["axes"]]
    assert document["axes"] == axes, name
    record, reference = document["metadata"]["prediction"], skeleton.metadata["prediction"]
    for key in reference.keys() - {"treeformer", "model_sha256", "model_version", "model"}:
        assert record[key] == reference[key], (name, key)
    for row, traits in zip(result["measures"], traits_of(skeleton), strict=True):
        for trait in TRAITS:
            assert_equal_trait(row[trait], traits[trait], f"{name} {trait}")
    assert_same_file(result, skeleton, folder)


def traits_of(skeleton: Skeleton) -> list[dict]:
    return measure(skeleton)[TRAITS].to_dict("records") if len(skeleton) else []


def assert_equal_trait(value: Any, expected: Any, where: str) -> None:
    if isinstance(expected, float) and math.isnan(expected):
        assert value is None, where
    elif isinstance(expected, str):
        assert value == expected, where
    else:
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-6), where


def assert_same_file(result: dict, skeleton: Skeleton, folder: Path) -> None:
    """The JSON and RSML files of the page are read as the same plants."""
    (folder / "page.json").write_text(result["text"], encoding="utf-8")
    read = treeformer.read(folder / "page.json")
    assert read.nodes.tolist() == skeleton.nodes.tolist()
    assert [axis.nodes for axis in read.axes] == [axis.nodes for axis in skeleton.axes]
    (folder / "page.rsml").write_text(result["rsml"], encoding="utf-8")
    treeformer.write(skeleton, folder / "python.rsml")
    page, python = treeformer.read(folder / "page.rsml"), treeformer.read(folder / "python.rsml")
    assert page.nodes.tolist() == python.nodes.tolist()
    assert page.edges.tolist() == python.edges.tolist()
    for ours, theirs in zip(page.axes, python.axes, strict=True):
        assert (ours.nodes, ours.parent, ours.plant, ours.id, ours.accession) == (
            theirs.nodes, theirs.parent, theirs.plant, theirs.id, theirs.accession,
        )  # fmt: skip
        assert [f.samples for f in ours.functions] == [f.samples for f in theirs.functions]
        confidence = {axis.properties.get("software-confidence") for axis in (ours, theirs)}
        assert len(confidence) == 1 or np.ptp([float(text or "nan") for text in confidence]) < 1e-12


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*no plant was found")
def test_made_up_outputs(tmp_path):
    model, cases, skeletons = unstructured(), [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        size = SIZES[seed % len(SIZES)]
        changes: dict[str, Any] = {"scale_rule": None}
        if seed % 2:
            changes["edge_calibration"] = None
        if seed % 3 == 0:
            changes["settings"] = {**model.config.settings, "grid_px": 1.0}
        if seed % 4 < 2:
            changes["direction_weight"] = 2.0 * (seed % 4)
        if seed % 5 > 2:
            signal: ScaleSignal = "radius" if seed % 4 == 0 else "spacing"
            changes["scale_rule"] = ScaleRule(signal, 13.0, 1 + seed % 2, crowded_px=20.0)
        changed = with_settings(model, **changes)
        scale = max(1.0, 512 / max(size))
        scaled = (round(size[0] * scale), round(size[1] * scale))
        tiles = tile_grid(scaled, 512, changed.config.tile_step)
        working_size = "full"
        if seed % 5 > 2:  # a first pass over the whole image, then perhaps a second one
            working_size, tiles = None, [Tile(0, 0, 512, 512, (-math.inf, -math.inf, math.inf, math.inf)), *tiles]
        engine = MadeUpEngine(seed, scaled, tiles, attributes=seed % 4 < 2)
        image = rng.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
        case, skeleton = case_of(changed, engine, image, f"made up {seed}", working_size)
        cases.append(case)
        skeletons.append(skeleton)
    results = decode_in_node(cases, tmp_path)
    for result, skeleton, case in zip(results, skeletons, cases, strict=True):
        assert_same(result, skeleton, case, tmp_path)
    assert any(len(case["outputs"]) > 1 and case["working_size"] is None for case in cases)
    assert any(skeleton.radius is not None for skeleton in skeletons)
    assert sum(len(skeleton) > 10 for skeleton in skeletons) > 10
    assert sum(len(skeleton.component_root) > 1 for skeleton in skeletons) > 4


@pytest.mark.slow
def test_outputs_of_the_default_model(tmp_path):
    model = unstructured()
    engine = OnnxEngine(model, threads=1)
    images = [(path.name, np.asarray(open_image(path))) for path in examples.IMAGES]
    for seed in range(COUNT - len(images)):
        preset = PRESETS[seed % len(PRESETS)]
        pixels, _ = make_image(preset, "paper" if seed % 4 == 0 else "photo", 121100 + seed)
        images.append((f"{preset} {seed}", pixels))
    pairs = [case_of(model, engine, image, name, None) for name, image in images]
    results = decode_in_node([case for case, _ in pairs], tmp_path)
    assert len(results) == COUNT
    for result, (case, skeleton) in zip(results, pairs, strict=True):
        assert_same(result, skeleton, case, tmp_path)
