"""What several tests of networks need."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def one_thread():
    """Tests run beside each other; threads that wait for each other's cores make these ten times slower."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
