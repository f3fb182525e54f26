"""barley-roots: seedlings on gray paper, one to three per plate, each with several roots from a seed (TILLMore-CDC)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.data.folder_dataset import find_pairs
from treeformer.data.prepare.lines import JUNCTION_PX, Line, without
from treeformer.data.prepare.public_set import Notes, PublicSet, SourceImage
from treeformer.data.sample import Skipped

# 426 and 426R show the same plate on two dates.
PLATE = r"\d+"
VALIDATION_PLATES = 10
# Maximum distance between the two sides of a seed, where the roots of one plant may begin.
SEED_PX = 20.0


def find(source: Path) -> tuple[list[SourceImage], list[Skipped]]:
    """Find the images in the folders `train` and `test`, and files without a partner.

    Ten plates of `train` are used for validation.
    """
    images: list[SourceImage] = []
    skipped: list[Skipped] = []
    for folder in ("train", "test"):
        if (source / folder).is_dir():
            pairs, unpaired = find_pairs(source / folder, f"{folder}/")
            skipped += unpaired
            held_out = validation_plates([image for image, _ in pairs]) if folder == "train" else set()
            for image, annotation in pairs:
                split = "valid" if plate_number(image) in held_out else folder
                images.append(SourceImage(image, annotation, split))
    return images, skipped


def plate_number(image: Path) -> str:
    """Return the number at the beginning of an image's name, otherwise the whole stem."""
    number = re.match(PLATE, image.stem)
    return number[0] if number else image.stem


def validation_plates(images: Sequence[Path]) -> set[str]:
    """Choose ten plates, evenly spaced in numerical order, so that they include every series of the data set."""
    plates = sorted({plate_number(image) for image in images}, key=lambda plate: (len(plate), plate))
    count = min(VALIDATION_PLATES, len(plates) // 2)
    return {plates[(2 * k + 1) * len(plates) // (2 * count)] for k in range(count)}


def clean(lines: list[Line]) -> tuple[list[Line], Notes]:
    """Assign every tip to one plant, and give every plant one base."""
    notes = Notes()
    false_traces = find_false_traces(lines)
    if false_traces:
        lines = without(lines, false_traces)
        notes.dropped.append(
            f"roots traced to the tip of another plant's root, on a way with more bends: {len(false_traces)}"
        )
    lines, joined = join_bases(lines)
    if joined:
        notes.changed.append(f"roots that begin beside their plant's first point, joined to it: {joined}")
    return lines, notes


def find_false_traces(lines: Sequence[Line]) -> set[int]:
    """Return the indices of roots that end in the same tip as a straighter root of another plant.

    Where roots cross, some images have a root that is traced from the wrong seed, or from several seeds: on plate 426
    every tip is traced from all three seeds. A real root bends little. A trace that changes roots at a crossing bends
    much.
    """
    by_tip: dict[tuple[float, float], list[int]] = {}
    for index, line in enumerate(lines):
        x, y = line.points[-1].tolist()
        by_tip.setdefault((x, y), []).append(index)
    false_traces: set[int] = set()
    for traces in by_tip.values():
        straightest = min(traces, key=lambda index: bending(lines[index].points))
        false_traces |= {index for index in traces if lines[index].plant != lines[straightest].plant}
    return false_traces


def bending(points: FloatArray) -> float:
    """Return the sum of the absolute angles between successive steps of a line, points (P,2), in radians."""
    step = np.diff(points, axis=0)
    step = step[np.hypot(step[:, 0], step[:, 1]) > 0]
    before, after = step[:-1], step[1:]
    turn = np.arctan2(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0], (before * after).sum(axis=1))
    return float(np.abs(turn).sum())


def join_bases(lines: Sequence[Line]) -> tuple[list[Line], int]:
    """Give every plant one base; return also the number of lines that were connected.

    If the roots of a plant begin at two sides of the seed, the smaller group is connected to the larger.
    """
    result = list(lines)
    joined = 0
    for plant in sorted({line.plant for line in lines}):
        groups: dict[tuple[float, float], list[int]] = {}
        for index, line in enumerate(lines):
            if line.plant == plant and line.parent is None:
                x, y = line.points[0].tolist()
                groups.setdefault((x, y), []).append(index)
        (base, _), *rest = sorted(groups.items(), key=lambda group: -len(group[1]))
        for other_base, (first, *others) in rest:
            distance = float(np.hypot(other_base[0] - base[0], other_base[1] - base[1]))
            if distance > SEED_PX:
                continue
            points = result[first].points[1:] if distance <= JUNCTION_PX else result[first].points
            result[first] = replace(result[first], points=np.concatenate([[base], points]))
            for index in others:
                if distance <= JUNCTION_PX:
                    result[index] = replace(result[index], points=np.concatenate([[base], result[index].points[1:]]))
                else:
                    result[index] = replace(result[index], parent=first)
            joined += 1 + len(others)
    return result, joined


BARLEY_ROOTS = PublicSet(
    name="barley-roots",
    license="GPL-3.0",
    size=512,  # of about 1,540: the roots, about 10 px wide, become 3 px wide
    spacing_px=8.0,
    find=find,
    clean=clean,
    plate=PLATE,
)
