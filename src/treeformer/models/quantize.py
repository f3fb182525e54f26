"""8-bit convolutions: measured value ranges, and the graph nodes from which ONNX Runtime selects 8-bit kernels.

The weights remain stored as float16. The graph holds only their scales. Casting, folding the batch normalization and
rounding to 8 bits are constant expressions, which ONNX Runtime evaluates once while loading.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeformer._util.files import temporary_file
from treeformer.models.onnx_rewrites import gather_before_dequantizing, widen_first_convolution
from treeformer.synthetic import make_image

QUANTIZABLE = ("Conv", "Add", "MaxPool", "Resize")  # operators that have 8-bit kernels
SELECTING = ("MaxPool", "Resize")  # operators that only select values; their output keeps the range of their input
MIN_CHANNELS = 16  # a convolution with fewer output channels is a head: cheap, and its accuracy matters
STEPS = 255  # largest 8-bit value; activations are unsigned, because x86 has fast kernels only for these
# Of at most 127. x86 without VNNI adds two 8-bit products in 16 bits, which hold at most 2 · 255 · 63.
MAX_WEIGHT = 63
MAX_BIAS = 2**30  # in steps: half of the range of 32 bits, the other half is for the sum of products
# Share of a tensor's values per image that may be clipped on either side for finer steps. In a drawing the plant covers
# few cells of a blank page: ten times this share would clip its twigs.
OUTLIERS_PERCENT = 0.001
MIN_SCALE = 1e-8
CALIBRATION_SEED = 900_000  # far from the seeds of all validation images


class Ranges(NamedTuple):
    """Measured values from which the scales follow."""

    tensors: dict[str, tuple[float, float]]  # lowest and highest value of each tensor
    # largest magnitude per output channel of each convolution kernel, (channels,)
    kernels: dict[str, NDArray[np.float32]]
    biases: dict[str, NDArray[np.float32]]  # bias of each convolution, (channels,)


def calibration_images(side: int, count: int = 16) -> Iterable[NDArray[np.uint8]]:
    """Generate synthetic images of several presets in both styles, (side,side,3) uint8 RGB each."""
    presets = ("paper", "taproot", "seedling", "vine")
    for index in range(count):
        style = ("paper", "photo")[index % 2]
        yield make_image(presets[index // 2 % len(presets)], style, CALIBRATION_SEED + index, (side, side))[0]


def measure(proto: Any, folder: Path, images: Iterable[NDArray[np.uint8]]) -> Ranges:
    """Run a graph on images, (S,S,3) uint8 RGB each, and measure the ranges of the values that will be rounded.

    `proto` is an onnx.ModelProto, `folder` that of the weights that it refers to.
    """
    import onnx
    import onnxruntime

    nodes, rounded = quantized_nodes(proto.graph)
    tensors = list(dict.fromkeys(rounded.values()))
    measured = _before_pooling(proto.graph, tensors)
    kernels = [node.input[1] for node in nodes if node.op_type == "Conv"]
    biases = [node.input[2] for node in nodes if node.op_type == "Conv"]
    instrumented = onnx.ModelProto()
    instrumented.CopyFrom(proto)
    instrumented.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(name) for name in [*measured.values(), *kernels, *biases]
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    with temporary_file(folder / "ranges.onnx") as file:  # weights are referred to relative to the graph
        file.write_bytes(instrumented.SerializeToString())
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    lows: dict[str, list[float]] = {name: [] for name in tensors}
    highs: dict[str, list[float]] = {name: [] for name in tensors}
    weights: dict[str, NDArray[np.float32]] = {}
    for image in images:
        arrays = session.run(list(measured.values()), {"images": image[None]})
        for name, values in zip(tensors, arrays, strict=True):
            low, high = np.percentile(values, [OUTLIERS_PERCENT, 100 - OUTLIERS_PERCENT])
            if measured[name] != name:  # a ReLU follows
                low, high = max(low, 0.0), max(high, 0.0)
            lows[name].append(float(low))
            highs[name].append(float(high))
        if not weights:
            names = kernels + biases
            weights = dict(zip(names, session.run(names, {"images": image[None]}), strict=True))
    return Ranges(
        {name: (min(lows[name]), max(highs[name])) for name in tensors},
        {name: np.abs(weights[name]).max((1, 2, 3)) for name in kernels},
        {name: weights[name] for name in biases},
    )


def quantize(proto: Any, ranges: Ranges) -> None:
    """Convert the convolutions of an onnx.ModelProto, and the operators between them, to 8 bits, in place.

    The ranges are those that `measure` returns for this graph.
    """
    from onnx import TensorProto, helper, numpy_helper

    graph = proto.graph
    nodes, rounded = quantized_nodes(graph)
    tensors = set(rounded.values())
    convolutions = {node.output[0] for node in nodes if node.op_type == "Conv"}

    def store(name: str, values: Any) -> None:
        graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))

    def rounding(name: str, axis: int | None = None) -> list[Any]:
        """Return nodes that round `name` to 8 bits and store the result as `name`.rounded."""
        options: dict[str, Any] = {} if axis is None else {"axis": axis}
        scale, zero = f"{name}.scale", f"{name}.zero"
        return [
            helper.make_node("QuantizeLinear", [name, scale, zero], [f"{name}.8bit"], **options),
            helper.make_node("DequantizeLinear", [f"{name}.8bit", scale, zero], [f"{name}.rounded"], **options),
        ]

    def doubling(source: str, name: str) -> list[Any]:
        """Return nodes that upsample `source`.8bit (B,C,h,w) to `name`.rounded (B,C,2h,2w) by repeating each cell.

        All channels of a cell are copied at once. The Resize of ONNX Runtime copies single values, which is slower.
        """
        cells, shape, single, row, both = (f"{name}.{part}" for part in ("cells", "shape", "single", "row", "both"))
        return [
            helper.make_node("Transpose", [f"{source}.8bit"], [cells], perm=[0, 2, 3, 1]),
            helper.make_node("Shape", [cells], [shape]),
            helper.make_node("Mul", [shape, "doubled.factors"], [f"{shape}.doubled"]),
            helper.make_node("Unsqueeze", [cells, "doubled.axes"], [single]),  # (B,h,1,w,1,C)
            helper.make_node("Concat", [single, single], [row], axis=4),
            helper.make_node("Concat", [row, row], [both], axis=2),
            helper.make_node("Reshape", [both, f"{shape}.doubled"], [f"{cells}.doubled"]),
            helper.make_node("Transpose", [f"{cells}.doubled"], [f"{name}.8bit"], perm=[0, 3, 1, 2]),
            rounding(name)[1],
        ]

    store("doubled.factors", np.array([1, 2, 2, 1]))
    store("doubled.axes", np.array([2, 4]))
    upsampled = {node.output[0] for node in nodes if _doubles_cells(node, graph)}
    known = dict(ranges.tensors)
    for node in nodes:
        if node.op_type in SELECTING:
            known[node.output[0]] = known[node.input[0]]
    steps: dict[str, float] = {}
    for name in sorted(tensors):
        low, high = min(known[name][0], 0.0), max(known[name][1], 0.0)
        scale = max((high - low) / STEPS, MIN_SCALE)
        steps[name] = scale
        store(f"{name}.scale", np.float32(scale))
        store(f"{name}.zero", np.uint8(np.clip(round(-low / scale), 0, STEPS)))
    result = []
    for node in graph.node:
        if node.output[0] in upsampled:
            result += doubling(node.input[0], node.output[0])
            continue
        if node.output[0] in convolutions:
            source, kernel, bias = node.input
            # The unit of the bias is the product of both scales, and the bias must fit into 32 bits. A normalization
            # can leave a channel a kernel that is tiny compared to its bias. Such a channel gets coarser steps.
            for_kernel = np.maximum(ranges.kernels[kernel] / MAX_WEIGHT, MIN_SCALE)
            for_bias = np.abs(ranges.biases[bias]) / (MAX_BIAS * steps[source])
            scales = np.maximum(for_kernel, for_bias).astype(np.float32)
            store(f"{kernel}.scale", scales)
            store(f"{kernel}.zero", np.zeros(len(scales), np.int8))
            result += rounding(kernel, axis=0)
            step = f"{bias}.step"
            result += [
                helper.make_node("Mul", [f"{kernel}.scale", f"{source}.scale"], [step]),
                helper.make_node("Div", [bias, step], [f"{bias}.steps"]),
                helper.make_node("Round", [f"{bias}.steps"], [f"{bias}.whole"]),
                helper.make_node("Cast", [f"{bias}.whole"], [f"{bias}.32bit"], to=TensorProto.INT32),
                helper.make_node("DequantizeLinear", [f"{bias}.32bit", step], [f"{bias}.rounded"], axis=0),
            ]
            node.input[1], node.input[2] = f"{kernel}.rounded", f"{bias}.rounded"
        for index, name in enumerate(node.input):
            if name in tensors:
                node.input[index] = f"{name}.rounded"
        result.append(node)
        for name in node.output:
            if name in tensors:
                result += rounding(name)
    graph.ClearField("node")
    graph.node.extend(result)
    first = next(node for node in graph.node if node.op_type == "Conv")
    widen_first_convolution(graph, _kernel_channels(first, *_producers_and_channels(graph)))
    gather_before_dequantizing(graph)


def quantized_nodes(graph: Any) -> tuple[list[Any], dict[str, str]]:
    """Find the nodes of an onnx.GraphProto to compute in 8 bits, in graph order, and the tensors to round.

    Each tensor that the nodes read or write is mapped to the tensor to round: the same one or the output of its ReLU.
    If a ReLU follows a node, the output of the ReLU is rounded instead, because ONNX Runtime fuses both operators. The
    convolution that reads the image is not rounded. On a blank page the errors of an 8-bit kernel would add up to the
    same value in every cell, and the faint grain of the paper would look like a structure. The pooling after it is not
    rounded either: rounding keeps the order of values, and ONNX Runtime has no fast pooling in 8 bits.
    """
    consumers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            consumers.setdefault(name, []).append(node)
    producer, channels = _producers_and_channels(graph)
    nodes: list[Any] = []
    rounded: dict[str, str] = {}
    first = next(node for node in graph.node if node.op_type == "Conv")
    for node in graph.node:
        data = node.input[:2] if node.op_type == "Add" else node.input[:1]
        if node.op_type == "Conv":
            selected = _kernel_channels(node, producer, channels) >= MIN_CHANNELS
        else:
            selected = node.op_type in QUANTIZABLE and all(name in rounded.values() for name in data)
        if not selected:
            continue
        if node is first:
            continue
        nodes.append(node)
        if node.op_type == "Conv" and data[0] not in rounded.values():
            rounded[data[0]] = data[0]
        after = consumers.get(node.output[0], [])
        relu = len(after) == 1 and after[0].op_type == "Relu"
        rounded[node.output[0]] = after[0].output[0] if relu else node.output[0]
    return nodes, rounded


def _before_pooling(graph: Any, tensors: list[str]) -> dict[str, str]:
    """Return the tensor from which the range of each tensor is measured: that before a pooling with a ReLU after it.

    Of the values before the pooling a smaller share are outliers, so that their range is the narrower one.
    """
    producer = {name: node for node in graph.node for name in node.output}
    result = {}
    for name in tensors:
        relu = producer.get(name)
        pool = producer.get(relu.input[0]) if relu is not None and relu.op_type == "Relu" else None
        result[name] = pool.input[0] if pool is not None and pool.op_type == "MaxPool" else name
    return result


def _doubles_cells(node: Any, graph: Any) -> bool:
    """Return True if a node repeats each cell of (B,C,h,w) twice along both axes, as torch exports `interpolate`."""
    from onnx import helper

    if node.op_type != "Resize" or len(node.input) < 3:
        return False
    options = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    scales = next((list(source.attribute[0].floats) for source in graph.node if source.output[0] == node.input[2]), [])
    mode = options.get("mode"), options.get("nearest_mode"), options.get("coordinate_transformation_mode")
    return scales == [1, 1, 2, 2] and mode == (b"nearest", b"floor", b"asymmetric")


def _producers_and_channels(graph: Any) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the node that computes each tensor, and the output channels of each stored convolution kernel."""
    channels = {tensor.name: tensor.dims[0] for tensor in graph.initializer if len(tensor.dims) == 4}
    return {name: node for node in graph.node for name in node.output}, channels


def _kernel_channels(conv: Any, producer: dict[str, Any], channels: dict[str, int]) -> int:
    """Return the number of output channels of a convolution, 0 if its kernel does not come from a stored one."""
    name = conv.input[1]
    while name not in channels and name in producer:
        name = producer[name].input[0]
    return channels.get(name, 0)
