"""Where a drive gives out how much: the paper's heat maps."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from scrl.policies import Policy
from scrl.problems import Problem
from scrl.rollout import run_trajectory
from scrl.worlds.regions import RegionMap


def allocation(problem: Problem, policy: Policy, *, seed: int = 0) -> Float[np.ndarray, "row col"]:
    """Units given out over each cell in one episode; cells off the path have none (NaN).

    A step gives out its amount evenly over the stretch it drives, not in the one cell it lands in:
    so the picture shows speed, and no stripes.
    """
    spec = problem.world_spec
    steps = spec.route.horizon_steps
    driven = jax.jit(
        lambda key: run_trajectory(problem.world, policy, key=key, steps=steps)
    )(jax.random.key(seed))  # fmt: skip
    is_active = np.asarray(driven.is_active)
    state = driven.transition.state
    cells = len(spec.path.cells)
    ends = np.minimum(np.asarray(state.cell + state.offset, float)[is_active], cells)
    amounts = np.full(len(ends), spec.vehicle.rate)
    if np.asarray(driven.transition.is_terminated)[is_active][-1]:
        amounts[-1] = 0.0  # the step that leaves the path serves nothing
    # Units given out up to each moment, read off at every edge between two cells.
    travelled = np.concatenate([[0.0], ends])
    given = np.concatenate([[0.0], np.cumsum(amounts)])
    at_edges = np.interp(np.arange(cells + 1), travelled, given)
    found = np.full(spec.regions.field.shape, np.nan)
    found[tuple(spec.path.cells.T)] = np.diff(at_edges)
    return found


def allocation_figure(problem: Problem, policies: Mapping[str, Policy]) -> Figure:
    """A heat map for each policy, all in one scale, with the edges of the regions."""
    found = {name: allocation(problem, policy) for name, policy in policies.items()}
    figure = Figure(figsize=(4.2 * len(found) + 0.8, 4.2), layout="constrained")
    panes = figure.subplots(1, len(found), squeeze=False)[0]
    top = max(float(np.nanquantile(each, 0.99)) for each in found.values())
    scale = ScalarMappable(Normalize(0.0, top), "inferno")
    for axes, (name, amounts) in zip(panes, found.items(), strict=True):
        axes.imshow(amounts, cmap=scale.cmap, norm=scale.norm, interpolation="nearest")
        _draw_edges(axes, problem.world_spec.regions)
        axes.set_title(f"{problem.name}, {name}", fontsize=10)
        axes.set_axis_off()
    unit = problem.world_spec.units.unit
    figure.colorbar(scale, ax=list(panes), label=f"{unit} per cell", shrink=0.8)
    return figure


def _draw_edges(axes: Axes, regions: RegionMap) -> None:
    for mask in regions.masks:
        if mask.any() and not mask.all():
            axes.contour(mask.astype(float), levels=[0.5], colors="white", linewidths=0.8)
