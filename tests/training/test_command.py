"""The training command: one parser behind two entry points, and no optional package needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.training.processes import ONE_THREAD
from treeformer.errors import TreeformerError
from treeformer.training.command import parser, run

NEEDED = {"torch", "lightning", "numpy", "scipy", "PIL", "yaml"}
# All other packages that treeformer or its extras install. Machines for training may not have them.
BLOCKED = (
    "typer", "rich", "click", "onnxruntime", "onnx", "onnxscript", "pandas", "networkx", "defusedxml", "tensorboard",
    "huggingface_hub", "matplotlib", "shapely", "pycocotools", "jsonschema", "lxml", "starlette", "uvicorn", "ray",
)  # fmt: skip

START = """
import sys
blocked, finders = {blocked!r}, list(sys.meta_path)
class Finder:
    # Blocked packages are absent: find_spec returns None, their metadata is missing, and importing them fails.
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            return None
        return next((spec for finder in finders if (spec := finder.find_spec(name, path, target))), None)
    def find_distributions(self, *context):
        for finder in finders:
            for found in getattr(finder, "find_distributions", lambda *_: ())(*context):
                if found.name.replace("-", "_") not in blocked:
                    yield found
sys.meta_path[:] = [Finder()]
for name in blocked:
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    sys.exit(name + " is not blocked")
sys.argv = ["train", *{arguments!r}]
from treeformer.training.command import main
main()
"""


@pytest.mark.slow
def test_training_starts_without_any_optional_package(config_file, tmp_path):
    arguments = [str(config_file), "-o", str(tmp_path / "out"), "--accelerator", "cpu", "steps=2", "validate_every=2"]
    code = START.format(blocked=set(BLOCKED), arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ONE_THREAD)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "best.safetensors").exists()
    assert not NEEDED & set(BLOCKED)


@pytest.mark.slow
def test_both_entry_points_have_the_same_options():
    texts = []
    for entry in (["-m", "treeformer", "train"], ["-m", "treeformer.training"]):
        done = subprocess.run([sys.executable, *entry, "--help"], capture_output=True, text=True, check=True)
        texts.append(done.stdout.replace(" ".join(["treeformer", "train"]), "X").split("\n\n", 1)[1])
    assert texts[0] == texts[1]
    for option in ("--training-time", "--max-minutes", "--resume", "--output", "--devices", "--machines"):
        assert option in texts[0]


def test_options_and_overrides_may_be_mixed():
    parsed = parser("x").parse_intermixed_args(["a.yaml", "--resume", "steps=3", "-o", "out", "seed=1"])
    assert parsed.overrides == ["steps=3", "seed=1"]
    assert parsed.resume


def test_a_missing_configuration_is_an_error(tmp_path):
    with pytest.raises(TreeformerError, match="no such file"):
        run([str(tmp_path / "none.yaml")], prog="x")
