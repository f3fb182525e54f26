"""Make the 8-bit additions of a graph independent of the processor.

An 8-bit addition computes `a · A/C + b · B/C` in float32, where A, B and C are the scales of its inputs and its output,
and rounds the sum. Some processors round the products first, others do not. Here the scales are enlarged a little so
that A/C and B/C have few digits. Products and sums are then exact, and only the result is rounded.
See `treeformer.hub.exact_convolution` for the reason.

A graph is an `onnx.GraphProto` that holds its weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BASE_BITS = 4  # binary digits behind the point of the number that the scales of sums have in common
LEAF_BITS = 8  # binary digits of the ratio between a sum and another tensor
STEPS = 255
MOVING = frozenset({"Transpose", "Reshape", "Unsqueeze", "Squeeze", "Concat", "MaxPool", "Resize", "Slice", "Gather"})


@dataclass(eq=False)
class Group:
    """Tensors that have one scale, because operators between them only move or select values."""

    scale: float
    zero: int
    quantizers: list[Any] = field(default_factory=list)
    dequantizers: list[Any] = field(default_factory=list)
    chosen: float | None = None


def make_additions_exact(graph: Any) -> int:
    """Choose scales, in place, with which all 8-bit additions of a graph are exact; return the number of additions.

    The additions lie between pairs of QuantizeLinear and DequantizeLinear.
    """
    from onnx import numpy_helper

    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    groups = scale_groups(graph, constants)
    producers = {name: node for node in graph.node for name in node.output}
    consumers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            consumers.setdefault(name, []).append(node)
    additions = []
    for node in graph.node:
        if node.op_type != "Add":
            continue
        after = consumers.get(node.output[0], [])
        if len(after) == 1 and after[0].op_type == "Relu":
            after = consumers.get(after[0].output[0], [])
        parts = [groups.get(id(producers.get(name))) for name in node.input]
        result = groups.get(id(after[0])) if len(after) == 1 else None
        if result is not None and all(part is not None for part in parts):
            additions.append((result, [part for part in parts if part is not None]))
    choose_scales(additions)
    changed = {id(group): group for group in groups.values() if group.chosen not in (None, group.scale)}
    for index, group in enumerate(changed.values()):
        _rescale(graph, group, f"exact_scale_{index}", constants, producers, consumers)
    return len(additions)


def choose_scales(additions: list[tuple[Group, list[Group]]]) -> None:
    """Choose the scales of the output and inputs of additions in topological order; none becomes finer than it was.

    Sums that depend on each other get scales that differ by powers of two. The scale of another input is that of the
    sum times a number of few digits.
    """
    chain = {id(result): {id(result): result} for result, _ in additions}
    for result, parts in additions:
        for part in parts:
            if id(part) in chain and chain[id(part)] is not chain[id(result)]:
                chain[id(result)].update(chain[id(part)])
                for key in list(chain[id(part)]):
                    chain[key] = chain[id(result)]
    candidates = [1 + k / 2**BASE_BITS for k in range(2**BASE_BITS)]
    for members in {id(members): members for members in chain.values()}.values():
        scales = {key: {base: multiple(group.scale, base) for base in candidates} for key, group in members.items()}
        base = min(candidates, key=lambda one: sum(math.log2(scale[one]) for scale in scales.values()))
        for key, group in members.items():
            group.chosen = scales[key][base]
    for result, parts in reversed(additions):
        for part in parts:
            if part.chosen is None and result.chosen is not None:
                part.chosen = result.chosen * enlarged(part.scale / result.chosen, LEAF_BITS)


def multiple(value: float, base: float) -> float:
    """Return the smallest base · 2ⁿ that is not below a positive value.

    Example:
        >>> multiple(5.0, 1.5), multiple(3.0, 1.5), multiple(0.1, 1.0)
        (6.0, 3.0, 0.125)
    """
    return base * enlarged(value / base, 1)


def scale_groups(graph: Any, constants: dict[str, Any]) -> dict[int, Group]:
    """Return the group of 8-bit tensors with a common scale of each node that quantizes or dequantizes, by its id.

    The nodes are QuantizeLinear and DequantizeLinear of activations; `constants` are the weights by name.
    """
    parent: dict[str, str] = {}

    def find(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    def is_activation(node: Any) -> bool:
        return len(node.input) == 3 and node.input[0] not in constants and constants[node.input[1]].ndim == 0

    chosen = [
        node for node in graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear") and is_activation(node)
    ]
    known: set[str] = set()
    for node in graph.node:
        if any(node is one for one in chosen) or (node.op_type in MOVING and any(name in known for name in node.input)):
            known.update(node.output)
            inputs = [name for name in node.input[:1] if name not in constants]
            if node.op_type == "Concat":
                inputs = list(node.input)
            # A quantizer begins a group, unless what it rounds was only moved since it was rounded last.
            if node.op_type == "QuantizeLinear" and node.input[0] not in parent:
                inputs = []
            for name in inputs:
                parent[find(name)] = find(node.output[0])
    groups: dict[tuple[str, float, int], Group] = {}
    result = {}
    for node in chosen:
        scale, zero = float(constants[node.input[1]]), int(constants[node.input[2]])
        key = find(node.output[0]), scale, zero
        group = groups.setdefault(key, Group(scale, zero))
        (group.quantizers if node.op_type == "QuantizeLinear" else group.dequantizers).append(node)
        result[id(node)] = group
    return result


def enlarged(value: float, bits: int) -> float:
    """Return the smallest number with a mantissa of some bits that is not below a positive value.

    Example:
        >>> enlarged(1.1, 3), enlarged(1.25, 3), enlarged(0.9, 3)
        (1.25, 1.25, 1.0)
    """
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(mantissa * 2**bits), exponent - bits)


def _rescale(
    graph: Any,
    group: Group,
    name: str,
    constants: dict[str, Any],
    producers: dict[str, Any],
    consumers: dict[str, list[Any]],
) -> None:
    """Give the tensors of a group its chosen scale, and the convolutions that read them a bias in its unit."""
    from onnx import numpy_helper

    assert group.chosen is not None
    zero = min(STEPS, round(group.zero * group.scale / group.chosen))
    graph.initializer.append(numpy_helper.from_array(np.array(group.chosen, np.float32), name))
    graph.initializer.append(numpy_helper.from_array(np.array(zero, np.uint8), f"{name}.zero"))
    for node in (*group.quantizers, *group.dequantizers):
        node.input[1], node.input[2] = name, f"{name}.zero"
    readers = [one for node in group.dequantizers for one in consumers.get(node.output[0], [])]
    for conv in readers:
        if conv.op_type != "Conv" or len(conv.input) < 3:
            continue
        kernel, bias = producers[conv.input[1]], producers[conv.input[2]]
        steps = constants[kernel.input[1]].astype(np.float32) * np.float32(group.chosen)
        factor = constants[bias.input[1]].astype(float) / steps.astype(float)
        values = np.rint(constants[bias.input[0]] * factor).astype(np.int32)
        for suffix, array, place in (("steps", steps, 1), ("values", values, 0)):
            bias.input[place] = f"{conv.output[0]}.bias.{suffix}"
            graph.initializer.append(numpy_helper.from_array(array, bias.input[place]))
            constants[bias.input[place]] = array
