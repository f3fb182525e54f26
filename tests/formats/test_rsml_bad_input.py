"""Damaged or malicious RSML gives a skeleton or a one-line error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.formats.rsml_documents import LIBERAL, SCHEMA, axis_lines, document, preserved, root
from tests.strategies import examples
from treeformer import FormatError, Skeleton
from treeformer.formats.rsml import reader as rsml

BOMB = """<?xml version="1.0"?><!DOCTYPE rsml [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>
<rsml><scene><plant label="&c;"/></scene></rsml>"""
EXTERNAL = """<!DOCTYPE rsml [<!ENTITY secret SYSTEM "file:///etc/passwd">]><rsml><scene>&secret;</scene></rsml>"""
PARAMETER = """<!DOCTYPE rsml [<!ENTITY % more SYSTEM "file:///etc/passwd"> %more;]><rsml><scene/></rsml>"""


def bad_point(x: str) -> str:
    return document(f"<plant>{root((0, 0), (x, 1), id='r')}</plant>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty"),
        ("   \n", "is not well-formed XML"),
        ("no XML at all", "is not well-formed XML"),
        (LIBERAL[:1500], "is truncated"),
        (LIBERAL[:-3], "is truncated"),
        ("<rsml></scene>", "is not well-formed XML"),
        (BOMB, "declares XML entities"),
        (EXTERNAL, "declares XML entities"),
        (PARAMETER, "declares XML entities"),
        ("<rsml>&undefined;</rsml>", "is not well-formed XML"),
        ("<?xml version='1.0' encoding='klingon'?><rsml/>", "is not readable as XML"),
        ("<svg/>", "the root element is <svg>, not <rsml>"),
        ("<rsml><metadata/></rsml>", "has no <scene>"),
        ("<rsml>" * 1000, "nested more than 250 levels deep"),
        (bad_point("NaN"), "root 1 (id 'r'): point 2 has x='NaN', not a finite number"),
        (bad_point("-inf"), "not a finite number"),
        (bad_point("1e999"), "not a finite number"),
        (bad_point("twelve"), "not a finite number"),
        (bad_point(""), "not a finite number"),
        (bad_point("1").replace(' x="1"', ""), "point 2 has no x"),
    ],
)
def test_errors_are_one_line_that_begins_with_the_file_name(text: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "Größe 1.rsml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError) as error:
        rsml.read(path)
    message = str(error.value)
    assert message.startswith("Größe 1.rsml: ")
    assert expected in message
    assert "\n" not in message


def test_a_folder_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=f"^{tmp_path.name}: cannot be read"):
        rsml.read(tmp_path)
    with pytest.raises(FormatError, match=r"^none\.rsml: cannot be read"):
        rsml.read(tmp_path / "none.rsml")


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(
    cut=st.integers(0, len(LIBERAL)),
    length=st.integers(0, 40),
    insert=st.one_of(
        st.binary(max_size=20), st.sampled_from([b"<root>", b"</root>", b"<plant>", b"<point/>", b"&#0;"])
    ),
)
def test_damaged_files_give_a_skeleton_or_a_one_line_error(
    cut: int, length: int, insert: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = LIBERAL.encode()
    path = tmp_path_factory.getbasetemp() / "damaged.rsml"
    path.write_bytes(data[:cut] + insert + data[cut + length :])
    outcome = read_or_message(path)
    if isinstance(outcome, str):
        assert outcome.startswith("damaged.rsml: ")
        assert "\n" not in outcome
    else:
        assert outcome.is_forest
        if len(outcome):
            again = preserved(outcome, path.with_name("again.rsml"))
            assert preserved(again, path.with_name("third.rsml")) == again
            rsml.write_valid(outcome, path.with_name("valid.rsml"))
            SCHEMA.assertValid(etree.parse(path.with_name("valid.rsml")))
            assert axis_lines(rsml.read(path.with_name("valid.rsml"))) == axis_lines(outcome)


def read_or_message(path: Path) -> Skeleton | str:
    try:
        return rsml.read(path)
    except FormatError as error:
        return str(error)
