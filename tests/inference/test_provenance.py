"""Every predicted file records the model, its version and hash, and the settings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

import treeformer
from tests.inference.fake_engine import line_engine, predictor
from treeformer import formats
from treeformer.hub.model_folder import WEIGHTS, ModelFolder, ModelSettings
from treeformer.inference.batch import plan, predict_files
from treeformer.inference.predictor import Predictor

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


def test_images_of_low_confidence_are_counted_once_per_batch(tmp_path):
    """Of three edges of 10 px, one has a score of 0.12."""
    Image.fromarray(IMAGE).save(tmp_path / "plant.png")
    for costs, count in (((-4.0, 2.0, -4.0), 1), ((-4.0, -4.0, -4.0), 0)):
        jobs = plan([tmp_path / "plant.png"], tmp_path / "out")
        report = predict_files(jobs, predictor(line_engine(costs=costs), low_confidence_threshold=0.4))
        assert len(report.doubtful) == count
