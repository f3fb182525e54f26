"""Rewritten graphs give the same numbers, and have the form for which they were rewritten."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from treeformer.models.onnx_rewrites import gather_before_dequantizing, replace_cast_like, widen_first_convolution

RNG = np.random.default_rng(0)


def model(nodes, inputs, outputs, constants):
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def run(proto, **inputs):
    return onnxruntime.InferenceSession(proto.SerializeToString()).run(None, inputs)


def operators(proto):
    return [node.op_type for node in proto.graph.node]


def test_casts_know_their_type():
    nodes = [
        helper.make_node("CastLike", ["half", "x"], ["as_x"]),
        helper.make_node("Add", ["x", "as_x"], ["sum"]),
        helper.make_node("CastLike", ["x", "count"], ["whole"]),
        helper.make_node("Add", ["whole", "count"], ["total"]),
    ]
    proto = model(
        nodes,
        [("x", TensorProto.FLOAT, [3])],
        [("sum", TensorProto.FLOAT), ("total", TensorProto.INT64)],
        {"half": np.float16(0.5), "count": np.array(7)},
    )
    x = np.array([1.5, -2.25, 4.0], np.float32)
    before = run(proto, x=x)
    replace_cast_like(proto)
    assert operators(proto) == ["Cast", "Add", "Cast", "Add"]
    for one, other in zip(before, run(proto, x=x), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("channels", [5, 16, 24])
def test_a_wide_first_convolution_gives_the_same_channels(channels):
    nodes = [
        helper.make_node("Conv", ["image", "kernel", "bias"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Relu", ["b"], ["c"]),
    ]
    constants = {"kernel": RNG.normal(size=(channels, 3, 3, 3)), "bias": RNG.normal(size=channels)}
    proto = model(
        nodes,
        [("image", TensorProto.FLOAT, [1, 3, 8, 8])],
        [("c", TensorProto.FLOAT)],
        {name: array.astype(np.float32) for name, array in constants.items()},
    )
    image = RNG.normal(size=(1, 3, 8, 8)).astype(np.float32)
    [before] = run(proto, image=image)
    widen_first_convolution(proto.graph, channels)
    widened = operators(proto) == ["Pad", "Pad", "Conv", "MaxPool", "Slice", "Relu"]
    assert widened == bool(channels % 16)
    [after] = run(proto, image=image)
    np.testing.assert_array_equal(before, after)


def test_a_first_convolution_without_pooling_stays():
    proto = model(
        [helper.make_node("Conv", ["image", "kernel", "bias"], ["a"])],
        [("image", TensorProto.FLOAT, [1, 3, 8, 8])],
        [("a", TensorProto.FLOAT)],
        {"kernel": np.ones((5, 3, 1, 1), np.float32), "bias": np.zeros(5, np.float32)},
    )
    widen_first_convolution(proto.graph, 5)
    assert operators(proto) == ["Conv"]


def test_rows_are_gathered_in_8_bits():
    nodes = [
        helper.make_node("DequantizeLinear", ["map", "scale", "zero"], ["numbers"]),
        helper.make_node("Transpose", ["numbers"], ["cells"], perm=[0, 2, 3, 1]),
        helper.make_node("Reshape", ["cells", "shape"], ["rows"]),
        helper.make_node("Gather", ["rows", "index"], ["found"], axis=0),
        helper.make_node("Add", ["rows", "one"], ["all"]),  # needs every number
    ]
    proto = model(
        nodes,
        [("map", TensorProto.UINT8, [2, 3, 4, 5]), ("index", TensorProto.INT64, [6])],
        [("found", TensorProto.FLOAT), ("all", TensorProto.FLOAT)],
        {
            "scale": np.float32(0.3),
            "zero": np.uint8(100),
            "shape": np.array([-1, 3]),
            "one": np.float32(1),
        },
    )
    inputs = {"map": RNG.integers(0, 256, (2, 3, 4, 5), dtype=np.uint8), "index": RNG.integers(0, 40, 6)}
    before = run(proto, **inputs)
    gather_before_dequantizing(proto.graph)
    producer = {name: node for node in proto.graph.node for name in node.output}
    assert producer["found"].op_type == "DequantizeLinear"
    gathered = producer[producer["found"].input[0]]
    assert gathered.op_type == "Gather"
    shapes = onnx.shape_inference.infer_shapes(proto, data_prop=True).graph.value_info
    types = {value.name: value.type.tensor_type.elem_type for value in shapes}
    assert types[gathered.input[0]] == TensorProto.UINT8
    for one, other in zip(before, run(proto, **inputs), strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_with_a_scale_per_channel_stay():
    nodes = [
        helper.make_node("DequantizeLinear", ["map", "scales", "zeros"], ["rows"], axis=1),
        helper.make_node("Gather", ["rows", "index"], ["found"], axis=0),
    ]
    proto = model(
        nodes,
        [("map", TensorProto.UINT8, [4, 3]), ("index", TensorProto.INT64, [2])],
        [("found", TensorProto.FLOAT)],
        {"scales": np.array([1, 2, 3], np.float32), "zeros": np.zeros(3, np.uint8)},
    )
    gather_before_dequantizing(proto.graph)
    assert operators(proto) == ["DequantizeLinear", "Gather"]
