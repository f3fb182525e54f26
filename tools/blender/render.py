"""Render labeled plants with Blender into a folder data set. See README.md in this folder."""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plantscenes import assets
from plantscenes.develop import develop, jpeg
from plantscenes.layout import SCENES, plan, stream

from treeformer import formats
from treeformer._util.files import atomic_write_bytes
from treeformer.data.folder_dataset import has_pair
from treeformer.data.recipe import claim, write_recipe
from treeformer.errors import TreeformerError

DEFAULT_ASSETS = Path("~/.cache/treeformer-blender")
SIZE = (512, 512)
# Part of `dataset.yaml`: raise it if a change alters the images, so that old and new ones are not mixed.
RECIPE_VERSION = 3


@contextmanager
def reserved(folder: Path, stem: str) -> Iterator[bool]:
    """Reserve an image for this process until the end of the block; yield False if another process is rendering it.

    The lock disappears with the process that holds it.
    """
    path = folder / f".{stem}.lock"
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        try:
            yield True
        finally:
            path.unlink(missing_ok=True)


def render_one(scene: str, seed: int, folder: Path, textures: Path, samples: int) -> None:
    """Render one image and write it with its skeleton. The skeleton is written last."""
    from plantscenes import stage

    planned = plan(scene, seed, SIZE)
    image = develop(stage.render(planned, seed, textures, samples), stream(scene, seed, "camera"))
    name = f"{seed:06d}.jpg"
    atomic_write_bytes(folder / name, jpeg(image))
    formats.write(planned.skeleton.replace(image_name=name), folder / f"{seed:06d}.json")


def main() -> int:
    """Parse the command line and render all missing images."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the data set")
    parser.add_argument("--scene", choices=SCENES, required=True)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first image")
    parser.add_argument("--count", type=int, required=True, help="number of images")
    parser.add_argument("--samples", type=int, default=3, help="samples per pixel")
    parser.add_argument("--assets", type=Path, default=DEFAULT_ASSETS, help="folder for downloaded textures")
    options = parser.parse_args()
    textures = options.assets.expanduser().resolve()
    recipe = {
        "made_by": "tools/blender",
        "version": RECIPE_VERSION,
        "scene": options.scene,
        "seed": options.seed,
        "count": options.count,
        "size": list(SIZE),
        "samples": options.samples,
        "suffix": "jpg",
    }
    try:
        if options.count < 1 or options.seed < 0:
            raise TreeformerError("the count must be at least 1 and the seed at least 0")
        assets.unpack(textures)
        previous = claim(options.out, recipe, may_differ=("count",))
        if previous is not None and previous.get("count", 0) < options.count:
            write_recipe(options.out, recipe)
        _render_all(options, textures)
    except TreeformerError as error:
        print(f"render: {error}", file=sys.stderr)
        return 2
    return 0


def _render_all(options: argparse.Namespace, textures: Path) -> None:
    for number in range(options.count):
        seed = options.seed + number
        stem = f"{seed:06d}"
        if has_pair(options.out, stem, suffix="jpg"):
            continue
        with reserved(options.out, stem) as free:
            if not free or has_pair(options.out, stem, suffix="jpg"):
                continue
            begin = time.process_time()
            with _quiet():
                render_one(options.scene, seed, options.out, textures, options.samples)
            print(f"{options.scene} {stem}: {time.process_time() - begin:.1f} CPU s", flush=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """Discard what Blender prints; it writes to the file descriptor itself."""
    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
