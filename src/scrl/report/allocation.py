"""Heat maps of the amount given out over each cell, as in the paper."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from scrl.policies import PlacedPolicy, Policy
from scrl.problems import Problem
from scrl.route import drive, given_over_cells
from scrl.worlds.sweep.regions import RegionMap


def allocation(
    problem: Problem, policy: Policy | PlacedPolicy, *, seed: int = 0
) -> Float[np.ndarray, "row col"]:
    """Units given out over each cell in one episode; cells off the path are NaN.

    The amount of a step is spread evenly over its way, not counted in the cell where it ends, so
    that the picture shows the speed without stripes.
    """
    return given_over_cells(drive(problem, policy, seed=seed))


def allocation_figure(problem: Problem, policies: Mapping[str, Policy]) -> Figure:
    """A heat map for each policy, on one scale, with the edges of the regions."""
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


def draw_allocation(
    figure: Figure, axes: Axes, problem: Problem, policy: Policy | PlacedPolicy
) -> None:
    """The heat map of one policy with its own scale."""
    amounts = allocation(problem, policy)
    drawn = axes.imshow(
        amounts, cmap="inferno", vmin=0.0, vmax=float(np.nanquantile(amounts, 0.99)),
        interpolation="nearest",
    )  # fmt: skip
    _draw_edges(axes, problem.world_spec.regions)
    axes.set_axis_off()
    label = f"{problem.world_spec.units.unit} per cell"
    figure.colorbar(drawn, ax=axes, label=label, shrink=0.8)


def _draw_edges(axes: Axes, regions: RegionMap) -> None:
    for mask in regions.masks:
        if mask.any() and not mask.all():
            axes.contour(mask.astype(float), levels=[0.5], colors="white", linewidths=0.8)
