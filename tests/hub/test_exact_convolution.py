"""The first convolution of the model for the web page: exact sums, the same network."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from treeformer.hub.exact_convolution import exact_kernel, make_exact

MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
FACTOR, OFFSET = 1 / (255 * DEVIATION), -MEAN / DEVIATION
SIDE = 16


@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6), st.sampled_from([0.0, 1.0, 1000.0]))
def test_sums_are_exact_in_any_order(seed, size, bias_size):
    rng = np.random.default_rng(seed)
    kernel = (rng.standard_normal((4, 3, 7, 7)) * size).astype(np.float32)
    kernel[1] = 0
    bias = (rng.standard_normal(4) * size * bias_size).astype(np.float32)
    color, exact, shift = exact_kernel(kernel, bias, FACTOR, OFFSET)
    assert exact.dtype == shift.dtype == np.float32
    for pixels in (rng.integers(0, 256, (3, 7, 7)), np.where(exact[0] > 0, 255, 0), np.where(exact[2] > 0, 0, 255)):
        centered = (pixels - color[:, None, None]).astype(np.float32)
        products = np.concatenate([(exact * centered).reshape(4, -1), shift[:, None]], axis=1)
        reference = products.astype(float).sum(1)  # exact: 53 bits hold sums of 24 bits
        order = rng.permutation(products.shape[1])
        for row in (products, products[:, ::-1], products[:, order], np.sort(products, axis=1)):
            total = np.zeros(4, np.float32)
            for column in row.T:
                total += column
            assert np.array_equal(total, reference)
        normalized = pixels * FACTOR[:, None, None] + OFFSET[:, None, None]
        expected = (kernel.astype(float) * normalized).sum((1, 2, 3)) + bias
        limit = 1e-3 * (np.abs(kernel).sum((1, 2, 3)) + np.abs(bias)) + 1e-12
        assert np.all(np.abs(reference - expected) <= limit)


def test_sums_of_the_original_kernel_depend_on_the_order():
    rng = np.random.default_rng(0)
    products = rng.standard_normal(147).astype(np.float32)
    assert len({float(np.float32(sum(rng.permutation(products), np.float32(0)))) for _ in range(20)}) > 1


def first_layers(rng, *, per_channel=True):
    """Images (1,16,16,3) through the normalization, a convolution and a ReLU."""
    shape = (1, 3, SIDE, 1) if per_channel else (1, 3, SIDE, SIDE)
    mean, deviation = (
        np.broadcast_to(values.reshape(1, 3, 1, 1), shape).astype(np.float32) for values in (MEAN, DEVIATION)
    )
    if not per_channel:
        mean = mean + rng.standard_normal(shape).astype(np.float32)
    arrays = {
        "mean": mean,
        "deviation": deviation,
        "white": np.float32(255),
        "kernel": rng.standard_normal((8, 3, 7, 7)).astype(np.float32),
        "bias": rng.standard_normal(8).astype(np.float32),
    }
    nodes = [
        helper.make_node("Transpose", ["images"], ["channels"], perm=[0, 3, 1, 2]),
        helper.make_node("Cast", ["channels"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["float", "white"], ["unit"]),
        helper.make_node("Sub", ["unit", "mean"], ["centered"]),
        helper.make_node("Div", ["centered", "deviation"], ["normalized"]),
        helper.make_node("Conv", ["normalized", "kernel", "bias"], ["sum"], pads=[3] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["sum"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "first",
        [helper.make_tensor_value_info("images", TensorProto.UINT8, (1, SIDE, SIDE, 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 8, SIDE // 2, SIDE // 2))],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 10
    return model


def run(model, images, level="ORT_ENABLE_ALL"):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"images": images})[0]


def test_the_graph_computes_the_same_with_exact_sums():
    rng = np.random.default_rng(5)
    model = first_layers(rng)
    images = rng.integers(0, 256, (1, SIDE, SIDE, 3), dtype=np.uint8)
    before = run(model, images)
    assert make_exact(model.graph)
    onnx.checker.check_model(model)
    assert [node.op_type for node in model.graph.node] == ["Transpose", "Cast", "Sub", "Conv", "Relu"]
    assert {tensor.name for tensor in model.graph.initializer} == {"sum.color", "sum.kernel", "sum.bias"}
    after = run(model, images)
    assert np.array_equal(after, run(model, images, "ORT_DISABLE_ALL"))
    inner = np.s_[:, :, 2:-2, 2:-2]  # the kernel lies within the image
    assert np.allclose(after[inner], before[inner], rtol=0, atol=1e-3 * before.max())
    assert np.abs(after - before).max() < 0.5  # padding is the mean color, rounded to pixel values
    assert before.max() > 10


@pytest.mark.parametrize("change", ["varying", "no cast", "no bias", "no convolution"])
def test_other_graphs_stay_as_they_are(change):
    model = first_layers(np.random.default_rng(1), per_channel=change != "varying")
    nodes = {node.op_type: node for node in model.graph.node}
    if change == "no cast":
        nodes["Cast"].op_type = "Identity"
    elif change == "no bias":
        del nodes["Conv"].input[2]
    elif change == "no convolution":
        model.graph.node.remove(nodes["Conv"])
    before = model.SerializeToString()
    assert not make_exact(model.graph)
    assert model.SerializeToString() == before
