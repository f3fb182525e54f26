"""Every predicted file records the model, its version and hash, and the settings."""

from __future__ import annotations

import json
import math
from pathlib import Path

import networkx
import numpy as np
from PIL import Image

import treeformer
from tests.inference.fake_engine import line_engine, predictor
from treeformer import formats
from treeformer.hub.model_folder import WEIGHTS, ModelFolder, ModelSettings
from treeformer.inference.batch import plan, predict_files
from treeformer.inference.predictor import Predictor
from treeformer.results.policy import is_predicted_with

IMAGE = np.zeros((64, 64, 3), np.uint8)
HASH = "0123456789abcdef" * 4


def versioned() -> Predictor:
    settings = ModelSettings("fake", {}, working_size=64, version="6", low_confidence_threshold=0.4)
    return Predictor(ModelFolder(Path("models/vines"), settings, {WEIGHTS: HASH}), engine=line_engine())


def test_the_metadata_name_model_and_settings():
    metadata = versioned().predict(IMAGE, min_confidence=0.6, single_plant=True).metadata
    assert metadata["prediction"] == {
        "treeformer": treeformer.__version__,
        "model": "vines",
        "model_version": "6",
        "model_sha256": HASH,
        "engine": "numbers",
        "working_size": 64,
        "node_threshold": 0.6,
        "root_threshold": 0.5,
        "edge_threshold": 0.0,
        "single_plant": True,
    }
    assert metadata["low_confidence_threshold"] == 0.4
    other = versioned().predict(IMAGE, working_size="full", min_confidence=0.6).metadata["prediction"]
    assert (other["working_size"], other["edge_threshold"], other["single_plant"]) == ("full", 0.6, False)
    assert "low_confidence_threshold" not in predictor(line_engine()).predict(IMAGE).metadata


def test_files_of_several_formats_record_it(tmp_path):
    Image.fromarray(IMAGE).save(tmp_path / "plant.png")
    jobs = plan([tmp_path / "plant.png"], tmp_path / "out", ["rsml", "swc"])
    assert predict_files(jobs, versioned()).failures == ()
    document = json.loads((tmp_path / "out" / "plant.json").read_text())
    assert document["metadata"]["prediction"]["model_sha256"] == HASH
    for suffix in (".rsml", ".swc"):
        text = (tmp_path / "out" / f"plant{suffix}").read_text()
        assert f"treeformer {treeformer.__version__}; model vines 6; sha256 0123456789abcdef;" in text
        assert "working_size 64; node_threshold 0.5" in text
        assert len(formats.read(tmp_path / "out" / f"plant{suffix}")) == 4


def test_every_other_format_but_csv_contains_the_record(tmp_path):
    skeleton = versioned().predict(IMAGE)
    record = skeleton.metadata["prediction"]
    found = {}
    for name in ("geojson", "labelme", "coco", "node-link", "graphml"):
        path = tmp_path / f"{name}.{'graphml' if name == 'graphml' else 'json'}"
        formats.write(skeleton, path, format=name)
        assert len(formats.read(path, format=name)) == 4
        found[name] = json.loads(path.read_text()) if name != "graphml" else networkx.read_graphml(path).graph
    assert found["geojson"]["treeformer"]["prediction"] == record
    assert found["labelme"]["prediction"] == record
    assert found["coco"]["info"]["prediction"] == record
    assert json.loads(found["node-link"]["graph"]["prediction"]) == record
    assert json.loads(found["graphml"]["prediction"]) == record


def test_a_record_of_other_values_does_not_prevent_writing(tmp_path):
    odd = {"name": "\x00\ud800", "nested": {"a": 1}, "number": math.nan, "large": 10**400, 3: 4}
    for record in (odd, [1], None, {"nested": []}):
        skeleton = treeformer.Skeleton([(1, 2), (3, 4)], [(0, 1)], root=0, metadata={"prediction": record})
        for name in ("geojson", "labelme", "coco", "node-link", "graphml"):
            path = tmp_path / f"{name}.{'graphml' if name == 'graphml' else 'json'}"
            formats.write(skeleton, path, format=name)
            assert len(formats.read(path, format=name)) == 2


def test_images_of_low_confidence_are_counted_once_per_batch(tmp_path):
    """Of three edges of 10 px, one has a score of 0.12."""
    Image.fromarray(IMAGE).save(tmp_path / "plant.png")
    for costs, count in (((-4.0, 2.0, -4.0), 1), ((-4.0, -4.0, -4.0), 0)):
        jobs = plan([tmp_path / "plant.png"], tmp_path / "out")
        report = predict_files(jobs, predictor(line_engine(costs=costs), low_confidence_threshold=0.4))
        assert len(report.doubtful) == count


def test_a_prediction_of_another_model_or_other_settings_is_recognized():
    skeleton = versioned().predict(IMAGE)
    record = skeleton.metadata["prediction"]
    assert is_predicted_with(skeleton, record)
    other = record | {"engine": "torch cuda", "treeformer": "9.9"}
    assert not is_predicted_with(skeleton, other)
    assert is_predicted_with(skeleton, other, ignore=("engine", "treeformer"))
    for changed in ({"model_sha256": "0"}, {"model_version": "x"}, {"single_plant": True}, {"working_size": 7}):
        assert not is_predicted_with(skeleton, record | changed)
    assert not is_predicted_with(skeleton.replace(metadata={}), record)
