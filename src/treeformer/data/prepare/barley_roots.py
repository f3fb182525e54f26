"""barley-roots: seedlings on gray paper, one to three a plate, each a star of roots from its seed (TILLMore-CDC)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.data.datasets import Skipped, find_pairs
from treeformer.data.prepare.lines import JUNCTION_PX, Line, without
from treeformer.data.prepare.public_set import Notes, PublicSet, SourceImage

# 426 and 426R are one plate on two dates.
PLATE = r"\d+"
VALIDATION_PLATES = 10
# The first points of a plant's roots, where they differ, are the two sides of its seed, at most so far apart.
SEED_PX = 20.0


def find(source: Path) -> tuple[list[SourceImage], list[Skipped]]:
    """The set has `train` and `test`; ten plates of `train`, evenly over their numbers, become `valid`."""
    found: list[SourceImage] = []
    skipped: list[Skipped] = []
    for folder in ("train", "test"):
        if (source / folder).is_dir():
            pairs, alone = find_pairs(source / folder, f"{folder}/")
            skipped += alone
            held_out = validation_plates([image for image, _ in pairs]) if folder == "train" else set()
            for image, annotation in pairs:
                split = "valid" if plate_number(image) in held_out else folder
                found.append(SourceImage(image, annotation, split))
    return found, skipped


def plate_number(image: Path) -> str:
    """The number an image's name begins with."""
    number = re.match(PLATE, image.stem)
    return number[0] if number else image.stem


def validation_plates(images: Sequence[Path]) -> set[str]:
    """Ten plates, evenly over the plates in order of number, so that every series of the set is among them."""
    plates = sorted({plate_number(image) for image in images}, key=lambda plate: (len(plate), plate))
    count = min(VALIDATION_PLATES, len(plates) // 2)
    return {plates[(2 * k + 1) * len(plates) // (2 * count)] for k in range(count)}


def clean(lines: list[Line]) -> tuple[list[Line], Notes]:
    """One plant a tip, one base a plant."""
    notes = Notes()
    rivals = rival_claims(lines)
    if rivals:
        lines = without(lines, rivals)
        notes.dropped.append(
            f"roots traced to the tip of another plant's root, on a way with more bends: {len(rivals)}"
        )
    lines, joined = one_base_a_plant(lines)
    if joined:
        notes.changed.append(f"roots that begin beside their plant's first point, joined to it: {joined}")
    return lines, notes


def rival_claims(lines: Sequence[Line]) -> set[int]:
    """The roots that end in a tip which another plant's root reaches on a straighter way.

    Where roots cross, some images have a root traced from the wrong seed, or one from each: plate 426 has every
    tip traced from all three seeds. A root bends little, a trace that changes over at a crossing much.
    """
    by_tip: dict[tuple[float, float], list[int]] = {}
    for index, line in enumerate(lines):
        x, y = line.points[-1].tolist()
        by_tip.setdefault((x, y), []).append(index)
    rivals: set[int] = set()
    for claims in by_tip.values():
        straightest = min(claims, key=lambda index: bending(lines[index].points))
        rivals |= {index for index in claims if lines[index].plant != lines[straightest].plant}
    return rivals


def bending(points: FloatArray) -> float:
    """The angles between successive steps of a line, summed, in radians."""
    step = np.diff(points, axis=0)
    step = step[np.hypot(step[:, 0], step[:, 1]) > 0]
    before, after = step[:-1], step[1:]
    turn = np.arctan2(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0], (before * after).sum(axis=1))
    return float(np.abs(turn).sum())


def one_base_a_plant(lines: Sequence[Line]) -> tuple[list[Line], int]:
    """Where a plant's roots begin at two sides of its seed, the smaller group is led to the larger's base; how many."""
    made = list(lines)
    joined = 0
    for plant in sorted({line.plant for line in lines}):
        groups: dict[tuple[float, float], list[int]] = {}
        for index, line in enumerate(lines):
            if line.plant == plant and line.parent is None:
                x, y = line.points[0].tolist()
                groups.setdefault((x, y), []).append(index)
        (base, _), *rest = sorted(groups.items(), key=lambda group: -len(group[1]))
        for other, (first, *others) in rest:
            apart = float(np.hypot(other[0] - base[0], other[1] - base[1]))
            if apart > SEED_PX:
                continue
            beyond = made[first].points[1:] if apart <= JUNCTION_PX else made[first].points
            made[first] = replace(made[first], points=np.concatenate([[base], beyond]))
            for index in others:
                if apart <= JUNCTION_PX:
                    made[index] = replace(made[index], points=np.concatenate([[base], made[index].points[1:]]))
                else:
                    made[index] = replace(made[index], parent=first)
            joined += 1 + len(others)
    return made, joined


BARLEY_ROOTS = PublicSet(
    name="barley-roots",
    license="GPL-3.0",
    size=512,  # of about 1,540: the roots, some 10 px across, are then 3 px
    spacing_px=8.0,
    find=find,
    clean=clean,
    plate=PLATE,
)
