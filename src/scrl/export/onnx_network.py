"""The networks of policies as nodes of an ONNX graph."""

from __future__ import annotations

from typing import Any, assert_never

import numpy as np

from scrl.export.onnx_graph import Graph
from scrl.learners.choosers import Favourite, Mean
from scrl.learners.ddpg import Throttle
from scrl.learners.networks import Mlp
from scrl.learners.sac import SoftThrottle


def draw_numbers(graph: Graph, network: Any, inputs: str, shape: tuple[int, ...]) -> str:
    """Numbers before they are cut to 0 and 1, [n, *shape]."""
    known: Mean | Throttle | SoftThrottle = network
    wanted = int(np.prod(shape))
    raw = _mlp(graph, known.network, inputs, wanted)  # of its outputs, the first: then come spreads
    raw = graph.node("Reshape", raw, graph.constant([-1, *shape], np.int64))
    match known:
        case Throttle(is_squashed=True):
            shift = np.log(known.first / (1.0 - known.first))
            return graph.node("Sigmoid", graph.node("Add", raw, graph.constant(shift)))
        case Mean() | Throttle() | SoftThrottle():
            return graph.node("Add", raw, graph.constant(known.first))
        case _:
            assert_never(known)


def draw_choice(graph: Graph, network: Favourite, inputs: str) -> str:
    """The number of the choice that is liked best, int64 [n]."""
    likes = _mlp(graph, network.network, inputs, None)
    return graph.node("ArgMax", likes, axis=1, keepdims=0)


def _mlp(graph: Graph, network: Mlp, inputs: str, outputs: int | None) -> str:
    """Layers of tanh and a linear one, [n, output]; of its outputs so many, or all."""
    *hidden, last = network.layers
    for layer in hidden:
        inputs = graph.node("Tanh", _linear(graph, layer.weight, layer.bias, inputs))
    assert last.bias is not None  # noqa: S101  all our layers have one
    return _linear(graph, last.weight[:outputs], last.bias[:outputs], inputs)


def _linear(graph: Graph, weight: Any, bias: Any, inputs: str) -> str:
    return graph.node("Gemm", inputs, graph.constant(weight), graph.constant(bias), transB=1)
