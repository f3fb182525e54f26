"""Measure synthetic images per second by preset and style, on one core and on all, and profile them.

Run as: PYTHONPATH=src python benchmarks/synthetic.py [--count 60] [--processes 16] [--size 512] [--presets vine plate]
or, for a contact sheet of all presets and styles: PYTHONPATH=src python benchmarks/synthetic.py --sheet sheet.webp
"""

from __future__ import annotations

import argparse
import cProfile
import multiprocessing
import os
import platform
import pstats
import time
from collections.abc import Sequence
from pathlib import Path

import numpy
import PIL
from PIL import Image

from treeformer._util.image_output import write_image
from treeformer.synthetic import PRESETS, STYLES, generate, make_image

FIRST_SEED = 1000


def one_core(preset: str, style: str, count: int, size: tuple[int, int]) -> tuple[float, float]:
    """Measure milliseconds of processor time per image: in total, and for the skeleton alone."""
    begin = time.process_time()
    for seed in range(count):
        generate(preset, FIRST_SEED + seed, size=size)
    middle = time.process_time()
    for seed in range(count):
        make_image(preset, style, FIRST_SEED + seed, size)
    return (time.process_time() - middle) / count * 1000, (middle - begin) / count * 1000


def warm_up(size: tuple[int, int], presets: Sequence[str]) -> None:
    """Create the cached noise tiles before the measurement. Each is created on first use."""
    for preset in presets:
        for seed in range(60):
            make_image(preset, "photo", seed, size)


def one_tiny_image(preset: str) -> None:
    """Make an image, which waits until a new process has its tiles."""
    make_image(preset, "photo", 0, (64, 64))


def work(job: tuple[str, str, int, int, tuple[int, int]]) -> int:
    preset, style, first, count, size = job
    return sum(len(make_image(preset, style, seed, size)[0]) > 0 for seed in range(first, first + count))


def all_cores(
    pool: multiprocessing.pool.Pool, processes: int, preset: str, style: str, count: int, size: tuple[int, int]
) -> float:
    """Measure images per second of wall time in a pool of processes."""
    chunk = 10
    jobs = [(preset, style, FIRST_SEED + k * chunk, chunk, size) for k in range(max(1, count // chunk) * processes)]
    begin = time.perf_counter()
    images = sum(pool.imap_unordered(work, jobs))
    return images / (time.perf_counter() - begin)


def print_profile(size: tuple[int, int], count: int, presets: Sequence[str]) -> None:
    """Print the functions that take most of the time of style "photo" over some presets."""
    profile = cProfile.Profile()
    profile.enable()
    for preset in presets:
        for seed in range(count):
            make_image(preset, "photo", FIRST_SEED + seed, size)
    profile.disable()
    rows = []
    for (file, _, name), (_, calls, own, whole, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        rows.append((own, whole, calls, f"{Path(file).name}:{name}" if "synthetic" in file else name))
    total = sum(row[0] for row in rows)
    images = len(presets) * count
    print(f"\nprofile of style photo ({images} images; the profiler slows small calls down)")
    print(f"{'own':>5} {'with callees':>17} {'calls per image':>16}   function")
    for own, whole, calls, name in sorted(rows, reverse=True)[:18]:
        print(f"{own / total:5.1%} {whole / total:17.1%} {calls / images:16.1f}   {name[:70]}")


def write_sheet(path: Path) -> None:
    """Write a contact sheet: one row per preset, one image of style "paper" and six of style "photo"."""
    columns, side = 7, 144
    sheet = Image.new("RGB", (columns * side, len(PRESETS) * side))
    for row, preset in enumerate(PRESETS):
        for column in range(columns):
            array, _ = make_image(preset, "photo" if column else "paper", FIRST_SEED + column)
            sheet.paste(
                Image.fromarray(array).resize((side, side), Image.Resampling.LANCZOS), (column * side, row * side)
            )
    write_image(sheet, path, quality=70, optimize=True)
    print(f"{path}: rows {', '.join(PRESETS)}; style paper first, then photo; seeds {FIRST_SEED} to {FIRST_SEED + 6}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="images per preset and style, in each process")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--size", type=int, default=512, help="side of the square images, px")
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=PRESETS, metavar="PRESET")
    parser.add_argument("--sheet", type=Path, help="write a contact sheet to this file and measure nothing")
    options = parser.parse_args()
    if options.sheet:
        write_sheet(options.sheet)
        return
    size = (options.size, options.size)
    print(
        f"{platform.machine()}, Python {platform.python_version()}, NumPy {numpy.__version__}, Pillow {PIL.__version__}"
    )
    print(f"{options.size}×{options.size}, {options.count} images each, {options.processes} processes\n")
    head = f"{'preset':14s} {'style':6s} {'CPU ms per image':>17} {'skeleton alone':>15} {'one core':>10} {'all':>10}"
    print(head + "   images per second")
    totals: dict[str, list[tuple[float, float]]] = {style: [] for style in STYLES}
    presets = options.presets
    warm_up(size, presets)
    with multiprocessing.get_context("spawn").Pool(options.processes, warm_up, (size, presets)) as pool:
        pool.map(one_tiny_image, list(presets) * options.processes, chunksize=1)  # wait until every process has started
        for style in STYLES:
            for preset in presets:
                whole, skeleton = one_core(preset, style, options.count, size)
                rate = all_cores(pool, options.processes, preset, style, options.count, size)
                totals[style].append((whole, rate))
                print(
                    f"{preset:14s} {style:6s} {whole:17.2f} {skeleton:15.2f} {1000 / whole:10.0f} {rate:10.0f}",
                    flush=True,
                )
            mean = sum(ms for ms, _ in totals[style]) / len(presets)
            rate = len(presets) / sum(1 / rate for _, rate in totals[style])
            print(
                f"{f'all {len(presets)}':14s} {style:6s} {mean:17.2f} {'':15s} {1000 / mean:10.0f} {rate:10.0f}\n",
                flush=True,
            )
    print_profile(size, max(1, options.count // 6), presets)


if __name__ == "__main__":
    main()
