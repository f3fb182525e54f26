"""Configurations of the network: ranges, named options, and those of former versions."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import pytest

from treeformer.errors import TreeformerError
from treeformer.models import TreeFormerConfig
from treeformer.models.config import FORMER_NAMES
from treeformer.models.ranges import MAXIMUM, MINIMUM


def test_released_weights_are_a_named_option():
    paper, released = TreeFormerConfig.paper(), TreeFormerConfig.paper(edge_weights="released")
    assert paper.edge_term_weights == (1.0, 1.0)
    assert dataclasses.replace(paper, constraint="test").edge_term_weights == (1.0, 0.0)
    first, second = released.edge_term_weights
    assert second / first == pytest.approx(12 / 1.5)
    baseline = dataclasses.replace(released, constraint="none").edge_term_weights
    assert baseline == (pytest.approx(2 * first), 0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": "8"}, "heads must be a whole number, not '8'"),
        ({"dropout": None}, "dropout must be a number, not None"),
        ({"backbone_blocks": ["a", "b"]}, "backbone_blocks[0] must be a whole number, not 'a'"),
        ({"backbone_blocks": 3}, "backbone_blocks must be a list, not 3"),
        ({"heads": 0}, "heads must be at least 1, not 0"),
        ({"width": 0}, "width must be at least 4, not 0"),
        ({"dropout": 2}, "dropout must be at most 1, not 2"),
        ({"dropout": math.nan}, "dropout must be at least 0, not nan"),
        ({"decoder_layers": 0}, "decoder_layers must be at least 1, not 0"),
        ({"sampling_points": 0}, "sampling_points must be at least 1, not 0"),
        ({"node_threshold": 3}, "node_threshold must be at most 2, not 3"),
        ({"node_weight": -1}, "node_weight must be at least 0, not -1"),
        ({"node_weight": math.inf}, "node_weight must be at most 1.79769e+308, not inf"),
        ({"grid_px": -4}, "grid_px must be at least 0, not -4"),
        ({"tokens": 10**30}, "tokens must be at most 2.14748e+09, not 1000000"),
        ({"backbone_blocks": ()}, "backbone_blocks must be 1 or more numbers of at least 1, not []"),
        ({"backbone_blocks": (3, 0, 6)}, "backbone_blocks must be 1 or more numbers of at least 1, not [3, 0, 6]"),
        ({"backbone_blocks": (1,)}, "relation_min_stride must be at most 8, the coarsest stride, not 32"),
        ({"backbone_blocks": (1,), "neck": "encoder"}, "backbone_blocks must be 2 or more numbers"),
        ({"relation_min_stride": 4}, "relation_min_stride must be at least 8, not 4: the finest level has 96 channels"),
    ],
)
def test_a_setting_of_the_wrong_type_or_out_of_range_is_a_one_line_error(settings, message):
    with pytest.raises(TreeformerError, match=re.escape(message)) as caught:
        TreeFormerConfig(**settings)
    assert "\n" not in str(caught.value)


def test_every_number_has_a_range():
    numbers = {name for name, value in dataclasses.asdict(TreeFormerConfig()).items() if type(value) in (int, float)}
    assert MINIMUM.keys() == numbers
    assert MAXIMUM.keys() < numbers


@pytest.mark.parametrize("config", [TreeFormerConfig.default(), TreeFormerConfig.paper(), TreeFormerConfig.tiny()])
def test_a_config_survives_json(config):
    assert TreeFormerConfig.from_dict(json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_former_setting_names_are_read():
    config = TreeFormerConfig.tiny(
        heatmap_upsampling=4, num_negative_tokens=5, num_harmonics=3, point_loss_scale_px=2.5
    )
    settings = dataclasses.asdict(config)
    for former, current in FORMER_NAMES.items():
        settings[former] = settings.pop(current)
    assert {"heat_parts": 4, "spare_tokens": 5, "context_orders": 3, "point_reach_px": 2.5}.items() <= settings.items()
    assert TreeFormerConfig.from_dict(settings) == config


def test_every_former_name_maps_to_a_setting():
    names = {field.name for field in dataclasses.fields(TreeFormerConfig)}
    assert set(FORMER_NAMES.values()) <= names
    assert not FORMER_NAMES.keys() & names


def test_an_unknown_setting_is_a_one_line_error():
    settings = dataclasses.asdict(TreeFormerConfig.tiny())
    with pytest.raises(TreeformerError) as caught:
        TreeFormerConfig.from_dict(settings | {"widht": 8, "zeal": 1})
    assert str(caught.value) == "TreeFormer has no setting 'widht'"


def test_a_config_from_before_the_other_tree_losses_has_sfs():
    settings = dataclasses.asdict(TreeFormerConfig.tiny())
    del settings["tree_loss"]
    assert TreeFormerConfig.from_dict(settings).tree_loss == "sfs"
