"""A trained policy as ONNX: a file that any ONNX runtime runs, without JAX and this package."""

from __future__ import annotations

from typing import Any, assert_never

import numpy as np

from scrl.export.onnx_graph import Graph
from scrl.export.portable import INPUTS, checked, sidecar
from scrl.export.segments import ExportError
from scrl.learners import SeeingPolicy
from scrl.learners.choosers import Mean
from scrl.learners.ddpg import Throttle
from scrl.learners.networks import Mlp
from scrl.learners.sac import SoftThrottle
from scrl.problems import Problem
from scrl.worlds.sweep import SweepWorld

OPSET, IR_VERSION = 18, 9
"""Both of 2023: any runtime since then reads the file."""
HOW_TO_RUN = (
    "onnxruntime.InferenceSession('policy.onnx').run(['throttle'], "
    "{'cell': cell, 'offset': offset, 'speed': speed, 'gust': gust})"
)


def write_onnx(problem: Problem, policy: Any) -> tuple[bytes, bytes]:
    """The model for any number of states, and its description."""
    try:
        import onnx
    except ImportError:
        raise ExportError("ONNX files need the package onnx: pip install 'scrl[export]'") from None
    trained = checked(problem, policy)
    graph = Graph()
    throttle = _network(graph, trained.network, _inputs(graph, problem.world, trained))
    nothing, full = graph.constant(0.0), graph.constant(1.0)
    clipped = graph.node("Clip", throttle, nothing, full)
    graph.nodes[-1].output[0] = "throttle"
    del clipped
    model = _model(onnx, graph, problem.name)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(), sidecar(problem, "ONNX", HOW_TO_RUN)


def _model(onnx: Any, graph: Graph, name: str) -> Any:
    helper, kinds = onnx.helper, onnx.TensorProto
    given = [
        helper.make_tensor_value_info(key, kinds.INT32 if key == "cell" else kinds.FLOAT, ["n"])
        for key in INPUTS
    ]
    told = [helper.make_tensor_value_info("throttle", kinds.FLOAT, ["n"])]
    body = helper.make_graph(graph.nodes, name or "policy", given, told, graph.constants)
    opset = [helper.make_opsetid("", OPSET)]
    return helper.make_model(body, opset_imports=opset, ir_version=IR_VERSION, producer_name="scrl")


def _inputs(graph: Graph, world: SweepWorld, policy: SeeingPolicy) -> str:
    """What the network is shown, [n, input]: as `SweepWorld.observe` and `Eyes.actor` make it."""
    scalars = _scalars(graph, world)
    kinds, kind_of_cell = np.asarray(world.kinds), np.asarray(world.kind_of_cell)

    def seen(table: np.ndarray, ahead: int) -> str:
        """A row of a table of kinds of cell, for the cell so far ahead."""
        moved = graph.node("Add", "cell", graph.constant(ahead, np.int32))
        cell = graph.node("Min", moved, graph.constant(world.length, np.int32))
        return graph.rows(table, graph.rows(kind_of_cell, cell, np.int32))

    ahead = np.asarray(world.cells_ahead).tolist()
    if policy.eyes.sees_prices:
        prices = kinds @ np.asarray(policy.price) / np.asarray(policy.eyes.price_unit)
        views = [graph.column(seen(prices, each)) for each in ahead]
        return graph.node("Concat", *scalars, seen(kinds, 0), *views, axis=1)
    views = [seen(kinds, each) for each in ahead]
    stretch = graph.node("Div", "cell", graph.constant(world.stride, np.int32))
    left = graph.rows(np.asarray(world.left), stretch)
    return graph.node("Concat", *scalars, *views, left, axis=1)


def _scalars(graph: Graph, world: SweepWorld) -> list[str]:
    """Progress, speed, gust, row and column."""
    cell = graph.node("Cast", "cell", to=1)
    along = graph.node("Add", cell, "offset")
    progress = graph.node("Div", along, graph.constant(world.length))
    progress = graph.node("Min", progress, graph.constant(1.0))
    speed = graph.node("Div", "speed", graph.constant(world.numbers.max_speed))
    gust = graph.node("Clip", "gust", graph.constant(-1.0), graph.constant(1.0))
    place = graph.rows(np.asarray(world.place), "cell")
    return [*(graph.column(each) for each in (progress, speed, gust)), place]


def _network(graph: Graph, network: Any, inputs: str) -> str:
    """The throttle before it is cut to 0 and 1, [n]."""
    known: Mean | Throttle | SoftThrottle = network
    raw = _mlp(graph, known.network, inputs)
    match known:
        case Throttle(is_squashed=True):
            shift = np.log(known.first / (1.0 - known.first))
            return graph.node("Sigmoid", graph.node("Add", raw, graph.constant(shift)))
        case Mean() | Throttle() | SoftThrottle():
            return graph.node("Add", raw, graph.constant(known.first))
        case _:
            assert_never(known)


def _mlp(graph: Graph, network: Mlp, inputs: str) -> str:
    """Layers of tanh and a linear one; of its outputs, the first."""
    *hidden, last = network.layers
    for layer in hidden:
        inputs = graph.node("Tanh", _linear(graph, layer.weight, layer.bias, inputs))
    assert last.bias is not None  # noqa: S101  all our layers have one
    first = _linear(graph, last.weight[:1], last.bias[:1], inputs)
    return graph.node("Squeeze", first, graph.constant([1], np.int64))


def _linear(graph: Graph, weight: Any, bias: Any, inputs: str) -> str:
    return graph.node("Gemm", inputs, graph.constant(weight), graph.constant(bias), transB=1)
