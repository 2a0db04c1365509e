"""A trained policy as one function of arrays, with everything else baked in; whatever its world."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from jaxtyping import Array

from scrl._version import __version__
from scrl.export.onnx_graph import Graph


class Port(NamedTuple):
    """An input or output; its first axis, n, are the states."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    """Of one state."""
    sentence: str

    @property
    def text(self) -> str:
        return f"{self.dtype}: {self.sentence}"


class Portable(Protocol):
    """What the formats need of a policy."""

    @property
    def name(self) -> str:
        """The problem's name."""
        ...

    @property
    def inputs(self) -> tuple[Port, ...]: ...

    @property
    def output(self) -> Port: ...

    def function(self) -> Callable[..., Array]:
        """The policy as a function of whole arrays of states."""
        ...

    def draw(self, graph: Graph) -> str:
        """The same as nodes of a graph; the name of what comes out."""
        ...

    def about(self) -> dict[str, Any]:
        """What a reader must know of the world to use it, as plain values."""
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
        "outputs": {policy.output.name: policy.output.text},
        "shapes": ", ".join(_shape(port) for port in (*policy.inputs, policy.output))
        + "; n is any number of states",
        **policy.about(),
    }
    return (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _shape(port: Port) -> str:
    return f"{port.name} {['n', *port.shape]}".replace("'", "")
