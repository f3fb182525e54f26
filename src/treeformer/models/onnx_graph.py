"""The ONNX graphs of a model folder. Their weights refer to the safetensors file, so they are stored only once."""

from __future__ import annotations

import ast
import logging
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from treeformer._util.arrays import ImageArray
from treeformer._util.files import atomic_write
from treeformer.errors import TreeformerError
from treeformer.hub import safetensors
from treeformer.hub.model_folder import GRAPH, INT8_GRAPH, WEIGHTS, ModelFolder, ModelSettings
from treeformer.models.config import TreeFormerConfig
from treeformer.models.inference_model import InferenceModel, output_names
from treeformer.models.onnx_rewrites import replace_cast_like
from treeformer.models.quantize import calibration_images, measure, quantize
from treeformer.models.treeformer import TreeFormer

SCOPES = "pkg.torch.onnx.name_scopes"  # metadata key: names of the modules around a node, and of the node
PREFIX = "model."  # name of the network in InferenceModel
IN_GRAPH = ("input_size", "candidate_threshold", "min_peak_heat")  # settings that the graph contains as constants


def write_graphs(
    folder: Path,
    model: TreeFormer,
    settings: ModelSettings,
    *,
    int8: bool = True,
    images: Iterable[ImageArray] | None = None,
    like: ModelFolder | None = None,
) -> None:
    """Write model.onnx and model-int8.onnx into a model folder. They take any number of images of one size.

    The weights are in the folder already. Without `int8`, an existing model-int8.onnx is removed. The ranges of the
    8-bit graph are measured on `images`, (S,S,3) uint8 RGB each, by default synthetic ones. The graph of the model
    folder `like` is used instead of a new one if it differs in the weights only.
    """
    if like is not None and has_same_graph(folder, settings, like):
        proto = read_graph(like)
    else:
        proto = trace(model, settings)
        externalize_weights(proto, folder / WEIGHTS)
    _write(folder / GRAPH, proto)
    if int8:
        quantize(proto, measure(proto, folder, images or calibration_images(settings.input_size)))
        _write(folder / INT8_GRAPH, proto)
    else:
        (folder / INT8_GRAPH).unlink(missing_ok=True)


def has_same_graph(folder: Path, settings: ModelSettings, other: ModelFolder) -> bool:
    """Check if the graph of another model folder is also that of a network with these settings.

    The weights are not in the graph, only their positions in the file of the weights, which is in `folder` already.
    """
    one, two = settings, other.config
    return (
        one.architecture == two.architecture
        and TreeFormerConfig.from_dict(dict(one.settings)) == TreeFormerConfig.from_dict(dict(two.settings))
        and all(getattr(one, name) == getattr(two, name) for name in IN_GRAPH)
        and safetensors.read_header(folder / WEIGHTS)[0] == safetensors.read_header(other.weights)[0]
    )


def read_graph(folder: ModelFolder) -> Any:
    """Return the graph of a model folder as an onnx.ModelProto that refers to the file of the weights."""
    import onnx

    return onnx.load(folder.path / GRAPH, load_external_data=False)


def _write(path: Path, proto: Any) -> None:
    with atomic_write(path) as temporary:
        temporary.write_bytes(proto.SerializeToString(deterministic=True))


def trace(model: TreeFormer, settings: ModelSettings) -> Any:
    """Trace the network to an onnx.ModelProto that contains the weights. onnx and onnxscript must be installed."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ModuleNotFoundError as error:
        raise TreeformerError(f"export needs {error.name}: pip install 'treeformer[export]'") from None
    side = settings.input_size
    example = torch.zeros(2, side, side, 3, dtype=torch.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        program = torch.onnx.export(
            InferenceModel(model.eval(), settings.candidate_threshold, settings.min_peak_heat).eval(),
            (example,),
            input_names=["images"],
            output_names=list(output_names(model.config)),
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            dynamo=True,
            optimize=False,
            verbose=False,
        )
    assert program is not None  # with dynamo=True the export always returns a program
    proto: Any = program.model_proto
    graph = proto.graph
    replace_cast_like(proto)
    for index, node in enumerate(graph.node):
        node.name = f"{_module_of(node)}/{node.op_type}_{index}"  # so that a profile shows the part of the network
    graph.ClearField("value_info")
    for message in [*graph.node, *graph.input, *graph.output, *graph.initializer, graph, proto]:
        message.ClearField("metadata_props")
        message.ClearField("doc_string")
    return proto


def _module_of(node: Any) -> str:
    """Return the name of the module in which a node was traced, such as "backbone.layer1.0"."""
    scopes = next((entry.value for entry in node.metadata_props if entry.key == SCOPES), "[]")
    modules: list[str] = ast.literal_eval(scopes)[:-1]
    return modules[-1].removeprefix(PREFIX) if modules else ""


def externalize_weights(proto: Any, weights: Path) -> None:
    """Replace the weights in a graph, an onnx.ModelProto, in place by references to a safetensors file.

    Weights that are stored as float16 are cast to float32 in the graph.
    """
    import onnx

    entries, _ = safetensors.read_header(weights)
    graph = proto.graph
    casts = []
    for tensor in graph.initializer:
        inner = tensor.name
        name = inner.removeprefix(PREFIX)
        if name == inner or name not in entries:
            continue
        dims, entry = list(tensor.dims), entries[name]
        tensor.Clear()
        tensor.name, tensor.data_type = inner, onnx.TensorProto.FLOAT
        if entry.dtype == "F16":
            tensor.name, tensor.data_type = name, onnx.TensorProto.FLOAT16
            casts.append(onnx.helper.make_node("Cast", [name], [inner], f"read {name}", to=onnx.TensorProto.FLOAT))
        tensor.dims.extend(dims)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", weights.name), ("offset", entry.offset), ("length", entry.length)):
            tensor.external_data.add(key=key, value=str(value))
    nodes = [*casts, *graph.node]
    graph.ClearField("node")
    graph.node.extend(nodes)
