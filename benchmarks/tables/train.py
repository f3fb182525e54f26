"""Train one run for a given time, test it and write the result. A killed run can be resumed."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.tables import results
from benchmarks.tables.domains import DOMAINS
from benchmarks.tables.recipes import REAL, RECIPES, Run, Scale, as_table, edge_weight_total

from treeformer._util.files import atomic_write
from treeformer.errors import TreeformerError
from treeformer.training.config import TrainingConfig

WEIGHTS, SETTINGS = "weights.safetensors", "settings.json"
# Metrics of a validation, for the curves. The test has all metrics.
CURVE_METRICS = (
    "topo_paper_precision", "topo_paper_recall", "topo_precision", "topo_recall", "smd_paper", "smd", "tree_rate",
)  # fmt: skip


def missing(run: Run, data: Path) -> str:
    """Return why a run cannot be trained here, "" if it can."""
    from treeformer.training.registry import MODELS

    model = RECIPES[run.recipe].model
    if model not in MODELS:
        return f"there is no model {model!r}"
    return DOMAINS[run.domain].missing(data)


def train_run(
    run: Run,
    *,
    minutes: float,
    runs: Path,
    data: Path,
    out: Path = results.FOLDER,
    backbone: str = "",
    workers: int = 0,
    accelerator: str = "auto",
    scale: Scale = REAL,
    commit: str = "",
    parallel: int = 1,
) -> results.Result:
    """Train or resume a run, test it and write its result.

    Args:
        run: the run.
        minutes: training time; compilation, validation and checkpoints are not counted.
        runs: folder of checkpoints and weights.
        data: folder of the prepared sets.
        out: folder that receives the result.
        backbone: safetensors file of ImageNet weights, "" for random weights.
        workers: number of image processes.
        accelerator: "auto", "cpu" or "cuda".
        scale: size of images and models.
        commit: commit to record, "" for the one that is checked out.
        parallel: number of runs that share the machine, to be recorded.

    Returns:
        The result.

    Raises:
        TreeformerError: if images are missing or the run was started with other settings.
    """
    from treeformer.training import checkpoint
    from treeformer.training.loop import CHECKPOINT, train
    from treeformer.training.validation import Validator, means

    reason = missing(run, data)
    if reason:
        raise TreeformerError(f"{run.name}: {reason}")
    DOMAINS[run.domain].make_ready(data)
    config = run.config(data, backbone, scale, workers)
    decodings = RECIPES[run.recipe].decodings
    device = _device(accelerator)
    folder = runs / run.name
    validator = Validator(config, device, batch=min(32, config.batch_size))

    def measure(model: Any) -> dict[str, float]:
        # The loop needs the plain names to keep the best weights. The tables use the last weights.
        found = {name: means(rows) for name, rows in validator.evaluate(model, decodings, **run.decode_options).items()}
        figures = {f"{d}/{m}": found[d][m] for d in found for m in CURVE_METRICS}
        return next(iter(found.values())) | figures

    _check_settings(folder, {"minutes": minutes, "backbone": fingerprint(backbone), "config": as_table(config)})
    progress = checkpoint.read_run_state(folder / CHECKPOINT)
    if progress is None or progress.training_seconds < 60 * minutes:
        with validator:
            progress = train(
                config,
                folder,
                resume=progress is not None,
                training_minutes=minutes,
                accelerator=device.type,
                show=lambda step, _, figures: print(_line(run, step, figures), flush=True),
                measure=measure,
            )
    _write_weights(folder, config)
    tests = _test(run, folder, config, scale, device)
    count = len(next(iter(tests.values())))
    result = results.Result(
        run=run.name,
        config=as_table(config),
        seed=run.seed,
        commit=commit or checked_out(),
        machine=machine(device, workers) | {"parallel": parallel},
        backbone=fingerprint(config.backbone_weights),
        minutes=minutes,
        trained_minutes=round(progress.training_seconds / 60, 4),
        wall_minutes=round(progress.seconds / 60, 2),
        steps=progress.step,
        images=progress.position,
        edge_weight_total=edge_weight_total(config),
        curve=curve(folder / "log.csv"),
        tests={name: results.columns_of(rows) for name, rows in tests.items()},
        test_images=count,
    )
    results.write(result, out)
    return result


def _check_settings(folder: Path, settings: dict[str, Any]) -> None:
    """Record the settings of a run. A run must be resumed with the settings with which it was started."""
    path, text = folder / SETTINGS, json.dumps(settings, indent=1)
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise TreeformerError(f"{folder}: was started with other settings (see {SETTINGS}); remove it to start again")
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def load(folder: Path, device: Any) -> Any:
    """Load the trained model of a run.

    Args:
        folder: folder of the run.
        device: torch device.

    Returns:
        The model in evaluation mode.

    Raises:
        TreeformerError: if the weights are missing or do not state their model.
    """
    import numpy as np
    import torch

    from treeformer._util.config import build
    from treeformer.hub import safetensors
    from treeformer.training import checkpoint
    from treeformer.training.registry import MODELS

    path = folder / WEIGHTS
    if not path.exists():
        raise TreeformerError(f"{path}: no weights; train the run, or import its weights with --take")
    metadata = safetensors.read_header(path)[1]
    try:
        name, options = metadata["model"], json.loads(metadata["model_options"])
    except (KeyError, ValueError):
        raise TreeformerError(f"{path}: does not state its model") from None
    settings = MODELS[name].settings()
    model = MODELS[name].module(build(type(settings), asdict(settings) | options, "model_options"))
    weights = {key: torch.from_numpy(np.array(array)) for key, array in safetensors.read(path).items()}
    checkpoint.load_weights(model, weights, path)
    return model.to(device).eval()


def _write_weights(folder: Path, config: TrainingConfig) -> None:
    """Write the final averaged weights in half precision. They are used for tests and figures."""
    from benchmarks.weight_parts import halved

    from treeformer.hub import safetensors
    from treeformer.training.checkpoint import averaged_weights
    from treeformer.training.loop import CHECKPOINT

    weights = halved(averaged_weights(folder / CHECKPOINT))
    metadata = {"run": config.name, "model": config.model, "model_options": json.dumps(config.model_options)}
    safetensors.write(folder / WEIGHTS, weights, metadata)


def _test(run: Run, folder: Path, config: TrainingConfig, scale: Scale, device: Any) -> dict[str, Any]:
    """Return one row per test image, by decoding."""
    from treeformer.training.validation import Validator

    model = load(folder, device)
    images = run.test_images(config, scale)
    if images.workers:  # only the test is left: use half of the cores
        images = replace(images, workers=max(images.workers, (os.cpu_count() or 1) // 2))
    with Validator(replace(config, data=images), device, batch=min(32, config.batch_size)) as validator:
        rows = validator.evaluate(model, RECIPES[run.recipe].decodings, **run.decode_options)
    if any(len(found) != len(validator.images) for found in rows.values()):
        raise TreeformerError(f"{run.name}: some of the {len(validator.images)} test images are unusable")
    if hasattr(model, "map_errors"):
        errors = map_errors(model, validator.images, device)
        rows = {name: [a | b for a, b in zip(found, errors, strict=True)] for name, found in rows.items()}
    return rows


def map_errors(model: Any, images: Any, device: Any) -> list[dict[str, float]]:
    """Return the mean squared errors of a two-stage model's maps.

    Args:
        model: the model.
        images: data set of samples.
        device: torch device of the model.

    Returns:
        `node_map_error` and `direction_map_error` per image.
    """
    import torch

    from treeformer.nn.targets import Targets

    found = []
    for index in range(len(images)):
        sample, _ = images[index]
        image = torch.from_numpy(sample.image.transpose(2, 0, 1)[None].copy()).to(device).float() / 255.0
        with torch.no_grad():
            errors = model.map_errors(model(image), Targets.from_skeletons([sample.skeleton]).to(device))
        found.append({"node_map_error": float(errors["nodes"]), "direction_map_error": float(errors["directions"])})
    return found


def curve(log: Path) -> dict[str, list[float]]:
    """Return the validations in the log of a run: `step`, `minutes` of training and every `DECODING/METRIC`."""
    at: dict[int, dict[str, float]] = {}
    with log.open(newline="") as file:
        for row in csv.DictReader(file):
            name = row["figure"].removeprefix("valid_")
            if "/" in name:
                at.setdefault(int(row["step"]), {})[name] = float(row["value"])
            elif name == "training_seconds":
                at.setdefault(int(row["step"]), {})["minutes"] = round(float(row["value"]) / 60, 4)
    names = list(dict.fromkeys(name for figures in at.values() for name in figures))
    return {"step": [float(step) for step in at]} | {n: [figures[n] for figures in at.values()] for n in names}


def fingerprint(path: str) -> str:
    """Return the first digits of the SHA-256 of a backbone's weights, "" for no file.

    The hash covers the tensors that all models use, not the file: the default model has no layer4 and accepts a file
    without it.
    """
    from treeformer.hub import safetensors

    if not path:
        return ""
    digest = hashlib.sha256()
    for name, array in sorted(safetensors.read(path).items()):
        if not name.startswith(("layer4.", "fc.")):
            digest.update(name.encode() + array.tobytes())
    return f"ResNet-50 up to layer3, {digest.hexdigest()[:12]}"


def checked_out() -> str:
    """Return the commit that is checked out, with a + if files were changed; "unknown" outside a checkout."""
    folder = Path(__file__).parent
    try:
        name = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=folder, capture_output=True, text=True)
        state = subprocess.run(["git", "status", "--porcelain", "-uno"], cwd=folder, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return name.stdout.strip() + ("+" if state.stdout.strip() else "") if name.returncode == 0 else "unknown"


def machine(device: Any, workers: int) -> dict[str, Any]:
    """Return the description of the machine that is recorded in a result."""
    import torch

    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU {platform.machine()}"
    return {"device": gpu, "torch": torch.__version__, "python": platform.python_version(), "workers": workers}


def _device(accelerator: str) -> Any:
    import torch

    return torch.device("cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu")


def _line(run: Run, step: int, figures: dict[str, float]) -> str:
    shown = ("loss", "images_per_s", "valid_topo_paper_f1", "valid_edge_f1", "valid_tree_rate")
    return f"{run.name} step {step}: " + " ".join(f"{n}={figures[n]:.4g}" for n in shown if n in figures)
