"""A policy for somebody's environment as a function of its observations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from scrl.export.onnx_graph import Graph
from scrl.export.onnx_network import draw_choice, draw_numbers
from scrl.export.portable import Port
from scrl.learners.actions import Choice
from scrl.outside import OutsidePolicy
from scrl.outside.compiled import act_on
from scrl.outside.eyes import FARTHEST, OutsideEyes, spread_of
from scrl.runs import KeptEnvironment


@dataclass(frozen=True)
class EnvironmentPolicy:
    """What acts in somebody's environment."""

    kept: KeptEnvironment
    policy: OutsidePolicy

    @property
    def name(self) -> str:
        return self.kept.name

    @property
    def inputs(self) -> tuple[Port, ...]:
        sentence = "the numbers of an observation, as the environment gives them, in one row"
        return (Port("observation", "float32", (self.policy.features,), sentence),)

    @property
    def output(self) -> Port:
        actions = self.policy.actions
        if isinstance(actions.kind, Choice):
            first, last = actions.first, actions.first + actions.kind.count - 1
            return Port("action", "int32", (), f"one of the choices {first} to {last}")
        return Port("action", "float32", actions.kind.shape, "within the bounds of the actions")

    def function(self) -> Callable[..., Array]:
        actions, trained = self.policy.actions, self.policy.policy

        def act(rows: Float[Array, "n feature"]) -> Array:
            chosen = jax.vmap(lambda row: act_on(trained, row))(rows)
            if isinstance(actions.kind, Choice):
                return (chosen + actions.first).astype(jnp.int32)
            low, wide = map(jnp.asarray, self._bounds())
            return low + jnp.clip(chosen, 0.0, 1.0) * wide

        return act

    def draw(self, graph: Graph) -> str:
        actions, network = self.policy.actions, cast(Any, self.policy.policy.network)
        inputs = self._inputs(graph)
        if isinstance(actions.kind, Choice):
            chosen = draw_choice(graph, network, inputs)
            moved = graph.node("Add", chosen, graph.constant(actions.first, np.int64))
            return graph.node("Cast", moved, to=_INT32)
        numbers = draw_numbers(graph, network, inputs, actions.kind.shape)
        cut = graph.node("Clip", numbers, graph.constant(0.0), graph.constant(1.0))
        low, wide = (graph.constant(each) for each in self._bounds())
        return graph.node("Add", low, graph.node("Mul", cut, wide))

    def about(self) -> dict[str, Any]:
        """The environment and its actions."""
        return {
            "environment": self.kept.environment,
            "actions": dict(self.kept.actions),
            "observations": "what is no Box of numbers goes through gymnasium.spaces.flatten first",
        }

    def _bounds(self) -> tuple[Float[np.ndarray, "*action"], Float[np.ndarray, "*action"]]:
        """The lowest actions, and how far it is from there to the highest."""
        actions = self.policy.actions
        assert not isinstance(actions.kind, Choice)  # noqa: S101 (for the type checker)
        low, high = (np.reshape(each, actions.kind.shape) for each in (actions.low, actions.high))
        return low.astype(np.float32), (high - low).astype(np.float32)

    def _inputs(self, graph: Graph) -> str:
        """What the network is shown, [n, input]: as `OutsideEyes.actor` makes it."""
        trained = self.policy.policy
        eyes = cast(OutsideEyes, trained.eyes)
        shifted = graph.node("Sub", "observation", graph.constant(eyes.usual.mean))
        scaled = graph.node("Div", shifted, graph.constant(spread_of(eyes.usual)))
        cut = graph.node("Clip", scaled, graph.constant(-FARTHEST), graph.constant(FARTHEST))
        if not eyes.sees_prices:
            return cut
        seen = eyes.seen_prices(trained.price)
        states = graph.node("Shape", "observation", start=0, end=1)
        width = graph.constant([eyes.regions], np.int64)
        rows = graph.node("Concat", states, width, axis=0)
        return graph.node("Concat", cut, graph.node("Expand", graph.constant(seen), rows), axis=1)


_INT32 = 6
"""ONNX's number for that type."""
