"""Fine-tuning on a few images of a domain that the model has not seen: factors varied once each, and learning curves.

PYTHONPATH=src python benchmarks/finetune.py factors --domain orchard-row -o benchmarks/results/finetune.csv
PYTHONPATH=src python benchmarks/finetune.py curve --domain vineyard --images 2 10 -o benchmarks/results/finetune.csv
PYTHONPATH=src python benchmarks/finetune.py choice --domain barley-roots vineyard
PYTHONPATH=src python benchmarks/finetune.py simulate --domain orchard-row vineyard -o benchmarks/results/finetune.csv
PYTHONPATH=src python benchmarks/finetune.py show benchmarks/results/finetune.csv

PYTHONPATH=src python benchmarks/finetune.py course vineyard10 vineyard-valid --model VERSION6
PYTHONPATH=src python benchmarks/finetune.py export --model VERSION6

PYTHONPATH=src python benchmarks/finetune.py density --domain orchard orchard-row vineyard branch-trees

`density` needs no network: nodes per 512 px input of whole images, and what a limit of nodes per training view does to
the scale of the views, with the augmentation and the windows of `treeformer train`.
`course` trains on one folder of images as `treeformer finetune` does on a CPU, without validation images choosing
anything, and prints the F1 of the training images and of another folder at several node thresholds as it goes.
`export` prints the CPU time of the parts of an export, s.
`choice` asks whether `treeformer next` names the images on which the model is worst: the rank correlation of expected
and true wrong edges over test images, and the F1 of the first third of the ranking against that of all images.
`simulate` annotates --images images of a pool of two domains in the order of `treeformer next`, and as many random ones
for each --choice, trains on each choice and measures on test images of both domains.

A domain is a synthetic preset, rendered as photographs of --side px, or `barley-roots` from the folder in
TREEFORMER_DATA, reduced to --side px. The network's input has the same side. Training images of a preset have seeds of
the split `train`, test images of the split `test`. The barley images for training come from the split `train`, one per
plate; those for testing from the split `test`. The default model has been trained on barley images of the split
`train`, so barley shows only what is left to gain.

Neck, decoder and heads are trained on stored features of the frozen backbone, as `treeformer finetune` does on a CPU.
There is no validation: the last weights are measured. Results are appended to the table, and a variant that is already
there is skipped, so that an interrupted call can be repeated. Features stay in --cache.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from scipy.stats import spearmanr

from treeformer import formats, synthetic
from treeformer.data.augmentation import STRONG
from treeformer.data.datasets import FolderDataset, OpenedSample, SyntheticDataset, write_pair
from treeformer.data.view import Source, View, draw_cropped_view, draw_view
from treeformer.hub.model_folder import WEIGHTS, ModelFolder, open_model
from treeformer.inference.predictor import Predictor
from treeformer.metrics import correct_edges, differences, topo
from treeformer.models import onnx_graph, quantize
from treeformer.models.export import load_weights, with_tokens, write_weights
from treeformer.skeleton import Skeleton
from treeformer.synthetic import SPLITS
from treeformer.teaching import measuring, next_images, plan, top_training, views
from treeformer.teaching.annotated import AnnotatedImage, survey
from treeformer.teaching.crops import CropSettings, make_crop
from treeformer.teaching.features import FeatureStore, separate_backbone
from treeformer.teaching.progress import ignore

GRID_PX = 44.0
DATA = Path(os.environ.get("TREEFORMER_DATA", Path(__file__).parents[2] / "shared" / "data"))
FIELDS = (
    "domain",
    "side",
    "variant",
    "images",
    "choice",
    "crops",
    "image_steps",
    "test_images",
    "before",
    "after",
    "gain",
    "low",
    "high",
    "seconds",
)


@dataclass(frozen=True)
class Variant:
    """One way to train.

    Attributes:
        name: name in the table.
        recipe: learning rates, averaging and tokens.
        trained_stages: trained stages of the backbone.
        synthetic_every: one of so many crops is synthetic, 0 for none.
        max_nodes: nodes per crop; denser crops are replaced by smaller windows.
        steps_factor: factor on the number of image steps.
    """

    name: str
    recipe: top_training.Recipe
    trained_stages: int = 0
    synthetic_every: int = plan.SYNTHETIC_EVERY
    max_nodes: int = 440
    steps_factor: float = 1.0


BASE = Variant("base", top_training.Recipe(plan.LEARNING_RATE, max_tokens=448))
FACTORS = (
    BASE,
    replace(BASE, name="rate / 5", recipe=replace(BASE.recipe, learning_rate=BASE.recipe.learning_rate / 5)),
    replace(BASE, name="rate x 5", recipe=replace(BASE.recipe, learning_rate=BASE.recipe.learning_rate * 5)),
    replace(BASE, name="no averaging", recipe=replace(BASE.recipe, average_decay=0.0)),
    replace(BASE, name="averaging 0.99", recipe=replace(BASE.recipe, average_decay=0.99)),
    replace(BASE, name="at most 24 nodes per crop", max_nodes=24),
    replace(BASE, name="no synthetic crops", synthetic_every=0),
    replace(BASE, name="half synthetic crops", synthetic_every=2),
    replace(BASE, name="neck frozen", recipe=replace(BASE.recipe, neck_factor=0.0)),
    replace(BASE, name="last stage trained", trained_stages=1),
    replace(BASE, name="half the steps", steps_factor=0.5),
)


def domain_images(domain: str, split: str, count: int, cache: Path, side: int) -> list[AnnotatedImage]:
    """Return images of a domain, rendered or reduced once and kept in the cache."""
    folder = cache / f"{domain}-{split}-{side}"
    if domain == "barley-roots":
        pairs = FolderDataset(DATA / domain, split)
        first = {pair[0].stem.rstrip("R"): index for index, pair in reversed(list(enumerate(pairs.pairs)))}
        indices = sorted(first.values())[:count] if split == "train" else list(range(len(pairs)))[:count]
        load: Callable[[int], object] = lambda number: pairs[indices[number]]  # noqa: E731
        count = min(count, len(indices))
    else:
        synthetic = SyntheticDataset(SPLITS[split][5000 : 5000 + count], (domain,), ("photo",), (side, side))
        load = synthetic.__getitem__
    images = []
    for number in range(count):
        stem = f"{number:03d}"
        if not (folder / f"{stem}.json").exists():
            sample = load(number)
            image, skeleton = sample.image, sample.skeleton  # type: ignore[attr-defined]
            longest = max(image.shape[:2])
            if longest > side:
                reduced = Image.fromarray(image)
                reduced.thumbnail((side, side), Image.Resampling.LANCZOS)
                factor = reduced.size[0] / image.shape[1]
                skeleton = skeleton.transform([[factor, 0, 0], [0, factor, 0]], image_size=reduced.size)
                image = np.asarray(reduced)
            write_pair(image, skeleton, folder, stem)
        skeleton = formats.read(folder / f"{stem}.json")
        skeleton = skeleton.replace(nodes=np.clip(skeleton.nodes, 0, skeleton.image_size))
        images.append(AnnotatedImage(folder / f"{stem}.png", folder / f"{stem}.json", stem, skeleton))
    return images


def measure(predictor: Predictor, images: Sequence[AnnotatedImage]) -> list[dict[str, float]]:
    """Return precision and recall of corrected TOPO per image, in the form that `differences` takes."""
    predictions = measuring.predict_images(predictor, images)
    scores = [topo(found, image.skeleton) for found, image in zip(predictions, images, strict=True)]
    return [{"topo_precision": one.precision, "topo_recall": one.recall, "topo_f1": one.f1} for one in scores]


def run(
    variant: Variant,
    domain: str,
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
    start = open_model("default")
    network = with_tokens(load_weights(start), 448)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    backbone = separate_backbone(network, variant.trained_stages)
    stages = 3 - variant.trained_stages
    sizes = {"input_size": side, "working_size": side, "scale_rule": None}
    settings = replace(start.config, settings={**start.config.settings, "tokens": 448}, **sizes)
    folder = ModelFolder(start.path, settings, start.hashes)
    tiles = FeatureStore(cache / f"tiles-{side}-{stages}", backbone, side, stages)
    predictor = Predictor(folder, engine=measuring.LiveEngine(network, folder, tiles))
    before_rows = measure(predictor, test)
    crops = CropSettings(side, variant.max_nodes, synthetic_every=variant.synthetic_every, seed=choice)
    name = f"crops-{domain}-{len(train)}-{choice}-{variant.max_nodes}-{variant.synthetic_every}-{stages}-{side}"
    store = FeatureStore(cache / name, backbone, side, stages)
    count = crops_per_image * len(train)
    made: list[top_training.Crop] = []
    for number in range(count):
        if time.monotonic() > deadline:
            return None
        sample = make_crop(number, train, [side] * len(train), crops)
        made.append(
            ((lambda number=number, sample=sample: store.get(str(number), lambda: sample.image)), sample.skeleton)
        )  # type: ignore[misc]
    batch = 2
    steps = max(1, round(variant.steps_factor * image_steps / batch))
    schedule = plan.Schedule(count, steps, batch, steps + 1, 0.0)
    work = cache / f"work-{name}-{variant.name.replace(' ', '-').replace('/', 'by')}"
    work.mkdir(exist_ok=True)
    try:
        top_training.train_top(
            network,
            made,
            schedule,
            variant.recipe,
            work,
            seed=choice,
            side=side,
            start_score=0.0,
            validate=None,
            listen=ignore,
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


def course(args: argparse.Namespace) -> None:
    """Print one row per stage of training: F1 of training images and of others at several node thresholds."""
    start = open_model(args.model)
    network = load_weights(start)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    backbone = separate_backbone(network, args.trained_stages)
    stages, side = 3 - args.trained_stages, start.config.input_size
    engine = measuring.LiveEngine(network, start, FeatureStore(args.cache / f"tiles-{stages}", backbone, side, stages))
    train = plan.split_images(survey(args.train), 0).train
    test = survey(args.test).images[: args.test_images]
    tokens = network.config.tokens
    settings = CropSettings(side, tokens - 8)
    store = FeatureStore(args.cache / f"course-{args.train.name}-{stages}", backbone, side, stages)
    made: list[top_training.Crop] = []
    sizes = plan.working_sizes(train, start.config)
    for number in range(args.crops):
        sample = make_crop(number, train, sizes, settings)
        made.append(
            ((lambda number=number, sample=sample: store.get(str(number), lambda: sample.image)), sample.skeleton)
        )  # type: ignore[misc]
    thresholds = [round(start.config.node_threshold + step, 2) for step in views.THRESHOLD_STEPS]
    print("| crops used | images | " + " | ".join(f"{one:g}" for one in thresholds) + " |")
    print("|" + " --- |" * (2 + len(thresholds)), flush=True)
    done = [0]

    def show() -> dict[str, float]:
        for name, images in (("training", train), ("others", test)):
            remembering = views.RememberingEngine(engine)
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

    def validate() -> dict[str, float]:
        done[0] += every * args.batch
        return show()

    top_training.train_top(
        network,
        made,
        plan.Schedule(args.crops, steps, args.batch, every, 0.0),
        top_training.Recipe(args.rate, neck_factor=args.neck, max_tokens=tokens),
        work,
        seed=0,
        side=side,
        start_score=-1.0,
        validate=validate,
        listen=ignore,
        should_stop=lambda: False,
        workers=args.workers,
    )


def export(model: str) -> None:
    """Print the CPU time of the parts of an export."""
    start = open_model(model)
    network = load_weights(start)
    images: list[np.ndarray] = []

    def show(part: str, work: Callable[[], object]) -> None:
        print(f"| {part} | {plan.timed(time.process_time, work):.1f} |", flush=True)

    def quantized() -> None:
        quantize.quantize(graph, ranges[0])

    print("| part | CPU time, s |\n| --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        show("write the weights", lambda: write_weights(folder / WEIGHTS, network))
        show("trace the network", lambda: onnx_graph.trace(network, start.config))
        show("draw 16 synthetic images", lambda: images.extend(quantize.calibration_images(start.config.input_size)))
        graph, ranges = onnx_graph.read_graph(start), []
        show("measure ranges, 16 images", lambda: ranges.append(quantize.measure(graph, folder, images)))
        show("convert to 8 bits", quantized)
    predictor = Predictor(start, engine="onnx")
    show("predict one image", lambda: predictor.predict(images[1]))


def ranked(predictions: Sequence[Skeleton], images: Sequence[AnnotatedImage]) -> list[tuple[int, float]]:
    """Return index and expected number of wrong edges of the images, in the order of `treeformer next`."""
    doubts = [next_images.uncertainty(found) for found in predictions]
    features = [next_images.image_features(Image.open(image.path)) for image in images]
    return [(index, doubts[index]) for index, _, _ in next_images.rank(features, doubts)]


def choice(domain: str, count: int, cache: Path, side: int) -> str:
    """Return one row: does the order of `treeformer next` put the worst images first?"""
    test = domain_images(domain, "test", count, cache, side)
    predictions = measuring.predict_images(Predictor("default"), test)
    wrong = [float((~correct_edges(p, i.skeleton)).sum()) for p, i in zip(predictions, test, strict=True)]
    f1 = [topo(p, i.skeleton).f1 for p, i in zip(predictions, test, strict=True)]
    order = ranked(predictions, test)
    expected = dict(order)
    doubts = [np.nan_to_num(expected[index]) for index in range(len(test))]
    correlation = spearmanr(doubts, wrong).statistic
    first = [f1[index] for index, _ in order[: max(1, len(order) // 3)]]
    means = f"{np.mean(first):.3f} | {np.mean(f1):.3f}"
    return f"| {domain} | {len(test)} | {correlation:+.2f} | {sum(doubts):.0f} | {sum(wrong):.0f} | {means} |"


def density(domain: str, count: int, limits: Sequence[int], side: int = 512) -> str:
    """Return one row: nodes per input, token ceilings, and the scale of training views under limits of nodes."""
    if domain in synthetic.PRESETS:
        skeletons = [synthetic.generate(domain, SPLITS["train"][6000 + n], size=(side, side)) for n in range(count)]
    else:
        folder = FolderDataset(DATA / domain, "train" if (DATA / domain / "train").is_dir() else None)
        skeletons = [folder[n].skeleton for n in range(0, len(folder), max(1, len(folder) // count))][:count]
    whole = []
    for skeleton in skeletons:
        factor = side / max(skeleton.image_size or (side, side))
        size = tuple(round(factor * one) for one in skeleton.image_size or (side, side))
        whole.append(skeleton.transform([[factor, 0, 0], [0, factor, 0]], image_size=(size[0], size[1])))
    nodes = np.array([len(one.sample_at_grid_crossings(GRID_PX)) for one in whole])
    ceilings = [np.mean(np.minimum(nodes, tokens) / np.maximum(nodes, 1)) for tokens in (192, 448)]
    cells = [f"{nodes.mean():.0f}", f"{nodes.max()}", *(f"{ceiling:.2f}" for ceiling in ceilings)]
    for limit in limits:
        zooms, above = [], 0
        for number, skeleton in enumerate(whole):
            source = Source(SyntheticDataset(range(1)), (0,), 1.0, replace(STRONG, frame=(side, side)), 0.0, GRID_PX)
            opened = OpenedSample(skeleton, str(number), lambda: np.zeros((side, side, 3), np.uint8))
            first = draw_view(source, opened, np.random.default_rng(number), (side, side))
            above += len(first.skeleton) > limit
            view = draw_cropped_view(source, opened, np.random.default_rng(number), (side, side), limit)
            if isinstance(view, View) and view.affine is not None:
                zooms.append(float(np.sqrt(abs(np.linalg.det(view.affine[:, :2])))))
        cells += [f"{above / len(whole):.0%}", f"{np.median(zooms):.2f}" if zooms else ""]
    return f"| {domain} | {len(whole)} | " + " | ".join(cells) + " |"


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table, none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append(path: Path, row: dict[str, object]) -> None:
    """Append a row to a table."""
    is_new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def simulate(args: argparse.Namespace, deadline: float) -> None:
    """Train on the images that `treeformer next` names, and on random ones, of a pool of several domains."""
    pool = [i for name in args.domain for i in domain_images(name, "train", args.pool, args.cache, args.side)]
    test = [i for name in args.domain for i in domain_images(name, "test", args.test_images, args.cache, args.side)]
    domain = "+".join(args.domain)
    for count in args.images:
        for variant in (replace(BASE, name="next"), replace(BASE, name="random")):
            key = (domain, str(args.side), variant.name, str(count), str(args.choice))
            if key in keys(args.output) or (args.only and variant.name != args.only):
                continue
            order = np.random.default_rng([args.choice, 5]).permutation(len(pool)).tolist()
            if variant.name == "next":
                order = [index for index, _ in ranked(measuring.predict_images(Predictor("default"), pool), pool)]
            train = [pool[index] for index in order[:count]]
            print(variant.name, [f"{image.path.parent.name}/{image.name}" for image in train], file=sys.stderr)
            name = f"{domain}-{variant.name}"
            row = run(
                variant,
                name,
                train,
                test,
                args.cache,
                image_steps=args.image_steps,
                crops_per_image=args.crops_per_image,
                choice=args.choice,
                side=args.side,
                deadline=deadline,
            )
            if row is None:
                return
            append(args.output, {**row, "domain": domain})


def keys(path: Path) -> set[tuple[str, ...]]:
    """Return domain, side, variant, number of images and choice of every row of a table."""
    names = ("domain", "side", "variant", "images", "choice")
    return {tuple(row[name] for name in names) for row in read_rows(path)}


def main() -> None:
    """Run the variants that the table does not have yet, or print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("factors", "curve", "simulate"):
        one = commands.add_parser(name)
        one.add_argument("--domain", nargs="+", default=["orchard-row"])
        one.add_argument("--images", type=int, nargs="+", default=[10])
        one.add_argument("--side", type=int, default=256, help="side of images and input, px")
        one.add_argument(
            "--max-minutes", type=float, default=1e9, help="stop after this time; repeat the call to continue"
        )
        one.add_argument("--test-images", type=int, default=12)
        one.add_argument("--image-steps", type=int, default=48)
        one.add_argument("--crops-per-image", type=int, default=3)
        one.add_argument("--choice", type=int, default=0, help="which images: 0 are the first, 1 the next, …")
        one.add_argument("--pool", type=int, default=8, help="images per domain to choose from (simulate)")
        one.add_argument("--only", help="only this variant")
        one.add_argument("--cache", type=Path, default=Path("/tmp/finetune-cache"))
        one.add_argument("-o", "--output", type=Path, required=True)
    during = commands.add_parser("course")
    during.add_argument("train", type=Path, help="images with skeletons; one fifth is left out, as for validation")
    during.add_argument("test", type=Path, help="other images with skeletons")
    during.add_argument("--model", default="default")
    during.add_argument("--rate", type=float, default=plan.LEARNING_RATE)
    during.add_argument("--neck", type=float, default=0.3)
    during.add_argument("--batch", type=int, default=plan.BATCH_SIZE)
    during.add_argument("--trained-stages", type=int, default=0)
    during.add_argument("--crops", type=int, default=60)
    during.add_argument("--image-steps", type=int, default=240)
    during.add_argument("--rows", type=int, default=4)
    during.add_argument("--test-images", type=int, default=12)
    during.add_argument("--workers", type=int, default=1)
    during.add_argument("--cache", type=Path, default=Path("/tmp/finetune-cache"))
    chosen = commands.add_parser("choice")
    chosen.add_argument("--domain", nargs="+", default=["orchard-row", "vineyard"])
    chosen.add_argument("--side", type=int, default=512)
    chosen.add_argument("--test-images", type=int, default=12)
    chosen.add_argument("--cache", type=Path, default=Path("/tmp/finetune-cache"))
    dense = commands.add_parser("density")
    dense.add_argument("--domain", nargs="+", default=["orchard-row", "vineyard"])
    dense.add_argument("--count", type=int, default=60)
    dense.add_argument("--limits", type=int, nargs="+", default=[144, 440])
    parts = commands.add_parser("export")
    parts.add_argument("--model", default="default")
    shown = commands.add_parser("show")
    shown.add_argument("output", type=Path)
    args = parser.parse_args()
    if args.command == "show":
        rows = read_rows(args.output)
        print("| " + " | ".join(FIELDS) + " |\n|" + " --- |" * len(FIELDS))
        for row in rows:
            print("| " + " | ".join(row[name] for name in FIELDS) + " |")
        return
    if args.command == "density":
        limits = " | ".join(f"views above {n} nodes | median scale" for n in args.limits)
        print(f"| set | images | nodes | most | ceiling, 192 tokens | 448 tokens | {limits} |")
        print("|" + " --- |" * (6 + 2 * len(args.limits)))
        for domain in args.domain:
            print(density(domain, args.count, args.limits), flush=True)
        return
    if args.command == "export":
        export(args.model)
        return
    if args.command == "course":
        course(args)
        return
    if args.command == "choice":
        print("| set | images | correlation | expected wrong | wrong | F1 of the first third | F1 of all |")
        print("|" + " --- |" * 7)
        for domain in args.domain:
            print(choice(domain, args.test_images, args.cache, args.side), flush=True)
        return
    deadline = time.monotonic() + 60 * args.max_minutes
    if args.command == "simulate":
        simulate(args, deadline)
        return
    variants = FACTORS if args.command == "factors" else (replace(BASE, name="curve"),)
    (args.domain,) = args.domain
    test = domain_images(args.domain, "test", args.test_images, args.cache, args.side)
    for count in args.images:
        pool = domain_images(args.domain, "train", (args.choice + 1) * count, args.cache, args.side)
        train = pool[args.choice * count : (args.choice + 1) * count]
        for variant in variants:
            if args.only and variant.name != args.only:
                continue
            if time.monotonic() > deadline:
                return
            key = (args.domain, str(args.side), variant.name, str(len(train)), str(args.choice))
            if key in keys(args.output):
                continue
            row = run(
                variant,
                args.domain,
                train,
                test,
                args.cache,
                image_steps=args.image_steps,
                crops_per_image=args.crops_per_image,
                choice=args.choice,
                side=args.side,
                deadline=deadline,
            )
            if row is None:
                return
            append(args.output, row)
            print(*(f"{name} {row[name]}" for name in FIELDS), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
