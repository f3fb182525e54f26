"""Numbers in text files are decimal numbers, nothing else that Python's `float` accepts, and zero bytes are errors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from treeformer import FormatError, Skeleton, read, write
from treeformer._util.config import ConfigError, build
from treeformer._util.text import decimal_number
from treeformer.errors import TreeformerError
from treeformer.inference.cluster.run import parse_shard

# Ten in Python, Arabic digits, full-width digits, hexadecimal.
NO_NUMBERS = ["1_0", "\u0661\u0660", "\uff11\uff10", "0x10", "1e", "--1", ""]

GRAPHML = """<graphml><key id="x" for="node" attr.name="x" attr.type="KIND"/>
<key id="y" for="node" attr.name="y" attr.type="double"/><graph><node id="0"><data key="x">VALUE</data>
<data key="y">2</data></node></graph></graphml>"""
TEXTS = {
    "a.swc": "1 0 VALUE 2 0 1 -1\n",
    "a.csv": "x,y,parent\nVALUE,2,-1\n",
    "double.graphml": GRAPHML.replace("KIND", "double"),
    "int.graphml": GRAPHML.replace("KIND", "int"),
    "string.graphml": GRAPHML.replace("KIND", "string"),
    "link.json": '{"nodes": [{"id": 0, "x": "VALUE", "y": 2}], "links": []}',
    "a.rsml": "<rsml><scene><plant><root><geometry><polyline><point x='VALUE' y='2'/><point x='3' y='4'/></polyline>"
    "</geometry></root></plant></scene></rsml>",
    "guyot.json": '{"VineImage": [{"VineFeature": [[{"FeatureID": "0", "ParentID": "", "FeatureCoordinates": '
    '"VALUE, 2"}]]}]}',
    "branches.xml": "<file name='a'><level0><line>[(VALUE,2),(3,4)]</line></level0></file>",
}


@dataclass
class Rate:
    """A configuration."""

    rate: float


@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize("name", TEXTS)
def test_other_spellings_of_numbers_are_errors(tmp_path: Path, name: str, value: str):
    (tmp_path / name).write_text(TEXTS[name].replace("VALUE", value), encoding="utf-8")
    with pytest.raises(FormatError, match=f"^{name}: ") as error:
        read(tmp_path / name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", TEXTS)
def test_decimal_numbers_are_read(tmp_path: Path, name: str):
    (tmp_path / name).write_text(TEXTS[name].replace("VALUE", "10"), encoding="utf-8")
    assert read(tmp_path / name).nodes[0].tolist() == [10.0, 2.0]


@pytest.mark.parametrize("value", [*NO_NUMBERS, "nan", "inf", "-Infinity"])
def test_what_a_decimal_number_is_not(value: str):
    with pytest.raises(ValueError, match="is not a number"):
        decimal_number(value)


@pytest.mark.parametrize("resolution", ["1_0", "\u0661\u0660"])
def test_a_resolution_in_other_digits_is_no_scale(tmp_path: Path, resolution: str):
    text = TEXTS["a.rsml"].replace("VALUE", "10")
    metadata = f"<metadata><unit>mm</unit><resolution>{resolution}</resolution></metadata>"
    (tmp_path / "a.rsml").write_text(text.replace("<rsml>", f"<rsml>{metadata}"), encoding="utf-8")
    assert read(tmp_path / "a.rsml").metadata["rsml"]["resolution"] == "1"


def test_other_digits_in_a_configuration_or_a_shard_are_errors():
    with pytest.raises(ConfigError, match="must be a number"):
        build(Rate, {"rate": "\u0661e-4"}, "run.yaml")
    with pytest.raises(TreeformerError):
        parse_shard("\u0661/\u0662")


@pytest.mark.parametrize("name", ["a.swc", "a.csv"])
def test_a_zero_byte_behind_the_head_of_a_file_is_an_error(tmp_path: Path, name: str):
    """A power failure may leave a file of the right length whose end is zeros."""
    head = TEXTS[name].replace("VALUE", "1")
    (tmp_path / name).write_bytes(head.encode() + b" " * (1 << 14) + b"\n# \0\n")
    with pytest.raises(FormatError, match=rf"^{name}: line \d contains a zero byte"):
        read(tmp_path / name)


@pytest.mark.parametrize("comments", [[], ["a\0b"], ["\ud800"]])
@pytest.mark.parametrize("count", [0, 1])
def test_swc_files_can_be_read_back(tmp_path: Path, comments: list[str], count: int):
    """Comments come from metadata, which JSON files can fill with anything."""
    source = tmp_path / "a.json"
    write(Skeleton([(1, 2)] * count, []), source)
    document = json.loads(source.read_text()) | {"metadata": {"swc": {"comments": comments}}}
    source.write_text(json.dumps(document))
    write(read(source), tmp_path / "a.swc")
    assert len(read(tmp_path / "a.swc")) == count
