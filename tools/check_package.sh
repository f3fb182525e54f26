#!/usr/bin/env bash
# Build sdist and wheel, check their metadata, install the wheel into an empty environment without torch, and predict.
# usage: bash tools/check_package.sh BIN [FOLDER]
#   BIN: the folder of the python that has build and twine
#   FOLDER: where the two files are kept if all checks pass; by default they are removed
set -euo pipefail
bin=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Built from the files that git tracks, so that nothing else gets in.
git -C "$root" archive --format=tar HEAD | tar -x -C "$work" --one-top-level=source
"$bin/python" "$root/tools/absolute_links.py" "$work/source"
"$bin/python" -m build --outdir "$work/dist" "$work/source" > "$work/build.log" 2>&1 \
  || { cat "$work/build.log" >&2; exit 1; }
"$bin/python" -m twine check --strict "$work"/dist/*
if tar -tf "$work"/dist/*.tar.gz | grep -q '/benchmarks/results/'; then
  echo "the sdist contains benchmark results" >&2
  exit 1
fi

"$bin/python" -m venv "$work/empty"
"$bin/uv" pip install --quiet --python "$work/empty/bin/python" -c "$root/constraints.txt" "$work"/dist/*.whl
cd "$work"
empty/bin/python - <<'PYTHON'
import importlib.util

import treeformer
from pathlib import Path

assert importlib.util.find_spec("torch") is None, "torch is installed"
image = Path(treeformer.__file__).parent / "examples" / "taproot.jpg"
skeleton = treeformer.predict(image)
assert skeleton.is_forest and len(skeleton) > 10, skeleton
print("without torch:", skeleton)
PYTHON
ls -l dist | awk 'NR > 1 {printf "%s %.1f MB\n", $NF, $5 / 1e6}'
if [ -n "${2:-}" ]; then
  mkdir -p "$root/$2"
  cp dist/* "$root/$2"
fi
