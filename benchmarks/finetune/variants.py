"""Ways to train, one of which is trained and measured at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from benchmarks.finetune.domains import measure

from treeformer.finetuning import plan
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.finetuning.cached_features import (
    OPTIMIZER,
    CachedFeatures,
    FeatureStore,
    StoredCrops,
    live_engine,
    separate_backbone,
    train_cached,
)
from treeformer.hub.model_folder import ModelFolder, open_model
from treeformer.inference.predictor import Predictor
from treeformer.metrics import differences
from treeformer.models.export import load_weights, with_tokens
from treeformer.training.config import OptimizerConfig
from treeformer.training.parallel import Workers


@dataclass(frozen=True)
class Variant:
    """One way to train.

    Attributes:
        name: name in the table.
        optimizer: learning rates and averaging.
        trained_stages: trained stages of the backbone.
        synthetic_every: one of so many crops is synthetic, 0 for none.
        max_nodes: nodes per crop; denser crops are replaced by smaller windows.
        steps_factor: factor on the number of image steps.
    """

    name: str
    optimizer: OptimizerConfig = OPTIMIZER
    trained_stages: int = 0
    synthetic_every: int = plan.SYNTHETIC_EVERY
    max_nodes: int = 440
    steps_factor: float = 1.0


TOKENS = 448
BASE = Variant("base")
FACTORS = (
    BASE,
    replace(BASE, name="rate / 5", optimizer=replace(OPTIMIZER, learning_rate=OPTIMIZER.learning_rate / 5)),
    replace(BASE, name="rate x 5", optimizer=replace(OPTIMIZER, learning_rate=OPTIMIZER.learning_rate * 5)),
    replace(BASE, name="no averaging", optimizer=replace(OPTIMIZER, ema_decay=0.0)),
    replace(BASE, name="averaging 0.99", optimizer=replace(OPTIMIZER, ema_decay=0.99)),
    replace(BASE, name="at most 144 nodes per crop", max_nodes=144),
    replace(BASE, name="no synthetic crops", synthetic_every=0),
    replace(BASE, name="half synthetic crops", synthetic_every=2),
    replace(BASE, name="neck frozen", optimizer=replace(OPTIMIZER, neck_factor=0.0)),
    replace(BASE, name="last stage trained", trained_stages=1),
    replace(BASE, name="half the steps", steps_factor=0.5),
)


def run(
    variant: Variant,
    domain: str,
    model: str,
    train: Sequence[AnnotatedImage],
    test: Sequence[AnnotatedImage],
    cache: Path,
    *,
    image_steps: int,
    crops_per_image: int,
    choice: int,
    side: int,
    deadline: float = math.inf,
) -> dict[str, object] | None:
    """Train one variant and return its row of the table; None if the deadline came first. It can be continued."""
    began = time.monotonic()
    start = open_model(model)
    network = with_tokens(load_weights(start), TOKENS)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    backbone = separate_backbone(network, variant.trained_stages)
    stages = 3 - variant.trained_stages
    sizes = {"input_size": side, "working_size": side, "scale_rule": None}
    settings = replace(start.config, settings={**start.config.settings, "tokens": TOKENS}, **sizes)
    folder = ModelFolder(start.path, settings, start.hashes)
    tiles = FeatureStore(cache / f"tiles-{side}-{stages}", backbone, side, stages)
    predictor = Predictor(folder, engine=live_engine(network, folder, tiles))
    before_rows = measure(predictor, test)
    crops = plan.CropSettings(side, variant.max_nodes, synthetic_every=variant.synthetic_every, seed=choice)
    name = f"crops-{domain}-{len(train)}-{choice}-{variant.max_nodes}-{variant.synthetic_every}-{stages}-{side}"
    store = FeatureStore(cache / name, backbone, side, stages)
    count = crops_per_image * len(train)
    stored = StoredCrops(store, lambda number: plan.make_crop(number, train, [side] * len(train), crops))
    for number in range(count):
        if time.monotonic() > deadline:
            return None
        stored.skeleton(number)
    batch = 2
    steps = max(1, round(variant.steps_factor * image_steps / batch))
    folder_name = f"work-{name}-{variant.name.replace(' ', '-').replace('/', 'by')}"
    options = {"batch_size": batch, "max_tokens": TOKENS, "seed": choice, "workers": Workers(1)}
    (cache / folder_name).mkdir(exist_ok=True)
    try:
        train_cached(
            CachedFeatures(network, stored, count, **options),
            plan.Schedule(count, steps, batch, steps + 1, 0.0),
            cache / folder_name,
            optimizer=variant.optimizer,
            should_stop=lambda: time.monotonic() > deadline,
        )
    except KeyboardInterrupt:
        return None
    after_rows = measure(predictor, test)
    gain = differences(after_rows, before_rows)["topo_f1"]
    before, after = (
        differences(rows, [dict.fromkeys(row, 0.0) for row in rows])["topo_f1"].value
        for rows in (before_rows, after_rows)
    )
    return {
        "domain": domain,
        "side": side,
        "variant": variant.name,
        "images": len(train),
        "choice": choice,
        "crops": count,
        "image_steps": steps * batch,
        "test_images": len(test),
        "before": f"{before:.3f}",
        "after": f"{after:.3f}",
        "gain": f"{gain.value:+.3f}",
        "low": f"{gain.low:+.3f}",
        "high": f"{gain.high:+.3f}",
        "seconds": f"{time.monotonic() - began:.0f}",
    }
