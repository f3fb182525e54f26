"""`python -m treeformer.data OUT`: `treeformer generate` without the packages of the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from treeformer._util.arguments import OneLineParser
from treeformer._util.cores import usable_cores
from treeformer._util.files import check_writable
from treeformer.data.generate import generate
from treeformer.errors import TreeformerError


def run(argv: Sequence[str]) -> None:
    """Parse the arguments and write a folder of synthetic images."""
    parser = OneLineParser(prog="python -m treeformer.data", description=__doc__)
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--preset", default="paper", help="kind of plant (default: paper)")
    parser.add_argument("--style", default="paper", help="paper or photo (default: paper)")
    parser.add_argument("--count", type=int, default=100, help="number of images (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first image (default: 0)")
    parser.add_argument("--size", type=int, default=512, help="side of the square images, px (default: 512)")
    parser.add_argument("--jpeg", action="store_true", help="write JPEG files, which are smaller and faster to read")
    parser.add_argument("--workers", type=int, default=usable_cores(), help="processes (default: all cores)")
    arguments = parser.parse_args(argv)
    check_writable(arguments.out)
    report = generate(
        arguments.out,
        preset=arguments.preset,
        style=arguments.style,
        count=arguments.count,
        seed=arguments.seed,
        size=(arguments.size, arguments.size),
        workers=arguments.workers,
        suffix="jpg" if arguments.jpeg else "png",
    )
    print(report)


def main(argv: Sequence[str]) -> None:
    """Run the command. A mistake is one line on standard error and exit code 2."""
    try:
        run(argv)
    except TreeformerError as error:
        print(f"treeformer: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main(sys.argv[1:])
