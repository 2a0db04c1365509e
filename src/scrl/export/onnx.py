"""A trained policy as ONNX: a file for any ONNX runtime, without JAX or this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scrl.export.portable import Graph, Port, Portable, sidecar
from scrl.export.segments import ExportError

OPSET, IR_VERSION = 18, 9
"""Versions of 2023, which runtimes since then can read."""


def write_onnx(policy: Portable, warnings: Sequence[str] = ()) -> tuple[bytes, bytes]:
    """The model for any number of states, and its description."""
    try:
        import onnx
    except ImportError:
        raise ExportError("ONNX files need the package onnx: pip install 'scrl[export]'") from None
    graph = Graph()
    drawn = policy.draw(graph)
    for port, name in zip(policy.outputs, drawn, strict=True):
        graph.nodes.append(onnx.helper.make_node("Identity", [name], [port.name]))
    model = _model(onnx, graph, policy)
    model.doc_string = "\n".join(f"WARNING: {each}" for each in warnings)
    onnx.checker.check_model(model, full_check=True)
    wanted = [port.name for port in policy.outputs]
    given = ", ".join(f"'{port.name}': {port.name}" for port in policy.inputs)
    how_to_run = f"onnxruntime.InferenceSession('policy.onnx').run({wanted}, {{{given}}})"
    return model.SerializeToString(), sidecar(policy, "ONNX", how_to_run, warnings)


def _model(onnx: Any, graph: Graph, policy: Portable) -> Any:
    helper = onnx.helper

    def value(port: Port) -> Any:
        kind = getattr(onnx.TensorProto, {"int32": "INT32", "float32": "FLOAT"}[port.dtype])
        return helper.make_tensor_value_info(port.name, kind, ["n", *port.shape])

    inputs, outputs = ([value(port) for port in ports] for ports in (policy.inputs, policy.outputs))
    name = policy.name or "policy"
    body = helper.make_graph(graph.nodes, name, inputs, outputs, graph.constants)
    opset = [helper.make_opsetid("", OPSET)]
    return helper.make_model(body, opset_imports=opset, ir_version=IR_VERSION, producer_name="scrl")
