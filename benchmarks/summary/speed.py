"""The table of speed, from the files that `benchmarks/predict.py --store` wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from treeformer.errors import TreeformerError

FOLDER = Path(__file__).parents[1] / "results" / "speed"


def table(folder: Path = FOLDER) -> str:
    """Return the table of all stored speeds.

    Args:
        folder: of the files.

    Returns:
        Markdown: one row per machine and model.

    Raises:
        TreeformerError: if a file cannot be read, or there is none.
    """
    lines = []
    for path in sorted(folder.glob("*.json")):
        try:
            lines += _rows(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TreeformerError(f"{path}: not a file of benchmarks/predict.py --store ({error})") from None
    if not lines:
        raise TreeformerError(f"{folder}: no speeds are stored")
    head = "| machine | network and weights | one image | images per second | memory |"
    command = "`PYTHONPATH=src python benchmarks/predict.py --models MODEL … --store FILE`"
    return "\n".join([command, "", head, "|" + " --- |" * 5, *lines, ""])


def _rows(stored: dict[str, Any]) -> list[str]:
    lines = []
    for key, figures in stored.items():
        where, _, name = key.partition(" ")
        if where not in ("cpu", "gpu") or not name:
            continue
        weights = next((v for m, v in stored["versions"].items() if Path(m).name == name), "random")
        model = f"`{name}`, {weights if weights == 'random' else 'version ' + weights}"
        if where == "cpu":
            # Processor time: other programs on the machine change it less than the elapsed time.
            cells = [f"two cores of {stored['machine']}", model, f"{figures['busy']:.2f} s of both cores"]
            cells += [f"{1 / figures['busy']:.1f}", f"{figures['peak_mb']:.0f} MB"]
        else:
            rate = f"{figures['rate']:,.0f}" + (f", batches of {figures['batch']}" if "batch" in figures else "")
            cells = [str(stored["gpu"]), model, f"{1e3 * figures['frame']:.1f} ms", rate]
            cells += [f"{figures['memory']:.1f} GiB on the GPU"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines
