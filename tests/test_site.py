"""The extensions of the documentation site: links that leave docs/, and the reference of the command line."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import ClassVar

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


def test_options_in_help_texts_are_code_and_not_dashes():
    text = extension("command_reference").reference()
    prose = "".join(text.split("```")[::2])  # without blocks
    outside = "".join(prose.split("`")[::2])
    assert "--" not in outside.replace("| --- |", "").replace(" --- |", "")
    assert "with `--shard`" in prose


def test_a_command_without_options_has_no_empty_table():
    text = extension("command_reference").reference()
    assert "| --- | --- |\n\n" not in text


def test_long_names_may_break_and_code_blocks_may_not():
    breakable = extension("breakable_names").breakable
    assert breakable('<span class="pre">total_length</span>') == '<span class="pre">total_<wbr>length</span>'
    assert breakable('<span class="pre">--px-per-mm</span>') == '<span class="pre">--px-per-mm</span>'
    assert breakable('<span class="nn">a_name</span> docs/a.md') == '<span class="nn">a_name</span> docs/a.md'


def test_a_wide_formula_is_in_a_box_of_its_own():
    pytest.importorskip("latex2mathml")  # installed for the site only
    module = extension("mathml")

    class Translator:
        body: ClassVar[list[str]] = []

    class Formula:
        def astext(self):
            return "x^2"

    with pytest.raises(module.nodes.SkipNode):
        module.block(Translator(), Formula())
    assert Translator.body[0].startswith("<div class='formula' tabindex='0'><math")
    assert ".formula {" in (DOCS / "_static" / "site.css").read_text(encoding="utf-8")


def test_a_hidden_option_is_left_out():
    module = extension("command_reference")

    class Hidden:
        hidden = True

    assert module.parameter_row(Hidden(), None) is None
