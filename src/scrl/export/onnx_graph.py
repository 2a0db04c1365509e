"""The pieces of an ONNX graph, written down node by node."""

from __future__ import annotations

from typing import Any

import numpy as np


class Graph:
    """Nodes and constants under fresh names; every call adds a node and gives its output's name."""

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

    def column(self, value: str) -> str:
        """[n] as [n, 1]."""
        return self.node("Unsqueeze", value, self.constant([1], np.int64))
