"""Result files: configuration and machine of a run, and its figures for every test image."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from treeformer._util.files import atomic_write
from treeformer.errors import TreeformerError

FOLDER = Path(__file__).parents[1] / "results"
DIGITS = 6
# F1 follows from precision and recall.
KEPT = (
    "smd_paper", "smd", "topo_paper_precision", "topo_paper_recall", "topo_precision", "topo_recall",
    "node_precision", "node_recall", "edge_precision", "edge_recall", "keypoint_precision", "keypoint_recall",
    "tip_matched", "tip_predicted", "tip_true", "branch_point_matched", "branch_point_predicted", "branch_point_true",
    "base_matched", "base_predicted", "base_true",
    "predicted_line_within", "predicted_line_p95_px", "predicted_line_near_p95_px", "predicted_line_p95",
    "true_line_within", "true_line_p95_px", "true_line_near_p95_px", "true_line_p95",
    "tree_of_edges_rate", "tree_rate", "forest_rate", "exact_rate", "length_error",
    "node_map_error", "direction_map_error",
)  # fmt: skip

Figures = dict[str, list[float | None]]


@dataclass(frozen=True)
class Result:
    """One trained run and its figures on the test images."""

    run: str
    config: dict[str, Any]
    seed: int
    commit: str
    machine: dict[str, Any]
    backbone: str
    """Name and hash of the initial backbone weights; "" for random weights."""
    minutes: float
    """Training time given. Compilation, validation and checkpoints are not counted."""
    trained_minutes: float
    """Training time taken; exceeds `minutes` by less than one step."""
    wall_minutes: float
    steps: int
    images: int
    """Number of training images, repetitions counted."""
    edge_weight_total: float | None
    """Sum of the weights of all edge losses, None for a model without edge losses."""
    curve: dict[str, list[float]] = field(default_factory=dict)
    """Validations: `step`, `minutes` of training, and `DECODING/METRIC`."""
    tests: dict[str, Figures] = field(default_factory=dict)
    """One figure per test image, in order, by decoding and metric."""
    test_images: int = 0

    @property
    def parallel(self) -> int:
        """Return how many runs shared the machine."""
        return int(self.machine.get("parallel", 1))

    def rows(self, decoding: str) -> list[dict[str, float]]:
        """Return one row per test image, as `treeformer.metrics.summarize` takes them."""
        return rows_of(self.tests[decoding])


def rows_of(columns: Figures) -> list[dict[str, float]]:
    """Return one row per image, F1 included, as `treeformer.metrics.summarize` takes them; inverts `columns_of`."""
    count = len(next(iter(columns.values()), ()))
    rows = [
        {name: math.nan if values[k] is None else float(values[k] or 0.0) for name, values in columns.items()}
        for k in range(count)
    ]
    return [row | _f1(row) for row in rows]


def columns_of(rows: Sequence[Mapping[str, float]]) -> Figures:
    """Return the figures to keep, rounded to six significant digits. NaN and infinity become None."""
    return {name: [_rounded(row[name]) for row in rows] for name in KEPT if rows and name in rows[0]}


def _rounded(value: float) -> float | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e6 else short


def _f1(row: Mapping[str, float]) -> dict[str, float]:
    found = {}
    for name in row:
        stem, _, last = name.rpartition("_")
        if last == "precision" and f"{stem}_recall" in row:
            precision, recall = row[name], row[f"{stem}_recall"]
            found[f"{stem}_f1"] = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return found


def write(result: Result, folder: Path = FOLDER) -> Path:
    """Write RUN.json atomically, with long lists on one line, and return its path."""
    path = folder / f"{result.run}.json"
    table = asdict(result)
    parts = []
    for key, value in table.items():
        if key in ("tests", "curve"):
            inner = ",\n".join(f"  {json.dumps(name)}: {_compact(entry)}" for name, entry in value.items())
            parts.append(f" {json.dumps(key)}: {{\n{inner}\n }}" if inner else f" {json.dumps(key)}: {{}}")
        else:
            parts.append(f" {json.dumps(key)}: {_compact(value)}")
    with atomic_write(path) as temporary:
        temporary.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    return path


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def read(path: Path) -> Result:
    """Read a result file. Raises `TreeformerError` if it is broken."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise TreeformerError(f"{path}: not a result file ({error})") from None
    return parse(text, str(path))


def parse(text: str, where: str) -> Result:
    """Parse the text of a result file.

    Args:
        text: JSON.
        where: name of the file in error messages.

    Returns:
        The result.

    Raises:
        TreeformerError: if the text is not a result.
    """
    try:
        result = Result(**json.loads(text))
        lengths = {len(values) for columns in result.tests.values() for values in columns.values()}
    except (ValueError, TypeError, AttributeError) as error:
        raise TreeformerError(f"{where}: not a result file ({error})") from None
    if lengths - {result.test_images}:
        raise TreeformerError(f"{where}: has figures for {sorted(lengths)} images instead of {result.test_images}")
    return result


def read_all(folder: Path = FOLDER) -> dict[str, Result]:
    """Return all results of a folder by name of the run. Temporary files of other processes are ignored."""
    found = [read(path) for path in sorted(folder.glob("[!.]*.json"))]
    return {result.run: result for result in found}
