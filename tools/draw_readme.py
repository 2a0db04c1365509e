"""Draws the picture of the README: the demo's problem, driven at full speed.

`python tools/draw_readme.py` writes docs/images/overview.png again.
"""

from __future__ import annotations

from pathlib import Path

import scrl
from scrl.report.figures import overview, save_figure

TARGET = Path(__file__).parents[1] / "docs" / "images" / "overview.png"
PROBLEM = "agri-joint"


def main() -> None:
    """Write the file."""
    problem = scrl.load(PROBLEM)
    save_figure(overview(problem, scrl.evaluate(problem, "full-speed")), TARGET)


if __name__ == "__main__":
    main()
