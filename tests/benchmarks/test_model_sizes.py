"""The entries of the comparison of model sizes: a mistake in one is an error of one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.model_sizes import open_entry

from treeformer import TreeformerError


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("random:huge", "random:huge: the configuration must be one of default, small, paper, tiny, not 'huge'"),
        ("random:tiny,backbone_blocks=[a,b]", "settings: backbone_blocks[0] must be a whole number, not 'a'"),
        ("random:tiny,backbone_blocks=[1", "random:tiny,backbone_blocks=[1: while parsing a flow sequence"),
        ("random:tiny,depth=3", "TreeFormer has no setting 'depth'"),
    ],
)
def test_a_wrong_entry_is_an_error_of_one_line(entry: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TreeformerError) as caught:
        open_entry(entry, 8, tmp_path)
    assert str(caught.value) == message
