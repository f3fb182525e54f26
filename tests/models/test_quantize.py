"""8-bit convolutions, compared with the same arithmetic in NumPy."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from treeformer.models.quantize import calibration_images, measure, quantize, quantized_nodes

SIDE = 8


@pytest.fixture
def network():
    """Return a graph: convolution, ReLU, pooling; a second convolution, added to its input; a head of 12 channels."""
    rng = np.random.default_rng(0)
    weights = {
        "first": rng.normal(size=(16, 3, 3, 3)),
        "first_bias": rng.normal(size=16),
        "second": 0.3 * rng.normal(size=(16, 16, 1, 1)) * np.geomspace(0.01, 1, 16)[:, None, None, None],
        "second_bias": rng.normal(size=16),
        "head": rng.normal(size=(12, 16, 1, 1)),
        "head_bias": rng.normal(size=12),
        "divisor": np.array(255.0),
    }
    nodes = [
        helper.make_node("Transpose", ["images"], ["turned"], perm=[0, 3, 1, 2]),
        helper.make_node("Cast", ["turned"], ["cast"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["cast", "divisor"], ["scaled"]),
        helper.make_node("Conv", ["scaled", "first", "first_bias"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "second", "second_bias"], ["d"]),
        helper.make_node("Add", ["c", "d"], ["e"]),
        helper.make_node("Conv", ["e", "head", "head_bias"], ["f"]),
    ]
    shape = ["batch", SIDE, SIDE, 3]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("images", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info("f", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def run(proto, images, *outputs):
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    copy.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in outputs if name != "f")
    return onnxruntime.InferenceSession(copy.SerializeToString()).run(list(outputs), {"images": images})


def round_reference(values, low, high):
    """Round each value to the nearest of 256 equidistant values, one of which is zero."""
    low, high = min(low, 0.0), max(high, 0.0)
    step = (high - low) / 255
    lowest = round(low / step) * step
    return np.clip(np.round(values / step) * step, lowest, lowest + 255 * step)


def test_convolutions_and_the_operators_between_them_are_quantized(network):
    nodes, rounded = quantized_nodes(network.graph)
    assert [node.op_type for node in nodes] == ["Conv", "Add"], (
        "the convolution that reads the image, and the pooling after it, are not quantized"
    )
    assert rounded == {"c": "c", "d": "d", "e": "e"}


def test_the_input_of_a_quantized_convolution_is_always_rounded(network, tmp_path):
    """The first convolution has too few channels to be quantized, so nothing before the second is in 8 bits."""
    first, bias, second = (
        next(t for t in network.graph.initializer if t.name == name) for name in ("first", "first_bias", "second")
    )
    first.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(first)[:8], "first"))
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias)[:8], "first_bias"))
    second.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(second)[:, :8], "second"))
    add = next(node for node in network.graph.node if node.op_type == "Add")
    add.input[0] = "d"
    nodes, rounded = quantized_nodes(network.graph)
    assert [node.op_type for node in nodes] == ["Conv", "Add"]
    assert rounded == {"c": "c", "d": "d", "e": "e"}
    images = np.random.default_rng(1).integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8)
    [exact] = run(network, images, "f")
    quantize(network, measure(network, tmp_path, images))
    [found] = run(network, images, "f")
    assert np.abs(found - exact).max() < 0.03 * np.abs(exact).max()


def test_every_tensor_is_rounded_to_its_256_values(network, tmp_path):
    images = np.random.default_rng(1).integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8)
    ranges = measure(network, tmp_path, images)
    assert list(tmp_path.iterdir()) == []
    kernel = numpy_helper.to_array(next(t for t in network.graph.initializer if t.name == "second"))
    np.testing.assert_allclose(ranges.kernels["second"], np.abs(kernel).max((1, 2, 3)))
    exact, inner = run(network, images, "f", "c")
    assert ranges.tensors["c"][1] == pytest.approx(inner.max(), rel=0.05)
    quantize(network, ranges)
    found, before, after = run(network, images, "f", "c", "c.rounded")
    np.testing.assert_allclose(after, round_reference(before, *ranges.tensors["c"]), atol=1e-5)
    assert not np.array_equal(found, exact)
    assert np.abs(found - exact).max() < 0.03 * np.abs(exact).max()


def test_the_range_of_pooled_values_is_that_before_the_pooling(network, tmp_path):
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in network.graph.node]
    relu, pool = nodes[4:6]
    pool.input[0], pool.output[0], relu.input[0], relu.output[0] = "a", "pooled", "pooled", "c"
    nodes[4:6] = [pool, relu]
    network.graph.ClearField("node")
    network.graph.node.extend(nodes)
    images = np.random.default_rng(1).integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8)
    [before] = run(network, images, "a")
    low, high = measure(network, tmp_path, images).tensors["c"]
    assert low == 0.0
    assert high == pytest.approx(max(np.percentile(np.maximum(values, 0), 99.999) for values in before), rel=1e-5)


@pytest.mark.parametrize(("factor", "mode"), [(2.0, "floor"), (2.0, "ceil"), (3.0, "floor")])
def test_cells_are_repeated_as_resize_does(network, tmp_path, factor, mode):
    images = np.random.default_rng(1).integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8)
    head = network.graph.node.pop()
    how = {"mode": "nearest", "nearest_mode": mode, "coordinate_transformation_mode": "asymmetric"}
    network.graph.node.extend(
        [
            helper.make_node("Constant", [], ["scales"], value_floats=[1.0, 1.0, factor, factor]),
            helper.make_node("Resize", ["e", "", "scales"], ["larger"], **how),
        ]
    )
    head.input[0] = "larger"
    network.graph.node.append(head)
    quantize(network, measure(network, tmp_path, images))
    before, after, _ = run(network, images, "e.rounded", "larger.rounded", "f")
    source = np.arange(int(SIDE / 2 * factor)) / factor
    source = (np.floor(source) if mode == "floor" else np.ceil(source)).clip(max=SIDE // 2 - 1).astype(int)
    np.testing.assert_array_equal(after, before[:, :, source][:, :, :, source])
    left = "Resize" in {node.op_type for node in network.graph.node}
    assert left == ((factor, mode) != (2.0, "floor")), "only a Resize that repeats each cell twice is replaced"


def test_a_channel_of_small_weights_has_its_own_scale(network, tmp_path):
    images = np.full((1, SIDE, SIDE, 3), 200, np.uint8)
    quantize(network, measure(network, tmp_path, images))
    kernel = numpy_helper.to_array(next(t for t in network.graph.initializer if t.name == "second"))
    [rounded] = run(network, images, "second.rounded")
    for channel, original in zip(rounded, kernel, strict=True):
        assert np.abs(channel - original).max() <= np.abs(original).max() / 63 / 2 * 1.001


def test_two_products_of_activation_and_weight_fit_into_16_bits(network, tmp_path):
    """Processors without VNNI add two products in 16 bits, which saturates at larger values."""
    images = np.random.default_rng(1).integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8)
    quantize(network, measure(network, tmp_path, images))
    weights, activations = run(network, images, "second.8bit", "c.8bit")
    assert weights.dtype == np.int8
    assert 60 <= np.abs(weights.astype(int)).max() <= 32767 // (2 * 255)
    assert activations.dtype == np.uint8, "x86 has fast kernels only for unsigned activations"


@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-6, 1e-4])
def test_a_bias_that_dwarfs_its_kernel_is_kept(network, tmp_path, size):
    """A channel with a very large variance: folding the normalization leaves a tiny kernel, but the whole bias."""
    kernel, bias = (next(t for t in network.graph.initializer if t.name == name) for name in ("second", "second_bias"))
    kernels, biases = numpy_helper.to_array(kernel).copy(), numpy_helper.to_array(bias).copy()
    kernels[5], biases[5] = size * np.sign(kernels[5]), 6.5
    kernel.CopyFrom(numpy_helper.from_array(kernels, "second"))
    bias.CopyFrom(numpy_helper.from_array(biases, "second_bias"))
    images = np.random.default_rng(1).integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8)
    exact, inner = run(network, images, "f", "d")
    ranges = measure(network, tmp_path, images)
    np.testing.assert_array_equal(ranges.biases["second_bias"], biases)
    quantize(network, ranges)
    found, channel, steps = run(network, images, "f", "d", "second_bias.32bit")
    np.testing.assert_allclose(channel[:, 5], inner[:, 5], rtol=1e-3)
    assert steps.dtype == np.int32
    assert np.abs(steps.astype(np.int64)).max() <= 2**30
    assert np.abs(found - exact).max() < 0.03 * np.abs(exact).max()


def test_blank_images_have_ranges_too(network, tmp_path):
    images = np.zeros((2, SIDE, SIDE, 3), np.uint8)
    quantize(network, measure(network, tmp_path, images))
    [found] = run(network, images, "f")
    assert np.isfinite(found).all()


def test_calibration_images_are_reproducible_and_distinct():
    first, second = list(calibration_images(64, 4)), list(calibration_images(64, 4))
    assert [image.shape for image in first] == [(64, 64, 3)] * 4
    assert all(np.array_equal(image, again) for image, again in zip(first, second, strict=True))
    assert len({image.tobytes() for image in first}) == 4


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs a list of open files")
def test_the_graph_to_measure_is_not_open_when_it_is_read(network, tmp_path, monkeypatch):
    """Windows opens no file that another handle keeps open for writing."""
    open_files = []

    class Session(onnxruntime.InferenceSession):
        def __init__(self, path, *arguments, **options):
            for handle in list(Path("/proc/self/fd").iterdir()):
                with suppress(OSError):  # the list itself was open
                    open_files.append(handle.readlink())
            assert Path(path).parent == tmp_path
            super().__init__(path, *arguments, **options)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    measure(network, tmp_path, [np.zeros((SIDE, SIDE, 3), np.uint8)])
    assert open_files
    assert not [name for name in open_files if name.is_relative_to(tmp_path)]
    assert list(tmp_path.iterdir()) == []
