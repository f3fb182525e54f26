"""Make the convolution that reads the image independent of the order of its sums.

This convolution is computed in float32, and its output is rounded to 8 bits. Processors add its products in different
orders. A few outputs that lie next to a limit of rounding are then rounded differently, and with every further layer of
8-bit convolutions more values are. Here the kernels become integers times a power of two, and so small
that all sums of products with pixels are below 2²⁴: float32 represents each of them exactly, in whatever order they are
added. The further layers add integers; `treeformer.hub.exact_addition` treats the additions between them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeformer._util.arrays import FloatArray

MAX_SUM = 2**24  # float32 represents all integers up to here
CHANNELS = 3
WHITE = 255


def make_exact(graph: Any) -> bool:
    """Replace the first convolution of a graph, an `onnx.GraphProto` with its weights, by one with exact sums.

    The padding around the image is the mean color of the normalization, rounded to whole pixel values. Return False if
    the input does not reach the convolution as `pixel * a + b` with one `a` and `b` per channel.
    """
    from onnx import TensorProto, helper, numpy_helper

    constants = {tensor.name: tensor for tensor in graph.initializer}
    producers = {name: node for node in graph.node for name in node.output}
    conv = next((node for node in graph.node if node.op_type == "Conv"), None)
    if conv is None or len(conv.input) < 3 or any(name not in constants for name in conv.input[1:]):
        return False
    steps, name = [], conv.input[0]
    while name in producers and producers[name].op_type != "Cast":
        node = producers[name]
        values = channel_values(constants.get(node.input[1]) if len(node.input) == 2 else None)
        if node.op_type not in ("Mul", "Div", "Add", "Sub") or values is None:
            return False
        steps.append((node.op_type, values))
        name = node.input[0]
    if name not in producers or producers[name].input[0] not in producers:
        return False
    cast, transpose = producers[name], producers[producers[name].input[0]]
    to = next((entry.i for entry in cast.attribute if entry.name == "to"), None)
    inputs = {entry.name for entry in graph.input if entry.type.tensor_type.elem_type == TensorProto.UINT8}
    if to != TensorProto.FLOAT or transpose.op_type != "Transpose" or transpose.input[0] not in inputs:
        return False
    factor, offset = np.ones(CHANNELS), np.zeros(CHANNELS)
    for kind, values in reversed(steps):
        factor = {"Mul": factor * values, "Div": factor / values}.get(kind, factor)
        offset = {"Mul": offset * values, "Div": offset / values, "Add": offset + values, "Sub": offset - values}[kind]
    kernel, bias = (numpy_helper.to_array(constants[name]) for name in conv.input[1:])
    color, kernel, bias = exact_kernel(kernel, bias, factor, offset)
    parts = {
        f"{conv.output[0]}.color": color.reshape(1, CHANNELS, 1, 1),
        f"{conv.output[0]}.kernel": kernel,
        f"{conv.output[0]}.bias": bias,
    }
    graph.initializer.extend(numpy_helper.from_array(values, name) for name, values in parts.items())
    centered = f"{conv.output[0]}.centered"
    graph.node.insert(list(graph.node).index(conv), helper.make_node("Sub", [name, next(iter(parts))], [centered]))
    conv.input[:] = [centered, *list(parts)[1:]]
    drop_unused(graph)
    return True


def exact_kernel(
    kernel: FloatArray, bias: FloatArray, factor: FloatArray, offset: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a convolution of pixels that has exact sums: color (C,), kernel (O,C,h,w) and bias (O,).

    The given kernel is for normalized pixels `pixel * factor + offset`, the returned one for `pixel - color` with a
    color of whole numbers. Each channel's values are multiples of a power of two, and no sum of its products exceeds
    2²⁴ times it.

    Example:
        >>> kernel, bias = np.array([[[[0.1, -0.2]]]], np.float32), np.zeros(1, np.float32)
        >>> color, exact, _ = exact_kernel(kernel, bias, np.array([1 / 255]), np.array([-0.5]))
        >>> color, round(255 * float(exact[0, 0, 0, 1]), 5)
        (array([128.], dtype=float32), -0.2)
    """
    color = np.clip(np.rint(-offset / factor), 0, WHITE)
    weights = kernel.astype(float) * factor[:, None, None]
    shift = bias + (kernel.astype(float) * (offset + factor * color)[:, None, None]).sum((1, 2, 3))
    largest = (np.abs(weights) * np.maximum(color, WHITE - color)[:, None, None]).sum((1, 2, 3)) + np.abs(shift)
    # Rounding enlarges each of the summands by at most half a step times a pixel value.
    slack = WHITE * weights[0].size / 2 + 1
    step = 2.0 ** np.ceil(np.log2(np.maximum(largest, np.finfo(float).tiny) / (MAX_SUM - slack)))
    by_kernel = step[:, None, None, None]
    rounded, shift = np.rint(weights / by_kernel) * by_kernel, np.rint(shift / step) * step
    return color.astype(np.float32), rounded.astype(np.float32), shift.astype(np.float32)


def channel_values(tensor: Any) -> FloatArray | None:
    """Return the values of a constant per channel, (3,). None if the tensor is None or varies within a channel."""
    from onnx import numpy_helper

    if tensor is None:
        return None
    values = numpy_helper.to_array(tensor)
    if values.size == 1:
        return np.full(CHANNELS, values.item(), float)
    if values.ndim < 3 or values.shape[-3] != CHANNELS or values.size % CHANNELS:
        return None
    rows = np.moveaxis(values, -3, 0).reshape(CHANNELS, -1)
    return rows[:, 0].astype(float) if (rows == rows[:, :1]).all() else None


def drop_unused(graph: Any) -> None:
    """Remove, in place, the nodes and weights of a graph, without subgraphs, that no output depends on."""
    needed = {output.name for output in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    weights = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(reversed(kept))
    graph.initializer.extend(weights)
