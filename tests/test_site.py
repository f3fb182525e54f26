"""The extensions of the documentation site: links that leave docs/, and the reference of the command line."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def extension(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("folder", "link", "leaves"),
    [
        (DOCS, "../CHANGELOG.md", "CHANGELOG.md"),
        (DOCS, "../src/treeformer/weights/default/card.md#limits", "src/treeformer/weights/default/card.md#limits"),
        (DOCS / "lab", "../../configs/default.yaml", "configs/default.yaml"),
        (DOCS / "lab", "../model.md#the-decoder", None),
        (DOCS, "./formats.md", None),
    ],
)
def test_links_out_of_the_documentation_lead_to_the_repository(folder, link, leaves):
    module = extension("repository_links")
    expected = link if leaves is None else f"{module.repository()}/blob/main/{leaves}"
    assert module.rewrite(f"see [it]({link}).", folder) == f"see [it]({expected})."


def test_the_command_reference_has_every_command_and_its_options():
    text = extension("command_reference").reference()
    for command in ("predict", "convert", "traits", "train", "evaluate"):
        assert f"## treeformer {command}\n" in text
    predict = text.split("## treeformer predict\n")[1].split("\n## ")[0]
    assert "| `--output`, `-o` |" in predict
    assert "```sh\ntreeformer predict" in predict
    assert "[bold]" not in text
    train = text.split("## treeformer train\n")[1].split("\n## ")[0]
    assert "| `--resume` |" in train
    assert "| `CONFIG` |" in train


def test_a_hidden_option_is_left_out():
    module = extension("command_reference")

    class Hidden:
        hidden = True

    assert module.parameter_row(Hidden(), None) is None
