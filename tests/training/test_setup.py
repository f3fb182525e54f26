"""Setting up a run: devices that do not exist and numbers that do not fit are one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")

from treeformer._util.config import ConfigError
from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.training.config import load_config
from treeformer.training.setup import batch_sizes, make_fabric


@pytest.mark.slow
@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (("auto", -1, 1), "cannot train on -1 devices: at least 1 is needed"),
        (("cpu", 1, 0), "cannot train on 0 machines: at least 1 is needed"),
        (("tpu", 1, 1), "cannot train on tpu, 1 devices, 1 machines: "),
        (("abacus", 1, 1), "cannot train on abacus, 1 devices, 1 machines: "),
    ],
)
def test_devices_that_do_not_exist_are_one_line(devices, message):
    with pytest.raises(ConfigError, match=message) as error:
        make_fabric(*devices)
    assert "\n" not in str(error.value)


def test_more_tokens_than_cells_are_one_line(config_file):
    config = load_config(config_file)
    batch_sizes(config, TreeFormer(TreeFormerConfig.tiny(tokens=1024)), 1)
    with pytest.raises(ConfigError, match=r"model_options\.tokens 1025 is more than the 1024 cells .* of 64 px"):
        batch_sizes(config, TreeFormer(TreeFormerConfig.tiny(tokens=1025)), 1)
    warmup = replace(config, data=replace(config.data, warmup_image_steps=2, warmup_image_size=32))
    with pytest.raises(ConfigError, match=r"model_options\.tokens 257 is more than the 256 cells .* of 32 px"):
        batch_sizes(warmup, TreeFormer(TreeFormerConfig.tiny(tokens=257)), 1)
    crowded = replace(config, data=replace(config.data, crowded_every=2, crowded_tokens=1025))
    with pytest.raises(ConfigError, match=r"data\.crowded_tokens 1025 is more than the 1024 cells .* of 64 px"):
        batch_sizes(crowded, TreeFormer(TreeFormerConfig.tiny(tokens=8)), 1)
    learned = TreeFormer(TreeFormerConfig.tiny(token_source="learned", tokens=1025))
    assert batch_sizes(config, learned, 1).ordinary == 4
