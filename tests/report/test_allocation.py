"""Heat maps: what a drive gives out over each cell."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from scrl.policies import Constant
from scrl.problems import Problem, ProblemOptions
from scrl.report.allocation import allocation, allocation_figure
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle


def problem(
    labels: list[list[int]], *, horizon_steps: int = 5000, service: Service = "poured"
) -> Problem:
    spec = SweepSpec(
        from_labels(np.array(labels)),
        Vehicle(inertia=0.0, max_speed=2.0, rate=3.0),
        route=SweepRoute(horizon_steps=horizon_steps, service=service),
    )
    return Problem.create(spec, (), ProblemOptions(name="small"))


@pytest.mark.parametrize(("service", "last"), [("poured", 1.5), ("landing", 0.0)])
def test_amounts_are_spread_over_the_cells_driven(service: Service, last: float) -> None:
    """Two cells a step, three units a step: 1.5 for each cell.

    Landings at 2, 4 and 6: where service is counted there, the third gives nothing.
    """
    found = allocation(problem([[1] * 6], service=service), Constant(jnp.ones(())))
    assert np.allclose(found, [[1.5, 1.5, 1.5, 1.5, last, last]])


@pytest.mark.parametrize(("service", "last"), [("poured", 3.0), ("landing", 0.0)])
def test_slower_means_more(service: Service, last: float) -> None:
    found = allocation(problem([[1] * 6], service=service), Constant(jnp.full((), 0.5)))
    assert np.allclose(found, [[3.0, 3.0, 3.0, 3.0, 3.0, last]])


@pytest.mark.parametrize(("service", "last"), [("poured", 6.0), ("landing", 3.0)])
def test_the_path_turns_and_cells_off_it_have_none(service: Service, last: float) -> None:
    """Half a cell a step: six units a cell; the last step may serve none."""
    found = allocation(problem([[1, 1], [1, 1]], service=service), Constant(jnp.full((), 0.25)))
    assert np.allclose(found, [[6.0, 6.0], [last, 6.0]])


def test_an_episode_that_the_horizon_cuts_off_gives_to_its_last_step() -> None:
    found = allocation(problem([[1] * 6], horizon_steps=2), Constant(jnp.ones(())))
    assert np.nansum(found) == pytest.approx(2 * 3.0)


def test_a_picture_has_a_pane_for_each_policy_in_one_scale() -> None:
    policies = {"fast": Constant(jnp.ones(())), "slow": Constant(jnp.full((), 0.5))}
    figure = allocation_figure(problem([[1, 1, 0], [2, 2, 2]]), policies)
    *panes, scale = figure.axes
    assert [axes.get_title() for axes in panes] == ["small, fast", "small, slow"]
    assert len({axes.images[0].get_clim() for axes in panes}) == 1
    assert scale.get_ylabel() == "units per cell"
