"""Options of a prediction: values that make no sense are one line."""

from __future__ import annotations

import pytest

from tests.inference.fake_engine import ColorEngine, drawn, predictor
from tests.inference.test_predictor import TREE
from treeformer import TreeformerError
from treeformer.cli.prediction import parse_working_size
from treeformer.inference.predictor import load_model


@pytest.mark.parametrize("size", [0, -3.5, 0.5, float("nan"), True, "large", [512]])
def test_a_working_size_that_is_no_number_of_pixels_is_refused(size):
    with pytest.raises(TreeformerError, match="the working size must be a positive number of pixels"):
        predictor(ColorEngine(TREE, 64)).predict(drawn(TREE), working_size=size)


def test_values_of_a_wrong_type_are_refused_in_one_line():
    model = predictor(ColorEngine(TREE, 64))
    with pytest.raises(TreeformerError, match=r"the minimum confidence must be between 0 and 1, not '0\.5'"):
        model.predict(drawn(TREE), min_confidence="0.5")
    with pytest.raises(TreeformerError, match=r"batch must be an integer of at least 1, not 1\.5"):
        list(model.predict_many([drawn(TREE)], batch=1.5))
    with pytest.raises(TreeformerError, match="the model must be a name or a folder, not NoneType"):
        load_model(None)


def test_an_unknown_weight_of_the_structure_is_refused_in_one_line():
    with pytest.raises(TreeformerError, match="structure: unknown key 'bend'; known are edge_limit, span"):
        predictor(ColorEngine(TREE, 64), structure={"bend": 1.0}).predict(drawn(TREE))


@pytest.mark.parametrize("text", ["1_024", "\u0661\u0660\u0662\u0664", "nan", "-512", "", "1e3", "9" * 30])
def test_a_working_size_on_the_command_line_is_decimal(text):
    with pytest.raises(TreeformerError, match="--working-size must be a number of pixels"):
        parse_working_size(text)


@pytest.mark.parametrize(("text", "size"), [("1024", 1024), ("auto", "auto"), ("full", "full"), (None, None)])
def test_working_sizes_of_the_command_line(text, size):
    assert parse_working_size(text) == size
