"""Draw a contact sheet of a folder data set: images on the left, with their skeletons on the right."""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

from treeformer import formats
from treeformer.data.folder_dataset import find_pairs
from treeformer.draw import draw


def main() -> None:
    """Parse the command line and write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the data set")
    parser.add_argument("out", type=Path, help="image file to write")
    parser.add_argument("--first", type=int, default=0, help="number of images to skip")
    parser.add_argument("--count", type=int, default=8, help="number of images")
    parser.add_argument("--columns", type=int, default=2, help="pairs per row")
    parser.add_argument("--side", type=int, default=384, help="side of each image, px")
    options = parser.parse_args()
    pairs = find_pairs(options.folder)[0][options.first : options.first + options.count]
    side = options.side
    sheet = Image.new("RGB", (2 * side * options.columns, side * -(-len(pairs) // options.columns)))
    for index, (image_file, skeleton_file) in enumerate(pairs):
        image = Image.open(image_file).convert("RGB")
        row, column = divmod(index, options.columns)
        for half, shown in enumerate((image, draw(image, formats.read(skeleton_file)))):
            sheet.paste(shown.resize((side, side)), ((2 * column + half) * side, row * side))
    sheet.save(options.out)


if __name__ == "__main__":
    main()
