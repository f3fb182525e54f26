"""Fit the attribute head of a model that has none, on the CPU. No other weight changes.

PYTHONPATH=src:. python benchmarks/fit_attributes.py --model default --images 600 -o fitted.safetensors
treeformer export fitted.safetensors -o models/with-radii

The head is one linear layer on the decoder's tokens, so ridge regression finds its best weights in closed form. Tokens
are matched to the nodes of rendered training images, drawn from `--presets` in both styles, half of them at a zoom of
0.5 to 2. The penalty is chosen on every fifth image. Then the errors on rendered validation images are printed: the
median error of radii of 2 px and more as a fraction, that of thinner ones in px, and the median angle between the
predicted and the true direction to the parent. Nothing else is measured: the nodes are matched ones.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from treeformer import synthetic
from treeformer.data.config import DataConfig, SourceConfig
from treeformer.data.mixture import EvalDataset, MixtureDataset
from treeformer.data.sample import Sample
from treeformer.errors import TreeformerError
from treeformer.models import TreeFormer, from_pretrained
from treeformer.nn.attributes import ATTRIBUTES, encode_radius
from treeformer.nn.targets import Targets
from treeformer.training.checkpoint import load_weights, write_tensors

FloatArray = NDArray[np.float64]
PRESETS = tuple(preset for preset in synthetic.PRESETS if preset != "empty")
GRID_PX = 44.0  # where the default model has the nodes of curves; drawings keep their own
MIN_PEAK_HEAT = 0.03  # that of the default model
MAX_DISTANCE_PX = 8.0  # a token further from its node has not found it
PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # relative to the mean square of a feature, per row
THICK_PX = 2.0


@dataclass(frozen=True)
class Rows:
    """Matched tokens: features (N,width), and targets (N,3), NaN if unknown."""

    features: FloatArray
    targets: FloatArray


@torch.no_grad()
def matched_rows(model: TreeFormer, sample: Sample) -> Rows:
    """Return the tokens of an image that found a node, with the attributes of that node."""
    targets = Targets.from_skeletons([sample.skeleton])
    pixels = torch.from_numpy(np.ascontiguousarray(sample.image.transpose(2, 0, 1)))[None].float() / 255
    found = model.detect(pixels, min_peak_heat=MIN_PEAK_HEAT)
    logits, points = found.decoded.node_logits[-1], found.decoded.points[-1]
    matching = model.match(logits, points, targets)
    token = matching.token[0]
    near = (points[0, token] - targets.points[0]).norm(dim=-1) <= MAX_DISTANCE_PX
    kept = matching.found[0] & near & targets.mask[0]
    assert targets.radius is not None and targets.direction is not None  # noqa: PT018
    values = torch.cat([encode_radius(targets.radius[0])[:, None], targets.direction[0]], dim=1)
    return Rows(found.decoded.tokens[0, token[kept]].double().numpy(), values[kept].double().numpy())


class NormalEquations:
    """Sums of a linear regression with an intercept; each output has its own, because targets may be unknown."""

    def __init__(self, width: int) -> None:
        self.gram = np.zeros((ATTRIBUTES, width + 1, width + 1))
        self.moment = np.zeros((ATTRIBUTES, width + 1))

    def add(self, rows: Rows) -> None:
        """Add rows."""
        extended = np.pad(rows.features, ((0, 0), (0, 1)), constant_values=1.0)
        for output, target in enumerate(rows.targets.T):
            known = np.isfinite(target)
            self.gram[output] += extended[known].T @ extended[known]
            self.moment[output] += extended[known].T @ target[known]

    def solve(self, penalty: float) -> tuple[FloatArray, FloatArray]:
        """Return weight (3,width) and bias (3,). The penalty is relative to the mean square of a feature."""
        solutions = []
        for gram, moment in zip(self.gram, self.moment, strict=True):
            ridge = np.full(len(gram), penalty * np.trace(gram[:-1, :-1]) / (len(gram) - 1))
            ridge[-1] = 0.0  # the intercept is free
            solutions.append(np.linalg.lstsq(gram + np.diag(ridge), moment, rcond=None)[0])
        solution = np.stack(solutions)
        return solution[:, :-1], solution[:, -1]


def squared_error(rows: Iterable[Rows], weight: FloatArray, bias: FloatArray) -> FloatArray:
    """Return the mean squared error of each output over the known targets, (3,)."""
    total, count = np.zeros(ATTRIBUTES), np.zeros(ATTRIBUTES)
    for row in rows:
        error = row.features @ weight.T + bias - row.targets
        total += np.nansum(error**2, axis=0)
        count += np.isfinite(error).sum(axis=0)
    return total / np.maximum(count, 1)


def fit(rows: list[Rows]) -> tuple[FloatArray, FloatArray, list[float]]:
    """Choose the penalty of each output on every fifth image, then fit all images.

    Args:
        rows: matched tokens, one entry per image.

    Returns:
        Weight (3,width), bias (3,), and the penalties.
    """
    width = rows[0].features.shape[1]
    some, everything = NormalEquations(width), NormalEquations(width)
    for number, row in enumerate(rows):
        everything.add(row)
        if number % 5:
            some.add(row)
    errors = np.stack([squared_error(rows[::5], *some.solve(penalty)) for penalty in PENALTIES])
    best = [PENALTIES[index] for index in errors.argmin(axis=0)]
    weight, bias = np.empty((ATTRIBUTES, width)), np.empty(ATTRIBUTES)
    for output, penalty in enumerate(best):
        weights, biases = everything.solve(penalty)
        weight[output], bias[output] = weights[output], biases[output]
    return weight, bias, best


def training_images(presets: tuple[str, ...], count: int, size: int, max_nodes: int) -> Iterator[Sample]:
    """Yield rendered training images: half of them whole, half at a zoom of 0.5 to 2."""
    drawings = tuple(preset for preset in presets if preset == "paper")
    plants = tuple(preset for preset in presets if preset != "paper")
    sources = []
    for names, grid in ((drawings, 0.0), (plants, GRID_PX)):
        if names:
            plain = SourceConfig(weight=len(names), presets=names, styles=("photo", "paper"), grid_px=grid)
            sources += [plain, replace(plain, augmentation="strong", zoom=(0.5, 2.0))]
    stream = MixtureDataset(sources, DataConfig(image_size=size, max_nodes=max_nodes), seed=1)
    for position in range(count):
        yield stream[position][0]


def measure(model: TreeFormer, preset: str, style: str, count: int, size: int) -> dict[str, float]:
    """Return the errors on rendered validation images.

    Args:
        model: the model with a fitted head.
        preset: name of the plant preset.
        style: name of the image style.
        count: number of images.
        size: side of the images, px.

    Returns:
        Median relative error of thick radii, median error of thin ones in px, their numbers, median angle in degrees.
    """
    assert model.attribute_head is not None
    weight, bias = (
        tensor.detach().double().numpy() for tensor in (model.attribute_head.weight, model.attribute_head.bias)
    )
    grid = 0.0 if preset == "paper" else GRID_PX
    source = SourceConfig(presets=(preset,), styles=(style,), split="valid", count=count, grid_px=grid)
    images = EvalDataset([source], DataConfig(image_size=size, max_nodes=model.config.tokens))
    found, true = [], []
    for index in range(len(images)):
        sample, _ = images[index]
        if sample is not None:
            rows = matched_rows(model, sample)
            found.append(rows.features @ weight.T + bias)
            true.append(rows.targets)
    predicted, target = np.concatenate(found), np.concatenate(true)
    radius, target_radius = np.exp(predicted[:, 0]) - 0.5, np.exp(target[:, 0]) - 0.5
    error, thick = np.abs(radius - target_radius), target_radius >= THICK_PX
    cosine = (predicted[:, 1:] * target[:, 1:]).sum(1) / np.maximum(np.linalg.norm(predicted[:, 1:], axis=1), 1e-9)
    return {
        "thick, n": int(thick.sum()),
        "thick, relative": _median((error / target_radius)[thick]),
        "thin, n": int((target_radius < THICK_PX).sum()),
        "thin, px": _median(error[target_radius < THICK_PX]),
        "direction, deg": _median(np.degrees(np.arccos(np.clip(cosine[np.isfinite(cosine)], -1, 1)))),
    }


def _median(values: FloatArray) -> float:
    return float(np.median(values)) if len(values) else float("nan")


def with_head(model: TreeFormer, weight: FloatArray, bias: FloatArray) -> TreeFormer:
    """Return a model with the same weights and a fitted attribute head.

    Args:
        model: a model, with or without an attribute head.
        weight: (3,width).
        bias: (3,).

    Returns:
        The new model.
    """
    result = TreeFormer(replace(model.config, node_attributes=True))
    load_weights(result, model.state_dict(), Path("the model"), may_miss=TreeFormer.new_parts)
    assert result.attribute_head is not None
    with torch.no_grad():
        result.attribute_head.weight.copy_(torch.from_numpy(weight))
        result.attribute_head.bias.copy_(torch.from_numpy(bias))
    return result.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default", help="model folder")
    parser.add_argument("--presets", nargs="+", default=PRESETS, choices=PRESETS, metavar="PRESET")
    parser.add_argument("--images", type=int, default=600, help="rendered training images")
    parser.add_argument("--valid", type=int, default=20, help="validation images per preset and style")
    parser.add_argument("--size", type=int, default=512, help="side of the images, px")
    parser.add_argument("-o", "--output", type=Path, required=True, help="safetensors file for treeformer export")
    arguments = parser.parse_args()
    model = from_pretrained(arguments.model).requires_grad_(False)
    presets, size = tuple(arguments.presets), arguments.size
    rows = []
    for number, sample in enumerate(training_images(presets, arguments.images, size, model.config.tokens), start=1):
        rows.append(matched_rows(model, sample))
        if number % 50 == 0:
            print(f"{number} of {arguments.images} images", file=sys.stderr, flush=True)
    weight, bias, penalties = fit(rows)
    fitted = with_head(model, weight, bias)
    metadata = {"config": json.dumps(asdict(fitted.config)), "start_from": str(arguments.model)}
    write_tensors(arguments.output, fitted.state_dict(), metadata)
    print(f"{sum(len(row.features) for row in rows)} nodes of {len(rows)} images, penalties {penalties}")
    print("| preset | style | radii of 2 px and more | median error | thinner radii | median error | direction |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for preset in presets:
        for style in synthetic.STYLES if arguments.valid else ():
            result = measure(fitted, preset, style, arguments.valid, size)
            print(
                f"| {preset} | {style} | {result['thick, n']} | {100 * result['thick, relative']:.1f} % "
                f"| {result['thin, n']} | {result['thin, px']:.2f} px | {result['direction, deg']:.0f}° |",
                flush=True,
            )


if __name__ == "__main__":
    try:
        main()
    except TreeformerError as error:
        sys.exit(f"fit_attributes: {error}")
