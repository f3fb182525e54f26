"""Images and an output folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

if os.name == "nt":
    collect_ignore_glob = ["test_*.py"]  # clusters run Linux


@pytest.fixture
def images(tmp_path) -> Path:
    from tests.inference.cluster_runs import write_images  # needs pyarrow

    write_images(tmp_path / "im äges" / "day 2", 3)
    write_images(tmp_path / "im äges", 9)
    return tmp_path / "im äges"


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "out"
