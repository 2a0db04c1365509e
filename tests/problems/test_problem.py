"""A problem and its world."""

from __future__ import annotations

import jax

from scrl.problems import load


def test_a_world_first_asked_for_while_compiling_is_real() -> None:
    """What a trace leaves behind cannot be used after it."""
    problem = load("agri-joint")
    traced = jax.jit(lambda: problem.world.kind_of_part[0])()
    assert int(traced) == int(problem.world.kind_of_part[0])
