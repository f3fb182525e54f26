"""Measure the memory of prediction for images of 20,000×20,000 px.

PYTHONPATH=src python benchmarks/huge_images.py                     # the command `treeformer predict`
PYTHONPATH=src python benchmarks/huge_images.py --without-network   # reading and decoding, also at full size

Without the network, the engine gives random output, the same for the same tile, so that merging and the spanning tree
have realistic work.
Each row runs in its own process.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from treeformer.hub.model_folder import ModelFolder, ModelSettings
from treeformer.inference.engine import RawPrediction
from treeformer.inference.predictor import Predictor

SIDE = 20_000
KINDS = {"jpg": "RGB", "png": "L", "tif": "RGB"}


class RandomEngine:
    """Random output with 20 nodes per tile."""

    name, device, preferred_batch, input_size = "random", "cpu", 1, 512

    def __call__(self, images: np.ndarray) -> RawPrediction:
        random = np.random.default_rng(int(images.sum()))
        batch, count = len(images), 20
        shapes = ((batch, count), (batch, count, 2), (batch, count, count), (batch, count))
        score, points, cost, logit = (random.random(shape, dtype=np.float32) for shape in shapes)
        return RawPrediction(score, points * 512, cost * 4 - 1, logit * 4 - 6)


def draw(path: Path, mode: str) -> None:
    image = Image.new(mode, (SIDE, SIDE), "white")
    pen = ImageDraw.Draw(image)
    pen.line([(SIDE // 2, SIDE - 100), (SIDE // 2, 500)], fill="black", width=60)
    for number in range(60):
        reach = (3000 + 50 * number) * (-1) ** number
        foot = SIDE - 1000 - 300 * number
        pen.line([(SIDE // 2, foot), (SIDE // 2 + reach, foot - 1000)], fill="black", width=40)
    image.save(path)


def measure(path: str, size: str) -> None:
    predictor = Predictor(ModelFolder(Path("random"), ModelSettings("random", {})), engine=RandomEngine())
    before = peak_mb()
    began = time.perf_counter()
    skeleton = predictor.predict(path, working_size="full" if size == "full" else int(size))
    seconds = time.perf_counter() - began
    kind = Path(path).suffix[1:]
    assert skeleton.is_forest
    print(f"{kind:5} {KINDS[kind]:5} {size:>6} {peak_mb():9.0f} {before:14.0f} {seconds:9.1f}", flush=True)


def measure_command(folder: Path) -> None:
    print(f"{'file':5} {'mode':5} {'overlay':>8} {'peak, MB':>9} {'CPU s':>9}")
    for kind, mode in KINDS.items():
        path = folder / f"huge.{kind}"
        # A process of its own draws: a child counts the memory of the process that starts it.
        draws = f"from huge_images import *; draw(Path({str(path)!r}), {mode!r})"
        subprocess.run([sys.executable, "-c", draws], check=True, cwd=Path(__file__).parent)
        for options in ([], ["--overlay"]):
            command = [sys.executable, "-m", "treeformer", "predict", path, "-o", folder / "out", *options]
            process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            assert status == 0
            peak = usage.ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)
            seconds = usage.ru_utime + usage.ru_stime
            print(f"{kind:5} {mode:5} {'yes' if options else 'no':>8} {peak:9.0f} {seconds:9.1f}", flush=True)
        path.unlink()


def peak_mb() -> float:
    """Return the peak memory of this process. On Linux, `getrusage` would include the parent process."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--without-network", action="store_true")
    arguments = parser.parse_args()
    if arguments.child:
        measure(*arguments.child)
        return
    if not arguments.without_network:
        with tempfile.TemporaryDirectory() as folder:
            measure_command(Path(folder))
        return
    print(f"{'file':5} {'mode':5} {'size':>6} {'peak, MB':>9} {'at start, MB':>14} {'seconds':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for kind, mode in KINDS.items():
            path = Path(folder) / f"huge.{kind}"
            draw(path, mode)
            for size in ("1024", "full"):
                subprocess.run([sys.executable, __file__, "--child", path, size], check=True)
            path.unlink()


if __name__ == "__main__":
    main()
