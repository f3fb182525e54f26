"""backgrounds: photographs of orchards in leaf, sky, grass, soil and crops, without annotated plants.

They stand behind rendered plants (`treeformer generate --backgrounds`), and they are negatives: their skeletons are
empty, although the orchards show trees, because no tree in them stands alone in front.
"""

from __future__ import annotations

import csv
from pathlib import Path

from treeformer._util.files import sha256
from treeformer.data.prepare.public_set import PublicSet, SourceImage
from treeformer.data.sample import Skipped
from treeformer.errors import TreeformerError

SOURCES = "SOURCES.csv"
FROM_ABOVE = ("vegann",)  # beginnings of the names of data sets whose photographs show the ground from above
HELD_OUT_EVERY = 5  # every fifth image is kept out of training, in turn for validation and for testing


def find(source: Path) -> tuple[list[SourceImage], list[Skipped]]:
    """Find the images that `SOURCES.csv` lists; missing files and copies of other images are skipped."""
    try:
        with (source / SOURCES).open(encoding="utf-8", newline="") as file:
            rows = [(row["file"], row["dataset"]) for row in csv.DictReader(file)]
    except (OSError, KeyError, UnicodeDecodeError, csv.Error) as error:
        raise TreeformerError(f"{source / SOURCES}: cannot be read ({error})") from None
    images: list[SourceImage] = []
    skipped: list[Skipped] = []
    known: dict[str, str] = {}
    for number, (name, data_set) in enumerate(rows):
        if not (source / name).is_file():
            skipped.append(Skipped(name, f"{name}: no such file"))
            continue
        first = known.setdefault(sha256(source / name), name)
        if first != name:
            skipped.append(Skipped(name, f"{name}: the same image as {first}"))
            continue
        turn, rest = divmod(number, HELD_OUT_EVERY)
        split = "train" if rest < HELD_OUT_EVERY - 1 else ("valid", "test")[turn % 2]
        view = "above" if data_set.lower().startswith(FROM_ABOVE) else "side"
        images.append(SourceImage(source / name, None, split, view))
    return images, skipped


BACKGROUNDS = PublicSet(name="backgrounds", license="CC BY 4.0", size=544, spacing_px=0.0, find=find)
