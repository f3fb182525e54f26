"""Choose everything that a user would otherwise have to choose: scale, tokens, split, crops, steps, learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from treeformer._util.files import sha256
from treeformer.data.recipe import RECIPE_NAME, read_recipe
from treeformer.data.splits import plate_rule
from treeformer.errors import TreeformerError
from treeformer.finetuning.annotated import AnnotatedImage, Survey
from treeformer.finetuning.crops import CropSettings, most_nodes_per_input
from treeformer.hub.model_folder import ModelSettings, ScaleRule
from treeformer.inference.auto_scale import choose_working_size

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


@dataclass(frozen=True)
class Split:
    """Training and validation images. No plate and no image is in both.

    Attributes:
        train: images that the network is trained on.
        valid: images that choose the best weights. Empty if there is only one plate.
    """

    train: tuple[AnnotatedImage, ...]
    valid: tuple[AnnotatedImage, ...]


@dataclass(frozen=True)
class Speed:
    """Times measured on this machine, s.

    Attributes:
        features: computing the features of one crop.
        image_step: forward and backward pass of one crop.
        validation: one validation.
        export: writing and checking the model folder.
    """

    features: float
    image_step: float
    validation: float
    export: float


@dataclass(frozen=True)
class Schedule:
    """How long to train.

    Attributes:
        crops: number of crops whose features are computed once and then reused.
        steps: optimizer steps.
        batch_size: crops per step.
        validate_every: steps between two validations.
        seconds: estimated time of the whole run from here on, s.
    """

    crops: int
    steps: int
    batch_size: int
    validate_every: int
    seconds: float


def split_images(survey: Survey, seed: int) -> Split:
    """Divide the images into training and validation by plate.

    Images show the same plate if their names agree in the part that the pattern `plate` in the folder's dataset.yaml
    matches, also in different sub-folders. Without a pattern, every image is its own plate. A copy of an image is on
    the plate of the image, whatever its name.

    Args:
        survey: the images.
        seed: seed of the random choice.

    Returns:
        The split. With plants on a single plate only, there is no validation image.

    Raises:
        TreeformerError: if no image is usable, or none shows a plant.
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

    Args:
        images: the images.
        settings: the model.

    Returns:
        Length to which the longer side of each image is scaled, px. Images are enlarged only to the input size.
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
    """Return what the crops of a run are like, before the number of tokens is chosen.

    Args:
        settings: the model.
        seed: seed of all crops.

    Returns:
        The settings, with the nodes of curves where the model places them.
    """
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
    """Choose the number of tokens: enough for the densest input, and not fewer than the start model has.

    Args:
        images: the images.
        working_px: working size of each, px.
        crops: side of the input and spacing of the nodes.
        start_tokens: tokens of the start model.

    Returns:
        The number of tokens, a multiple of 64 if it exceeds that of the start model.
    """
    most = max(
        most_nodes_per_input(image.skeleton, size, crops) for image, size in zip(images, working_px, strict=True)
    )
    needed = TOKEN_STEP * math.ceil(TOKEN_RESERVE * most / TOKEN_STEP)
    return max(start_tokens, min(needed, MAX_TOKENS))


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
    """Fit features, training, validations and export into a time limit.

    Args:
        speed: times measured on this machine.
        seconds: the time that is left, s.
        images: number of training images.
        validated: whether there are validation images.
        max_crops: largest number of crops that the disk can hold.
        spent: time since the beginning of the run, s. It belongs to the limit that an error names.
        batch_size: crops per step.
        uses_per_crop: how many times each crop is used on average.

    Returns:
        The schedule.

    Raises:
        TreeformerError: if the time is too short for anything.
    """
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
    """Return how long a call takes.

    Args:
        clock: returns the time, s.
        work: the call.

    Returns:
        The time, s.
    """
    started = clock()
    work()
    return clock() - started
