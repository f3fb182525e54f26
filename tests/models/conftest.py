"""The untrained network of `tests.models.untrained`, and its model folder."""

from __future__ import annotations

import pytest

from tests.models.untrained import network
from treeformer.hub.model_folder import open_model


@pytest.fixture(scope="module")
def model():
    return network()


@pytest.fixture(scope="module")
def folder(untrained_folder):
    return open_model(untrained_folder)
