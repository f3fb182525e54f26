"""Rewrites of ONNX graphs in place that keep their results and save time in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

CHANNEL_BLOCK = 16  # ONNX Runtime pools whole blocks of channels, or else one channel after the other
MOVING = ("Transpose", "Reshape")  # operators that only move values


def replace_cast_like(proto: Any) -> None:
    """Replace CastLike by Cast. ONNX Runtime does so too, but only after it has evaluated constant expressions."""
    from onnx import helper, shape_inference

    inferred = shape_inference.infer_shapes(proto).graph.value_info
    types = {value.name: value.type.tensor_type.elem_type for value in inferred}
    for node in proto.graph.node:
        if node.op_type == "CastLike" and types.get(node.output[0]):
            node.op_type = "Cast"
            node.attribute.append(helper.make_attribute("to", types[node.output[0]]))
            del node.input[1]


def widen_first_convolution(graph: Any, channels: int) -> None:
    """Let the convolution that reads the image compute whole blocks of channels, for the pooling after it.

    It has `channels` output channels. The graph is unchanged if no pooling follows.
    """
    from onnx import helper

    missing = -channels % CHANNEL_BLOCK
    conv = next(node for node in graph.node if node.op_type == "Conv")
    pool = next((node for node in graph.node if node.op_type == "MaxPool" and node.input[0] == conv.output[0]), None)
    if not missing or pool is None:
        return
    padded = []
    for index, axes in ((1, 4), (2, 1)):  # the kernel (channels,3,7,7) and the bias (channels,)
        name = conv.input[index]
        pads = _store(graph, f"{name}.pads", [0] * axes + [missing] + [0] * (axes - 1))
        padded.append(helper.make_node("Pad", [name, pads], [f"{name}.wide"]))
        conv.input[index] = f"{name}.wide"
    name = pool.output[0]
    pool.output[0] = f"{name}.wide"
    bounds = [_store(graph, f"{name}.{part}", [at]) for part, at in (("start", 0), ("end", channels), ("axis", 1))]
    narrow = helper.make_node("Slice", [f"{name}.wide", *bounds], [name])
    nodes = []
    for node in graph.node:
        nodes += [*padded, node] if node is conv else [node, narrow] if node is pool else [node]
    graph.ClearField("node")
    graph.node.extend(nodes)


def gather_before_dequantizing(graph: Any) -> None:
    """Gather rows of 8-bit maps, and dequantize the gathered rows instead of the whole map."""
    import onnx
    from onnx import helper

    in_8_bits: dict[str, tuple[str, list[str]]] = {}  # tensor to its 8-bit values, and their scale and zero point
    nodes = []
    for node in graph.node:
        nodes.append(node)
        if node.op_type == "DequantizeLinear" and not node.attribute:  # one scale for all channels
            in_8_bits[node.output[0]] = node.input[0], list(node.input[1:])
        if node.op_type not in (*MOVING, "Gather") or node.input[0] not in in_8_bits:
            continue
        (values, step), result = in_8_bits[node.input[0]], node.output[0]
        moved = f"{result}.in_8_bits"
        moving = onnx.NodeProto()
        moving.CopyFrom(node)
        moving.name = f"{node.name}_in_8_bits" if node.name else ""
        moving.input[0], moving.output[0] = values, moved
        if node.op_type == "Gather":
            nodes[-1:] = [moving, helper.make_node("DequantizeLinear", [moved, *step], [result])]
        else:  # the other one stays for those who need the numbers; ONNX Runtime leaves out what is not read
            nodes.append(moving)
            in_8_bits[result] = moved, step
    graph.ClearField("node")
    graph.node.extend(nodes)


def _store(graph: Any, name: str, numbers: list[int]) -> str:
    """Add a constant to a graph and return its name."""
    from onnx import numpy_helper

    graph.initializer.append(numpy_helper.from_array(np.array(numbers), name))
    return name
