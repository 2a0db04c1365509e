"""A trained policy as one function of arrays with constants inside, and as ONNX nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, assert_never

import numpy as np
from jaxtyping import Array

from scrl._version import __version__
from scrl.learners.actors import LEAST_UNIFORM, DrawnActor, GreedyActor, MeanActor
from scrl.learners.ddpg import Throttle
from scrl.learners.networks import Mlp
from scrl.learners.sac import SoftThrottle


class Port(NamedTuple):
    """An input or output; its first axis, n, is the batch of states."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    """The shape for one state."""
    sentence: str

    @property
    def text(self) -> str:
        return f"{self.dtype}: {self.sentence}"


class Portable(Protocol):
    """The interface of policies that can be exported."""

    @property
    def name(self) -> str:
        """The problem's name."""
        ...

    @property
    def inputs(self) -> tuple[Port, ...]: ...

    @property
    def outputs(self) -> tuple[Port, ...]: ...

    def function(self) -> Callable[..., Array | tuple[Array, ...]]:
        """The policy as a function of batches of states."""
        ...

    def draw(self, graph: Graph) -> tuple[str, ...]:
        """Add the policy to a graph; returns the names of its outputs."""
        ...

    def about(self) -> dict[str, Any]:
        """The description of the world that a user of the policy needs, as plain values."""
        ...


def sidecar(policy: Portable, kind: str, how_to_run: str, warnings: Sequence[str]) -> bytes:
    """The file beside the policy: inputs, output, and what they mean in the world."""
    document = {
        "format": kind,
        "problem": policy.name,
        "made_by": f"scrl {__version__}",
        "warnings": list(warnings),
        "how_to_run": how_to_run,
        "inputs": {port.name: port.text for port in policy.inputs},
        "outputs": {port.name: port.text for port in policy.outputs},
        "shapes": ", ".join(_shape(port) for port in (*policy.inputs, *policy.outputs))
        + "; n is any number of states",
        **policy.about(),
    }
    return (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _shape(port: Port) -> str:
    return f"{port.name} {['n', *port.shape]}".replace("'", "")


class Graph:
    """An ONNX graph with unique names; each method adds a node and returns its output's name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """A constant tensor."""
        from onnx import numpy_helper

        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """An operation of the standard set."""
        from onnx import helper

        name = f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def rows(self, table: Any, index: str, dtype: Any = np.float32) -> str:
        """Rows of a constant table by an index."""
        return self.node("Gather", self.constant(table, dtype), index, axis=0)

    def times(self, value: str, matrix: Any) -> str:
        """The product with a constant matrix."""
        return self.node("MatMul", value, self.constant(matrix))

    def within(self, value: str, low: float, high: float) -> str:
        """Clipped to a range."""
        return self.node("Clip", value, self.constant(low), self.constant(high))

    def columns(self, value: str, first: int, end: int) -> str:
        """[n, from first up to end] of [n, column]."""
        places = (self.constant([each], np.int64) for each in (first, end, 1))
        return self.node("Slice", value, *places)

    def column(self, value: str) -> str:
        """[n] as [n, 1]."""
        return self.node("Unsqueeze", value, self.constant([1], np.int64))


def draw_numbers(graph: Graph, network: Any, inputs: str, shape: tuple[int, ...]) -> str:
    """The actions before clipping to [0, 1], [n, *shape]."""
    known: MeanActor | Throttle | SoftThrottle = network
    wanted = int(np.prod(shape))
    raw = _mlp(graph, known.network, inputs, wanted)  # without standard deviations
    raw = graph.node("Reshape", raw, graph.constant([-1, *shape], np.int64))
    match known:
        case Throttle(is_squashed=True):
            shift = np.log(known.first / (1.0 - known.first))
            return graph.node("Sigmoid", graph.node("Add", raw, graph.constant(shift)))
        case MeanActor() | Throttle() | SoftThrottle():
            return graph.node("Add", raw, graph.constant(known.first))
        case _:
            assert_never(known)


def draw_choice(graph: Graph, network: GreedyActor | DrawnActor, inputs: str) -> str:
    """The index of the choice in each entry, int64 [n, *action], as its actor takes it."""
    likes, kind = _mlp(graph, network.network, inputs, None), network.kind
    if isinstance(network, DrawnActor):
        least, most = (graph.constant(each) for each in (LEAST_UNIFORM, 1.0 - LEAST_UNIFORM))
        rare = graph.node("Neg", graph.node("Log", graph.node("Clip", "uniform", least, most)))
        likes = graph.node("Sub", likes, graph.node("Log", rare))
    if not kind.shape:
        return graph.node("ArgMax", likes, axis=1, keepdims=0)
    chosen, start = [], 0
    for count in kind.counts:
        entry = graph.columns(likes, start, start + count)
        chosen.append(graph.node("ArgMax", entry, axis=1, keepdims=1))
        start += count
    row = graph.node("Concat", *chosen, axis=1)
    return graph.node("Reshape", row, graph.constant([0, *kind.shape], np.int64))


def _mlp(graph: Graph, network: Mlp, inputs: str, outputs: int | None) -> str:
    """Tanh layers and a linear one, [n, output]; with a count, only the first outputs."""
    *hidden, last = network.layers
    for layer in hidden:
        inputs = graph.node("Tanh", _linear(graph, layer.weight, layer.bias, inputs))
    assert last.bias is not None  # noqa: S101  all our layers have one
    return _linear(graph, last.weight[:outputs], last.bias[:outputs], inputs)


def _linear(graph: Graph, weight: Any, bias: Any, inputs: str) -> str:
    return graph.node("Gemm", inputs, graph.constant(weight), graph.constant(bias), transB=1)
