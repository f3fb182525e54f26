"""Choose settings for the user: the split, the scale, the number of tokens, the training crops and the schedule.

Crops are random windows on the own images at their working size, and on synthetic images. A crop is determined by the
seed and its number, so that an interrupted run continues with the same crops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from treeformer._util.files import sha256
from treeformer._util.images import open_image
from treeformer.data.augmentation import Augmentation, warp
from treeformer.data.recipe import RECIPE_NAME, read_recipe
from treeformer.data.sample import Sample
from treeformer.data.splits import plate_rule
from treeformer.errors import TreeformerError
from treeformer.finetuning.annotated import AnnotatedImage, Survey
from treeformer.hub.model_folder import ModelSettings, ScaleRule
from treeformer.inference.auto_scale import choose_working_size
from treeformer.skeleton import Skeleton
from treeformer.synthetic import make_image

# Share of the images that validation uses, at least one and at most so many.
VALID_SHARE = 0.2
MAX_VALID = 10
# Tokens are a multiple of this. The number leaves room for false nodes.
TOKEN_STEP = 64
TOKEN_RESERVE = 1.3
MAX_TOKENS = 512
# Every crop is used so many times on average.
USES_PER_CROP = 4
MIN_CROPS, MAX_CROPS_PER_IMAGE = 8, 24
# With a single image there is no validation. Few steps limit the damage.
MAX_IMAGE_STEPS_ALONE = 48
MAX_IMAGE_STEPS = 1600
MIN_IMAGE_STEPS = 8
VALIDATIONS = 6
# Share of the time that validations may take.
MAX_VALIDATION_SHARE = 0.4
LEARNING_RATE = 5e-4
BATCH_SIZE = 2
SYNTHETIC_EVERY = 5
# Measured on the keypoints of osr-roots and barley-roots: docs/lab/model-ingredients.md.
WITHOUT_RADII = ScaleRule("spacing", 13.0, 2)
# Changes of the own images. The scale is relative to the working size, which is known to a factor of two.
CHANGES = Augmentation(
    rotation_deg=10.0,
    scale=(0.75, 1.4),
    brightness=0.1,
    contrast=(0.8, 1.25),
    color_cast=0.1,
    noise=(0.0, 6.0),
)
# Share of the crops that show the whole image, as the first pass of a prediction does.
WHOLE_SHARE = 0.2
# A crop with too many nodes is replaced by a smaller window: its scale is multiplied by these in turn.
# The last ones are for windows that happened to lie where branches crowd.
ZOOMS = (1.0, 1.3, 1.7, 2.2, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)
# Rendered images keep the model from forgetting what it could do before.
SYNTHETIC_PRESETS = ("taproot", "seedling", "vine", "orchard")
# Seeds of the training split of synthetic images.
SYNTHETIC_SEEDS = range(60_000, 100_000)


@dataclass(frozen=True)
class CropSettings:
    """What a crop is like."""

    side: int  # side of the network's input, px
    max_nodes: int  # largest number of nodes
    grid_px: float = 44.0  # spacing of the grid on which the nodes of curves lie, px; 0 spaces them evenly
    spacing_px: float = 8.0  # spacing of the nodes without a grid, px
    synthetic_every: int = 5  # one of so many crops is synthetic; 0 for none
    seed: int = 0  # seed of all crops


@dataclass(frozen=True)
class Split:
    """Training and validation images. No plate and no image is in both."""

    train: tuple[AnnotatedImage, ...]  # images that the network is trained on
    valid: tuple[AnnotatedImage, ...]  # images that choose the best weights. Empty if there is only one plate


@dataclass(frozen=True)
class Speed:
    """Times measured on this machine, s."""

    features: float  # computing the features of one crop
    image_step: float  # forward and backward pass of one crop
    validation: float  # one validation
    export: float  # writing and checking the model folder


@dataclass(frozen=True)
class Schedule:
    """How long to train."""

    crops: int  # number of crops whose features are computed once and then reused
    steps: int  # optimizer steps
    batch_size: int  # crops per step
    validate_every: int  # steps between two validations
    seconds: float  # estimated time of the whole run from here on, s


def split_images(survey: Survey, seed: int) -> Split:
    """Divide the images into training and validation by plate.

    Images show the same plate if their names agree in the part that the pattern `plate` in the folder's dataset.yaml
    matches, also in different sub-folders. Without a pattern, every image is its own plate. A copy of an image is on
    the plate of the image, whatever its name.
    """
    if not survey.images:
        reason = f": {survey.unusable[0]}" if survey.unusable else ""
        raise TreeformerError(f"{survey.folder}: no image with a corrected skeleton{reason}")
    if not any(len(image.skeleton) for image in survey.images):
        raise TreeformerError(f"{survey.folder}: none of the {len(survey.images)} annotated images shows a plant")
    rule = (read_recipe(survey.folder) or {}).get("plate")
    plate = plate_rule(rule, survey.folder / RECIPE_NAME)
    plates: dict[str, list[AnnotatedImage]] = {}
    plate_of: dict[str, str] = {}
    for image in survey.images:
        name = image.name if rule is None else plate(image.path.stem)
        plates.setdefault(plate_of.setdefault(sha256(image.path), name), []).append(image)
    names = sorted(plates)
    order = [names[index] for index in np.random.default_rng(seed).permutation(len(names))]
    # An image without a plant says nothing about F1, so validation begins with plates that have one. The last of these
    # is needed for training.
    with_plants = [name for name in order if any(len(image.skeleton) for image in plates[name])]
    order = [*with_plants[:-1], *(name for name in order if name not in with_plants)]
    wanted = min(MAX_VALID, max(1, round(VALID_SHARE * len(survey.images))))
    valid: list[AnnotatedImage] = []
    for name in order:
        if len(valid) + len(plates[name]) <= wanted:
            valid += plates[name]
    if not any(len(image.skeleton) for image in valid):  # none, or all plates with plants have more images
        smallest = min(with_plants, key=lambda name: len(plates[name]))
        valid = plates[smallest] if len(with_plants) > 1 else []
    chosen = {image.name for image in valid}
    return Split(tuple(image for image in survey.images if image.name not in chosen), tuple(valid))


def working_sizes(images: Sequence[AnnotatedImage], settings: ModelSettings) -> list[int]:
    """Choose the working size of each image: by the model's scale rule, applied to the ground truth.

    If the rule needs radii and the ground truth has none, the spacing of its keypoints decides.
    """
    sizes = []
    for image in images:
        longest = max(image.size)
        if settings.scale_rule is None:
            size = min(settings.working_size, longest)
        else:
            is_measurable = settings.scale_rule.signal == "spacing" or image.skeleton.radius is not None
            rule = settings.scale_rule if is_measurable else WITHOUT_RADII
            size = choose_working_size(image.skeleton, rule, settings.input_size, settings.working_size)
        sizes.append(max(size, settings.input_size))
    return sizes


def crop_settings(settings: ModelSettings, seed: int = 0) -> CropSettings:
    """Return what the crops of a run are like, before the number of tokens is chosen."""
    grid = settings.settings.get("grid_px", 0.0)
    return CropSettings(
        settings.input_size,
        max_nodes=MAX_TOKENS,
        grid_px=float(grid) if isinstance(grid, int | float) else 0.0,
        synthetic_every=SYNTHETIC_EVERY,
        seed=seed,
    )


def choose_tokens(
    images: Sequence[AnnotatedImage], working_px: Sequence[int], crops: CropSettings, start_tokens: int
) -> int:
    """Choose the number of tokens: enough for the densest input, and not fewer than the start model has."""
    most = max(
        most_nodes_per_input(image.skeleton, size, crops) for image, size in zip(images, working_px, strict=True)
    )
    needed = TOKEN_STEP * math.ceil(TOKEN_RESERVE * most / TOKEN_STEP)
    return max(start_tokens, min(needed, MAX_TOKENS))


def make_crop(
    number: int, images: Sequence[AnnotatedImage], working_px: Sequence[int], settings: CropSettings
) -> Sample:
    """Make a crop, (side,side,3) pixels and their skeleton. Consecutive numbers from 0 cycle through the images."""
    rng = np.random.default_rng([settings.seed, number])
    every = settings.synthetic_every
    if every and number % every == every - 1:
        preset = SYNTHETIC_PRESETS[number // every % len(SYNTHETIC_PRESETS)]
        seed = SYNTHETIC_SEEDS[(1000 * settings.seed + number) % len(SYNTHETIC_SEEDS)]
        image, skeleton = make_image(preset, "photo", seed, (settings.side, settings.side))
        target = with_target_nodes(skeleton, settings)
        if len(target) <= settings.max_nodes:  # otherwise an own image takes its place
            return Sample(image, target, f"{preset}-{seed}")
    own = number - number // every if every else number
    chosen = images[own % len(images)]
    longest = working_px[own % len(images)]
    pixels = np.asarray(open_image(chosen.path, longest_px=max(longest, settings.side)))
    height, width = pixels.shape[:2]
    factor = width / chosen.size[0]
    skeleton = chosen.skeleton.transform([[factor, 0, 0], [0, factor, 0]], image_size=(width, height))
    whole = shows_whole_image(own, len(images))
    base = (settings.side if whole else longest) / max(width, height)
    for zoom in ZOOMS:
        low, high = (0.9, 1.0) if whole else CHANGES.scale
        scale = (base * zoom * low, base * zoom * high)
        changes = replace(CHANGES, frame=(settings.side, settings.side), scale=scale)
        affine, frame = changes.draw_affine((width, height), skeleton.nodes, rng)
        moved = with_target_nodes(changes.move_skeleton(skeleton, affine, frame), settings)
        if len(moved) <= settings.max_nodes:
            return Sample(changes.relight(warp(pixels, affine, frame), rng), moved, chosen.name)
    raise TreeformerError(f"{chosen.path}: more than {settings.max_nodes} nodes in its smallest window")


def shows_whole_image(own: int, count: int) -> bool:
    """Decide whether a crop of an own image shows all of it.

    Each image is shown whole in one round in five, and not all images in the same round: a run with more images than
    crops would see nothing but whole images.
    """
    return sum(divmod(own, count)) % round(1 / WHOLE_SHARE) == 0


def with_target_nodes(skeleton: Skeleton, settings: CropSettings) -> Skeleton:
    """Place the nodes of curves where the network places them."""
    if settings.grid_px:
        return skeleton.sample_at_grid_crossings(settings.grid_px)
    return skeleton.resample(settings.spacing_px)


def most_nodes_per_input(skeleton: Skeleton, working_px: int, settings: CropSettings) -> int:
    """Return the largest number of nodes in a square window of the network's input size."""
    assert skeleton.image_size is not None
    factor = working_px / max(skeleton.image_size)
    size = tuple(max(1, round(side * factor)) for side in skeleton.image_size)
    scaled = skeleton.transform([[factor, 0, 0], [0, factor, 0]], image_size=(size[0], size[1]))
    nodes = with_target_nodes(scaled, settings).nodes
    if not len(nodes):
        return 0
    half = settings.side / 2
    cells = np.floor(nodes / half).astype(np.intp).clip(min=0)
    counts = np.zeros(cells.max(axis=0) + 2, dtype=np.intp)
    np.add.at(counts, (cells[:, 0], cells[:, 1]), 1)
    windows = counts[:-1, :-1] + counts[1:, :-1] + counts[:-1, 1:] + counts[1:, 1:]
    return int(windows.max())


