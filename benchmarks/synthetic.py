"""How many synthetic pictures a second, by preset and look, on one core and on all; and where the time goes.

Run as: PYTHONPATH=src python benchmarks/synthetic.py [--count 60] [--processes 16] [--size 512]
or, for a contact sheet of all presets and looks: PYTHONPATH=src python benchmarks/synthetic.py --sheet sheet.jpg
"""

from __future__ import annotations

import argparse
import cProfile
import multiprocessing
import os
import platform
import pstats
import time
from pathlib import Path

import numpy
import PIL
from PIL import Image

from treeformer._util.files import whole_file
from treeformer.synthetic import LOOKS, PRESETS, generate, picture

FIRST_SEED = 1000


def one_core(preset: str, look: str, count: int, size: tuple[int, int]) -> tuple[float, float]:
    """Milliseconds of processor time a picture: in all, and for the skeleton alone."""
    begin = time.process_time()
    for seed in range(count):
        generate(preset, FIRST_SEED + seed, size=size)
    middle = time.process_time()
    for seed in range(count):
        picture(preset, look, FIRST_SEED + seed, size)
    return (time.process_time() - middle) / count * 1000, (middle - begin) / count * 1000


def warm_up(size: tuple[int, int]) -> None:
    """Make the noise tiles before the clock starts: each is made when a picture first needs it."""
    for preset in PRESETS:
        for seed in range(60):
            picture(preset, "photo", seed, size)


def work(job: tuple[str, str, int, int, tuple[int, int]]) -> int:
    preset, look, first, count, size = job
    return sum(len(picture(preset, look, seed, size)[1]) > 0 for seed in range(first, first + count))


def all_cores(
    pool: multiprocessing.pool.Pool, processes: int, preset: str, look: str, count: int, size: tuple[int, int]
) -> float:
    """Pictures a second of wall time, in as many processes."""
    chunk = 10
    jobs = [(preset, look, FIRST_SEED + k * chunk, chunk, size) for k in range(max(1, count // chunk) * processes)]
    begin = time.perf_counter()
    made = sum(pool.imap_unordered(work, jobs))
    return made / (time.perf_counter() - begin)


def print_profile(size: tuple[int, int], count: int) -> None:
    """The functions that take most of the time of look "photo" over all presets."""
    profile = cProfile.Profile()
    profile.enable()
    for preset in PRESETS:
        for seed in range(count):
            picture(preset, "photo", FIRST_SEED + seed, size)
    profile.disable()
    rows = []
    for (file, _, name), (_, calls, own, whole, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        rows.append((own, whole, calls, f"{Path(file).name}:{name}" if "synthetic" in file else name))
    total = sum(row[0] for row in rows)
    pictures = len(PRESETS) * count
    print(f"\nwhere the time of look photo goes ({pictures} pictures; the profiler slows small calls down)")
    print(f"{'own':>5} {'with its callees':>17} {'calls a picture':>16}   function")
    for own, whole, calls, name in sorted(rows, reverse=True)[:18]:
        print(f"{own / total:5.1%} {whole / total:17.1%} {calls / pictures:16.1f}   {name[:70]}")


def write_sheet(path: Path) -> None:
    """A row a preset: one picture of look "paper", then six of look "photo"."""
    columns, side = 7, 200
    sheet = Image.new("RGB", (columns * side, len(PRESETS) * side))
    for row, preset in enumerate(PRESETS):
        for column in range(columns):
            array, _ = picture(preset, "photo" if column else "paper", FIRST_SEED + column)
            sheet.paste(
                Image.fromarray(array).resize((side, side), Image.Resampling.LANCZOS), (column * side, row * side)
            )
    with whole_file(path) as temporary:
        sheet.save(temporary, quality=85)
    print(f"{path}: rows {', '.join(PRESETS)}; look paper first, then photo; seeds {FIRST_SEED} to {FIRST_SEED + 6}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="pictures a preset and look, in each process")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--size", type=int, default=512, help="side of the square pictures, px")
    parser.add_argument("--sheet", type=Path, help="write a contact sheet there and measure nothing")
    options = parser.parse_args()
    if options.sheet:
        write_sheet(options.sheet)
        return
    size = (options.size, options.size)
    print(
        f"{platform.machine()}, Python {platform.python_version()}, NumPy {numpy.__version__}, Pillow {PIL.__version__}"
    )
    print(f"{options.size}×{options.size}, {options.count} pictures each, {options.processes} processes\n")
    head = f"{'preset':10s} {'look':6s} {'CPU ms a picture':>17} {'skeleton alone':>15} {'one core':>10} {'all':>10}"
    print(head + "   pictures a second")
    totals: dict[str, list[tuple[float, float]]] = {look: [] for look in LOOKS}
    warm_up(size)
    with multiprocessing.get_context("spawn").Pool(options.processes, warm_up, (size,)) as pool:
        pool.map(warm_up, [(64, 64)] * options.processes, chunksize=1)  # every process has come up
        for look in LOOKS:
            for preset in PRESETS:
                whole, skeleton = one_core(preset, look, options.count, size)
                rate = all_cores(pool, options.processes, preset, look, options.count, size)
                totals[look].append((whole, rate))
                print(
                    f"{preset:10s} {look:6s} {whole:17.2f} {skeleton:15.2f} {1000 / whole:10.0f} {rate:10.0f}",
                    flush=True,
                )
            mean = sum(ms for ms, _ in totals[look]) / len(PRESETS)
            rate = len(PRESETS) / sum(1 / rate for _, rate in totals[look])
            print(
                f"{f'all {len(PRESETS)}':10s} {look:6s} {mean:17.2f} {'':15s} {1000 / mean:10.0f} {rate:10.0f}\n",
                flush=True,
            )
    print_profile(size, max(1, options.count // 6))


if __name__ == "__main__":
    main()
