"""Convolutions in 8 bits: ranges of activations from images, and the graph nodes that make ONNX Runtime use them.

The weights stay as they are stored, float16. The graph holds their scales alone: cast, fold the batch normalization,
round to 8 bits, all of it constant, so that ONNX Runtime does it once while loading.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeformer.synthetic import make_image

PASSING = ("Conv", "Add", "MaxPool", "Resize")  # operators that have 8-bit kernels
CHOOSING = ("MaxPool", "Resize")  # those that only choose among values; in 8 bits if the range stays the same
LEAST_CHANNELS = 16  # a convolution to fewer channels is a head: it costs little, and its numbers matter
STEPS = 255  # of 8 bits; activations have no sign, because x86 has quick kernels for no other kind
# Of 127. An x86 without VNNI adds two products of 8 bits in 16: 2 · 255 · 63 is the most that they hold.
LARGEST_WEIGHT = 63
LARGEST_BIAS = 2**30  # in steps: half of what 32 bits hold, the other half is for the products that are added to it
# Of a tensor's values in an image, on either side, may be cut off for finer steps. In a drawing the plant is few cells
# of a blank page: ten times as many would be its twigs.
OUTLIERS_PERCENT = 0.001
SMALLEST_SCALE = 1e-8
CALIBRATION_SEED = 900_000  # no validation image has seeds near it


class Ranges(NamedTuple):
    """What rounding to 8 bits needs to know."""

    tensors: dict[str, tuple[float, float]]  # lowest and highest value of each tensor
    kernels: dict[str, NDArray[np.float32]]  # largest magnitude in each output channel of each convolution's kernel
    biases: dict[str, NDArray[np.float32]]  # each convolution's bias


def calibration_images(side: int, count: int = 16) -> Iterable[NDArray[np.uint8]]:
    """Synthetic plants of all kinds, in both looks: (side,side,3) each."""
    kinds = ("paper", "taproot", "seedling", "vine")
    for index in range(count):
        style = ("paper", "photo")[index % 2]
        yield make_image(kinds[index // 2 % len(kinds)], style, CALIBRATION_SEED + index, (side, side))[0]


def measure(proto: Any, folder: Path, images: Iterable[NDArray[np.uint8]]) -> Ranges:
    """Run a graph, whose weights lie in `folder`, on images and note what its convolutions see."""
    import onnx
    import onnxruntime

    nodes, rounded = quantized_nodes(proto.graph)
    tensors = list(dict.fromkeys(rounded.values()))
    kernels = [node.input[1] for node in nodes if node.op_type == "Conv"]
    biases = [node.input[2] for node in nodes if node.op_type == "Conv"]
    watched = onnx.ModelProto()
    watched.CopyFrom(proto)
    watched.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in tensors + kernels + biases)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".onnx") as file:  # beside the weights it refers to
        Path(file.name).write_bytes(watched.SerializeToString())
        session = onnxruntime.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])
    lows: dict[str, list[float]] = {name: [] for name in tensors}
    highs: dict[str, list[float]] = {name: [] for name in tensors}
    weights: dict[str, NDArray[np.float32]] = {}
    for image in images:
        for name, values in zip(tensors, session.run(tensors, {"images": image[None]}), strict=True):
            low, high = np.percentile(values, [OUTLIERS_PERCENT, 100 - OUTLIERS_PERCENT])
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
    """Let a graph's convolutions, and what lies between them, work in 8 bits; in place."""
    from onnx import TensorProto, helper, numpy_helper

    graph = proto.graph
    nodes, rounded = quantized_nodes(graph)
    tensors = set(rounded.values())
    convolutions = {node.output[0] for node in nodes if node.op_type == "Conv"}

    def store(name: str, values: Any) -> None:
        graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))

    def rounding(name: str, axis: int | None = None) -> list[Any]:
        """`name` → `name`.rounded, by way of 8 bits."""
        at = {} if axis is None else {"axis": axis}
        scale, zero = f"{name}.scale", f"{name}.zero"
        return [
            helper.make_node("QuantizeLinear", [name, scale, zero], [f"{name}.8bit"], **at),
            helper.make_node("DequantizeLinear", [f"{name}.8bit", scale, zero], [f"{name}.rounded"], **at),
        ]

    def doubling(source: str, name: str) -> list[Any]:
        """`source`.8bit (B,C,h,w) → `name`.rounded (B,C,2h,2w), each cell four times, all channels of it in one piece.

        ONNX Runtime's Resize would go from number to number.
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
    doubles = {node.output[0] for node in nodes if _doubles(node, graph)}
    known = dict(ranges.tensors)
    for node in nodes:
        if node.op_type in CHOOSING:
            known[node.output[0]] = known[node.input[0]]
    steps: dict[str, float] = {}
    for name in sorted(tensors):
        low, high = min(known[name][0], 0.0), max(known[name][1], 0.0)
        scale = max((high - low) / STEPS, SMALLEST_SCALE)
        steps[name] = scale
        store(f"{name}.scale", np.float32(scale))
        store(f"{name}.zero", np.uint8(np.clip(round(-low / scale), 0, STEPS)))
    result = []
    for node in graph.node:
        if node.output[0] in doubles:
            result += doubling(node.input[0], node.output[0])
            continue
        if node.output[0] in convolutions:
            source, kernel, bias = node.input
            # The bias counts in products of both scales, and 32 bits must hold it: a channel whose kernel is
            # nothing beside its bias, as a normalization can make it, gets coarser steps than the kernel asks for.
            scale = np.maximum(ranges.kernels[kernel] / LARGEST_WEIGHT, SMALLEST_SCALE)
            scale = np.maximum(scale, np.abs(ranges.biases[bias]) / (LARGEST_BIAS * steps[source])).astype(np.float32)
            store(f"{kernel}.scale", scale)
            store(f"{kernel}.zero", np.zeros(len(scale), np.int8))
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
        for place, name in enumerate(node.input):
            if name in tensors:
                node.input[place] = f"{name}.rounded"
        result.append(node)
        for name in node.output:
            if name in tensors:
                result += rounding(name)
    graph.ClearField("node")
    graph.node.extend(result)


def quantized_nodes(graph: Any) -> tuple[list[Any], dict[str, str]]:
    """The nodes to compute in 8 bits, and the tensors that are to be rounded, in the order of the graph.

    A ReLU that follows is taken along: the tensor after it is rounded instead, which ONNX Runtime makes one operator.
    Of the convolution that reads the image the output alone is rounded. On a blank page the errors of its kernel add
    up to the same in every cell, and what is faint there, the grain of the paper, would look like something.

    Returns:
        nodes; {tensor that one of them reads or makes: the one to round, which is the same or comes after its ReLU}.
    """
    consumers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            consumers.setdefault(name, []).append(node)
    channels = {tensor.name: tensor.dims[0] for tensor in graph.initializer if len(tensor.dims) == 4}
    producer = {name: node for node in graph.node for name in node.output}
    nodes: list[Any] = []
    rounded: dict[str, str] = {}
    first = next(node for node in graph.node if node.op_type == "Conv")
    for node in graph.node:
        data = node.input[:2] if node.op_type == "Add" else node.input[:1]
        if node.op_type == "Conv":
            takes = _kernel_channels(node, producer, channels) >= LEAST_CHANNELS
        else:
            takes = node.op_type in PASSING and all(name in rounded.values() for name in data)
        if not takes:
            continue
        if node is not first:
            nodes.append(node)
            if node.op_type == "Conv" and data[0] not in rounded.values():
                rounded[data[0]] = data[0]
        after = consumers.get(node.output[0], [])
        relu = len(after) == 1 and after[0].op_type == "Relu"
        rounded[node.output[0]] = after[0].output[0] if relu else node.output[0]
    return nodes, rounded


def _doubles(node: Any, graph: Any) -> bool:
    """Whether a node repeats each cell of (B,C,h,w) twice in both directions, as torch's `interpolate` is exported."""
    from onnx import helper

    if node.op_type != "Resize" or len(node.input) < 3:
        return False
    how = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    scales = next((list(other.attribute[0].floats) for other in graph.node if other.output[0] == node.input[2]), [])
    nearest = how.get("mode"), how.get("nearest_mode"), how.get("coordinate_transformation_mode")
    return scales == [1, 1, 2, 2] and nearest == (b"nearest", b"floor", b"asymmetric")


def _kernel_channels(conv: Any, producer: dict[str, Any], channels: dict[str, int]) -> int:
    """Output channels of a convolution whose kernel is a stored one, perhaps scaled."""
    name = conv.input[1]
    while name not in channels and name in producer:
        name = producer[name].input[0]
    return channels.get(name, 0)
