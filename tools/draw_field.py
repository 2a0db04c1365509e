"""Draws the pictures of docs/field.md from what its commands write.

`python tools/draw_field.py FOLDER` takes the folder in which the page was typed along, and writes
docs/images/field-way.png and docs/images/field-doses.png again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import shapely
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

IMAGES = Path(__file__).parents[1] / "docs" / "images"
POND, EDGE, IDLE = "#7fb2d9", "#444444", "#777777"
DOSES = mpl.colormaps["YlGn"]
MOST_DOSE, MIDDLE = 250.0, 9.904
"""Litres per hectare of the darkest colour, and the longitude in the middle of the map."""


def drawing(title: str) -> tuple[Any, Axes]:
    """A drawing in degrees, as wide as it is on the ground."""
    figure, axes = plt.subplots(figsize=(7.0, 5.6), layout="constrained")
    axes.set_aspect(1.0 / np.cos(np.radians(53.6)))
    axes.set_title(title, fontsize=11, loc="left")
    axes.set_axis_off()
    return figure, axes


def boundaries(axes: Axes, folder: Path) -> None:
    """The fields by their edges and names, and the pond."""
    for feature in json.loads((folder / "fields.geojson").read_text())["features"]:
        name, shape = feature["properties"]["name"], feature["geometry"]
        x, y = np.array(shape["coordinates"][0]).T
        if name == "pond":
            axes.fill(x, y, color=POND, zorder=3)
        axes.plot(x, y, color=EDGE, linewidth=1.2, zorder=4)
        if name == "pond":
            axes.annotate(name, (x[:-1].mean(), y[:-1].mean()), ha="center", va="center", zorder=6)
            continue
        is_right = x.mean() > MIDDLE
        corner = x[:-1].argmax() if is_right else x[:-1].argmin()
        axes.annotate(name, (x[corner], y[corner]), (7 if is_right else -7, -4), va="center",
                      textcoords="offset points", ha="left" if is_right else "right")  # fmt: skip


def legend(figure: Any, axes: Axes) -> None:
    shades = ScalarMappable(Normalize(0.0, MOST_DOSE), DOSES)
    figure.colorbar(shades, ax=axes, shrink=0.6, label="litres per hectare")


def draw_way(folder: Path) -> None:
    """Passes in the colour of their dose, and dashed ways without work."""
    figure, axes = drawing("The way: field by field, from the yard and back")
    document = json.loads((folder / "plan" / "route.geojson").read_text())
    for feature in document["features"]:
        told = feature["properties"]
        x, y = np.array(feature["geometry"]["coordinates"]).T
        if told["transit"]:
            axes.plot(x, y, color=IDLE, linewidth=1.0, linestyle=(0, (3, 2)), zorder=5)
            continue
        dose = told["amount"] / max(told["length_m"] * 24.0 / 10_000.0, 1e-9)
        axes.plot(x, y, color=DOSES(dose / MOST_DOSE), linewidth=4.5, zorder=2,
                  solid_capstyle="butt")  # fmt: skip
    x, y = document["features"][0]["geometry"]["coordinates"][0]
    axes.plot(x, y, marker="o", color="black", zorder=6)
    axes.annotate("start", (x, y), (7, -9), textcoords="offset points", fontsize=10)
    boundaries(axes, folder)
    legend(figure, axes)
    figure.savefig(IMAGES / "field-way.png", dpi=110)


def draw_doses(folder: Path) -> None:
    """The zones of the prescription map."""
    figure, axes = drawing("The prescription map: a zone for each field, and beside it")
    for feature in json.loads((folder / "plan" / "prescription.geojson").read_text())["features"]:
        dose = feature["properties"]["dose"]
        for polygon in shapely.get_parts(shapely.geometry.shape(feature["geometry"])):
            axes.fill(*np.array(polygon.exterior.coords).T, color=DOSES(dose / MOST_DOSE), zorder=1)
            for hole in polygon.interiors:
                axes.fill(*np.array(hole.coords).T, color="white", zorder=1)
    boundaries(axes, folder)
    legend(figure, axes)
    figure.savefig(IMAGES / "field-doses.png", dpi=110)


def main() -> None:
    """Write both pictures."""
    folder = Path(sys.argv[1])
    draw_way(folder)
    draw_doses(folder)


if __name__ == "__main__":
    main()
