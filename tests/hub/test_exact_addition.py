"""The 8-bit additions of the model for the web page: exact sums, nearly the same scales."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from treeformer.hub.exact_addition import Group, choose_scales, make_additions_exact

SCALES = st.floats(1e-4, 10)


@given(st.lists(st.tuples(SCALES, SCALES), min_size=1, max_size=6), SCALES, st.integers(0, 2**32 - 1))
def test_products_and_sums_are_exact_in_float32(rows, first, seed):
    """A chain of sums, as the blocks of a residual network have."""
    rng = np.random.default_rng(seed)
    groups = [(Group(a, int(rng.integers(256))), Group(c, int(rng.integers(256)))) for a, c in rows]
    additions, last = [], Group(first, int(rng.integers(256)))
    for leaf, total in groups:
        additions.append((total, [leaf, last]))
        last = total
    choose_scales(additions)
    for total, parts in additions:
        assert total.scale <= total.chosen <= 2 * total.scale
        scale = np.float32(total.chosen)
        assert float(scale) == total.chosen
        for part in parts:
            assert part.scale <= part.chosen <= 2 * part.scale
            # However the ratio is computed, its digits are the same.
            ratio = np.float32(part.chosen) / scale
            assert float(ratio) == part.chosen / total.chosen
            products = np.arange(256, dtype=np.float32) * ratio
            assert np.array_equal(products.astype(float), np.arange(256) * (part.chosen / total.chosen))


def block(rng):
    """Two 8-bit inputs, one through a convolution, and their sum through a ReLU."""
    nodes, weights = [], []

    def store(name, value):
        weights.append(numpy_helper.from_array(np.asarray(value), name))

    def rounded(name, scale, zero):
        store(f"{name}.scale", np.float32(scale))
        store(f"{name}.zero", np.uint8(zero))
        pair = [f"{name}.scale", f"{name}.zero"]
        nodes.append(helper.make_node("QuantizeLinear", [name, *pair], [f"{name}.8bit"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}.8bit", *pair], [f"{name}.rounded"]))

    rounded("x", 0.0371, 120)
    store("kernel", rng.integers(-63, 64, (8, 8, 3, 3)).astype(np.int8))
    store("kernel.scale", rng.uniform(0.001, 0.003, 8).astype(np.float32))
    store("kernel.zero", np.zeros(8, np.int8))
    store("bias", rng.integers(-20_000, 20_000, 8).astype(np.int32))
    store("bias.scale", numpy_helper.to_array(weights[3]) * np.float32(0.0371))
    kernel = ["kernel", "kernel.scale", "kernel.zero"]
    nodes.append(helper.make_node("DequantizeLinear", kernel, ["kernel.rounded"], axis=0))
    nodes.append(helper.make_node("DequantizeLinear", ["bias", "bias.scale"], ["bias.rounded"], axis=0))
    nodes.append(helper.make_node("Conv", ["x.rounded", "kernel.rounded", "bias.rounded"], ["conv"], pads=[1] * 4))
    rounded("conv", 0.0613, 131)
    nodes.append(helper.make_node("Add", ["conv.rounded", "x.rounded"], ["sum"]))
    nodes.append(helper.make_node("Relu", ["sum"], ["relu"]))
    rounded("relu", 0.0457, 0)
    nodes.append(helper.make_node("Identity", ["relu.rounded"], ["y"]))
    shape = (1, 8, 24, 24)
    graph = helper.make_graph(
        nodes,
        "block",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 10
    return model


def test_a_block_computes_nearly_the_same():
    rng = np.random.default_rng(2)
    model = block(rng)
    x = rng.normal(0, 1.5, (1, 8, 24, 24)).astype(np.float32)

    def run(level="ORT_ENABLE_ALL"):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})[0]

    before = run()
    assert make_additions_exact(model.graph) == 1
    onnx.checker.check_model(model)
    after = run()
    assert np.abs(after - before).mean() < 0.06  # about one step
    assert np.abs(after - before).max() < 0.5
    assert before.max() > 3
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    scales = [float(stored[node.input[1]]) for node in model.graph.node if node.op_type == "QuantizeLinear"]
    assert all(new >= old - 1e-6 for new, old in zip(scales, (0.0371, 0.0613, 0.0457), strict=True))
    bias = next(node for node in model.graph.node if node.op_type == "DequantizeLinear" and "bias" in node.output[0])
    assert np.allclose(stored[bias.input[1]], stored["kernel.scale"] * np.float32(scales[0]))


def test_a_graph_without_8_bit_additions_stays_as_it_is():
    model = block(np.random.default_rng(0))
    del model.graph.node[-6:]
    before = model.SerializeToString()
    assert make_additions_exact(model.graph) == 0
    assert model.SerializeToString() == before
