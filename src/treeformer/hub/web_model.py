"""Write a model for the web page: one ONNX file with 8-bit weights, and its settings as JSON. Needs onnx, not torch.

A model folder stores float16 weights and a graph that casts, folds and rounds them while ONNX Runtime loads it. In a
browser this takes long, and the download is twice as large as it has to be. Here ONNX Runtime evaluates all of it in
advance. The kernels of convolutions are then 8-bit values. The remaining matrices are rounded to 8 bits with one scale
per column; the graph multiplies them by their scales while it is loaded.

A graph is an `onnx.GraphProto` that holds its weights and is changed in place.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer._util.files import atomic_write, sha256
from treeformer.hub.exact_addition import make_additions_exact
from treeformer.hub.exact_convolution import drop_unused, make_exact
from treeformer.hub.model_folder import ModelFolder, ModelFolderError

GRAPH = "model.onnx"
SOURCE = "source.onnx"
SETTINGS = "model.json"
MIN_WEIGHTS = 2048  # smaller matrices stay float32: they cost little and rounding them costs accuracy
STEPS = 127


def write_web_model(model: ModelFolder, folder: Path) -> Path:
    """Write `model.onnx` and `model.json` for the web page from a model with an 8-bit graph; return the ONNX file."""
    try:
        import onnx
    except ModuleNotFoundError:
        raise ModelFolderError("a model for the web needs onnx: pip install 'treeformer[export]'") from None
    graph = fold_constants(model)
    folder.mkdir(parents=True, exist_ok=True)
    make_exact(graph.graph)
    make_additions_exact(graph.graph)
    drop_unused(graph.graph)
    round_matrices(graph.graph)
    graph.producer_name = "treeformer"
    del graph.metadata_props[:]
    used = {node.domain for node in graph.graph.node}
    for entry in [entry for entry in graph.opset_import if entry.domain not in used]:
        graph.opset_import.remove(entry)
    for node in graph.graph.node:
        node.ClearField("doc_string")
        del node.metadata_props[:]
    del graph.graph.value_info[:]
    with atomic_write(folder / GRAPH) as temporary:
        onnx.save_model(graph, str(temporary), save_as_external_data=False)
    settings = {"name": model.path.name} | asdict(model.config)
    settings["tile_step"] = model.config.tile_step
    settings["sha256"] = sha256(folder / GRAPH)
    with atomic_write(folder / SETTINGS) as temporary:
        temporary.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    return folder / GRAPH


def fold_constants(model: ModelFolder) -> Any:
    """Evaluate all constant expressions of the 8-bit graph; return an `onnx.ModelProto` with all of its weights."""
    import onnx
    import onnxruntime

    source = model.graph("int8")
    graph = onnx.load(str(source), load_external_data=False)
    keep_ranges(graph.graph)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        shutil.copyfile(model.weights, work / model.weights.name)
        onnx.save_model(graph, str(work / SOURCE))
        options = onnxruntime.SessionOptions()
        # Higher levels fuse operators in a way that depends on the processor of this machine.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(work / GRAPH)
        options.enable_mem_reuse = False
        options.log_severity_level = 3
        try:
            onnxruntime.InferenceSession(str(work / SOURCE), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the exception classes of ONNX Runtime have no common base class
            raise ModelFolderError(f"{source}: {str(error).strip().splitlines()[0]}") from None
        # Weights that the graph uses as they are still lie in the file of the weights.
        return onnx.load(str(work / GRAPH))


def keep_ranges(graph: Any) -> None:
    """Start each range of numbers at a zero that is known with the image only, so that it is not evaluated before.

    The positions of all cells, and what follows from them, take more bytes than the weights.
    """
    from onnx import helper, numpy_helper

    ranges = [node for node in graph.node if node.op_type == "Range"]
    if not ranges:
        return
    graph.initializer.append(numpy_helper.from_array(np.array(0), "zero.axis"))
    zero = [
        helper.make_node("Shape", [graph.input[0].name], ["zero.shape"]),
        helper.make_node("Gather", ["zero.shape", "zero.axis"], ["zero.batch"]),
        helper.make_node("Sub", ["zero.batch", "zero.batch"], ["zero"]),
    ]
    nodes = zero
    for node in graph.node:
        if node in ranges:
            start = f"{node.output[0]}.start"
            nodes.append(helper.make_node("CastLike", ["zero", node.input[0]], [f"{start}.zero"]))
            nodes.append(helper.make_node("Add", [node.input[0], f"{start}.zero"], [start]))
            node.input[0] = start
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def round_matrices(graph: Any) -> None:
    """Replace the float32 matrices that MatMul and Gemm multiply by with 8-bit values and scales."""
    from onnx import TensorProto, helper, numpy_helper

    uses: dict[str, set[tuple[str, int, bool]]] = {}
    for node in graph.node:
        transposed = any(entry.name == "transB" and entry.i for entry in node.attribute)
        for place, name in enumerate(node.input):
            uses.setdefault(name, set()).add((node.op_type, place, transposed))
    casts = []
    for tensor in list(graph.initializer):
        kinds = uses.get(tensor.name, set())
        multiplied = bool(kinds) and all(kind[0] in ("MatMul", "Gemm") and kind[1] == 1 for kind in kinds)
        if tensor.data_type != TensorProto.FLOAT or not multiplied or np.prod(tensor.dims) < MIN_WEIGHTS:
            continue
        if len({kind[2] for kind in kinds}) > 1:  # used both as it is and transposed: no common column
            continue
        axis = -1 if next(iter(kinds))[2] else -2
        values, scale = round_to_8_bits(numpy_helper.to_array(tensor), axis)
        names = f"{tensor.name}.int8", f"{tensor.name}.float", f"{tensor.name}.scale"
        graph.initializer.remove(tensor)
        graph.initializer.append(numpy_helper.from_array(values, names[0]))
        graph.initializer.append(numpy_helper.from_array(scale, names[2]))
        casts.append(helper.make_node("Cast", [names[0]], [names[1]], to=TensorProto.FLOAT))
        casts.append(helper.make_node("Mul", [names[1], names[2]], [tensor.name]))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def round_to_8_bits(weights: FloatArray, axis: int) -> tuple[np.ndarray[Any, np.dtype[np.int8]], FloatArray]:
    """Round weights to values from -127 to 127, with one scale for all values along an axis.

    The scales broadcast against the values: `values * scales` approximates the weights to half a scale.

    Example:
        >>> values, scale = round_to_8_bits(np.array([[1.0, 0.0], [-0.5, 0.0]], np.float32), 0)
        >>> values.tolist()
        [[127, 0], [-64, 0]]
    """
    scale = np.abs(weights).max(axis=axis, keepdims=True) / STEPS
    scale = np.where(scale == 0, np.float32(1), scale).astype(np.float32)
    return np.rint(weights / scale).astype(np.int8), scale
