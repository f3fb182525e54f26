"""`course` prints scores while one folder of images is learned."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import torch
from benchmarks.finetune.domains import CACHE

from treeformer.finetuning import measuring, plan
from treeformer.finetuning.annotated import survey
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
from treeformer.models.export import load_weights
from treeformer.training.parallel import Workers


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("train", type=Path, help="images with skeletons; one fifth is left out, as for validation")
    parser.add_argument("test", type=Path, help="other images with skeletons")
    parser.add_argument("--model", default="default")
    parser.add_argument("--rate", type=float, default=plan.LEARNING_RATE)
    parser.add_argument("--neck", type=float, default=0.3)
    parser.add_argument("--batch", type=int, default=plan.BATCH_SIZE)
    parser.add_argument("--trained-stages", type=int, default=0)
    parser.add_argument("--crops", type=int, default=60)
    parser.add_argument("--image-steps", type=int, default=240)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--test-images", type=int, default=12)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=CACHE)


def main(args: argparse.Namespace) -> None:
    """Print one row per stage of training: F1 of training images and of others at several node thresholds."""
    start = open_model(args.model)
    network = load_weights(start)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    backbone = separate_backbone(network, args.trained_stages)
    stages, side = 3 - args.trained_stages, start.config.input_size
    engine = live_engine(network, start, FeatureStore(args.cache / f"tiles-{stages}", backbone, side, stages))
    train = plan.split_images(survey(args.train), 0).train
    test = survey(args.test).images[: args.test_images]
    tokens = network.config.tokens
    settings = plan.CropSettings(side, tokens - 8)
    store = FeatureStore(args.cache / f"course-{args.train.name}-{stages}", backbone, side, stages)
    sizes = plan.working_sizes(train, start.config)
    crops = StoredCrops(store, lambda number: plan.make_crop(number, train, sizes, settings))
    thresholds = [round(start.config.node_threshold + step, 2) for step in measuring.THRESHOLD_STEPS]
    print("| crops used | images | " + " | ".join(f"{one:g}" for one in thresholds) + " |")
    print("|" + " --- |" * (2 + len(thresholds)), flush=True)
    done = [0]

    def show() -> dict[str, float]:
        for name, images in (("training", train), ("others", test)):
            remembering = measuring.RememberingEngine(engine)
            cells = []
            for one in thresholds:
                changed = replace(start.config, node_threshold=one)
                predictor = Predictor(ModelFolder(start.path, changed, start.hashes), engine=remembering)
                cells.append(f"{measuring.score(measuring.predict_images(predictor, images), images)['topo_f1']:.3f}")
            print(f"| {done[0]} | {len(images)} {name} | " + " | ".join(cells) + " |", flush=True)
        return {"topo_f1": 0.0}

    show()
    steps = args.image_steps // args.batch
    every = max(1, steps // args.rows)
    work = args.cache / f"work-course-{time.time_ns()}"
    work.mkdir(parents=True)

    def measure(_model: object) -> dict[str, float]:
        done[0] += every * args.batch
        return show()

    options = {"batch_size": args.batch, "max_tokens": tokens, "seed": 0, "workers": Workers(args.workers)}
    train_cached(
        CachedFeatures(network, crops, args.crops, **options),
        plan.Schedule(args.crops, steps, args.batch, every, 0.0),
        work,
        optimizer=replace(OPTIMIZER, learning_rate=args.rate, neck_factor=args.neck),
        measure=measure,
    )