def make_schedule(
    speed: Speed,
    seconds: float,
    *,
    images: int,
    validated: bool,
    max_crops: int,
    spent: float = 0.0,
    batch_size: int = BATCH_SIZE,
    uses_per_crop: int = USES_PER_CROP,
) -> Schedule:
    """Fit features, training, validations and export into the seconds that are left, after those that are spent."""
    per_crop = speed.features + uses_per_crop * speed.image_step
    for validations in range(VALIDATIONS if validated else 2, 1, -1):  # fewer of them if they are slow
        free = seconds - speed.export - validations * speed.validation
        crops = min(int(free / per_crop), MAX_CROPS_PER_IMAGE * images * 5 // 4, max_crops)
        if crops >= MIN_CROPS and validations * speed.validation <= MAX_VALIDATION_SHARE * (seconds - speed.export):
            break
    if max_crops < MIN_CROPS:
        raise TreeformerError("the disk is too full for the features of the images")
    if crops < MIN_CROPS:
        needed = spent + seconds - free + MIN_CROPS * per_crop
        raise TreeformerError(
            f"the time limit is too short: at its present load, this machine needs at least "
            f"{math.ceil(needed / 60)} minutes (--max-minutes)"
        )
    most = MAX_IMAGE_STEPS if validated else MAX_IMAGE_STEPS_ALONE
    image_steps = min(max(int((free - crops * speed.features) / speed.image_step), MIN_IMAGE_STEPS), most)
    image_steps = min(image_steps, 4 * uses_per_crop * crops)
    steps = max(1, image_steps // batch_size)
    total = crops * speed.features + steps * batch_size * speed.image_step
    total += validations * speed.validation + speed.export
    return Schedule(crops, steps, batch_size, max(1, math.ceil(steps / (validations - 1))), total)


def timed(clock: Callable[[], float], work: Callable[[], object]) -> float:
    """Return how long a call takes."""
    started = clock()
    work()
    return clock() - started
