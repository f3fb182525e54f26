"""Check the sizes of the files of the static page: `python tools/check_page.py dist/page`.

The limit of the weights depends on the name of the model.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

# Largest size of the files that match, bytes as they are downloaded. Servers compress all but the weights.
LIMITS = {
    "index.html": 4_000,
    "sw.js": 4_000,
    "assets/*.css": 10_000,
    "assets/index-*.js": 120_000,
    "assets/worker-*.js": 60_000,
    "model/*.onnx": 18_000_000,
    "model/*.json": 4_000,
    "runtime/*.wasm": 4_000_000,
    "example-*.jpg": 60_000,
}
WEIGHTS = {"small": 6_000_000}  # of other models: 18 MB
UNCOMPRESSED = (".onnx", ".jpg")


def limits(folder: Path) -> dict[str, int]:
    """Return the largest size per pattern for the model in a folder."""
    settings = next(iter(sorted((folder / "model").glob("*.json"))), None)
    name = "" if settings is None else json.loads(settings.read_text(encoding="utf-8")).get("name", "")
    return LIMITS | ({"model/*.onnx": WEIGHTS[name]} if name in WEIGHTS else {})


def main(folder: Path) -> int:
    """Print a table of sizes. Return 1 if a file is missing, unexpected or too large."""
    known, failures = set(), []
    for pattern, limit in limits(folder).items():
        matches = list(folder.glob(pattern))
        known.update(matches)
        if len(matches) != 1:
            failures.append(f"{pattern}: {len(matches)} files, 1 is needed")
        for path in matches:
            data = path.read_bytes()
            size = len(data) if path.suffix in UNCOMPRESSED else len(gzip.compress(data))
            print(f"{path.relative_to(folder).as_posix():44s} {size / 1e3:10.1f} kB, at most {limit / 1e3:.0f}")
            if size > limit:
                failures.append(f"{path.relative_to(folder)}: {size} bytes, at most {limit} are allowed")
    failures += [
        f"{path.relative_to(folder)}: unexpected" for path in folder.rglob("*") if path.is_file() and path not in known
    ]
    for line in failures:
        print(line, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: python tools/check_page.py FOLDER")
    sys.exit(main(Path(sys.argv[1])))
