"""Writes the tables of settings in the docs from the settings classes: they cannot go stale.

`python tools/write_reference.py` rewrites what stands between the two marks; a test checks it.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scrl.learners import LEARNERS
from scrl.problems import ProblemOptions
from scrl.problems.save import value_text
from scrl.settings import Setting, settings_of
from scrl.training.config import LoopConfig, PenaltyConfig
from scrl.worlds.sweep.keep_out import KeepOut
from scrl.worlds.sweep.maps import MapOptions
from scrl.worlds.sweep.spec import SweepRoute
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (DOCS / "problems.md", DOCS / "training.md")
BEGIN = "<!-- settings: written by tools/write_reference.py -->"
END = "<!-- end of settings -->"

Row = tuple[str, str, str, str, str]
HEAD: Row = ("key", "default", "unit", "allowed", "meaning")
FILE_ROWS: tuple[Row, ...] = (
    ("`kind`", '`"sweep"`', "", "`sweep`", "The kind of world; there is one so far."),
    ("`map`", "(needed)", "", "a file in the same folder", "The map: GeoJSON, image or `.npy`."),
)


def main() -> None:
    """Rewrite the pages."""
    for page in PAGES:
        page.write_text(renewed(page), encoding="utf-8")


def renewed(page: Path) -> str:
    """A page with its marked block written anew."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{page} needs the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{reference(page.stem)}\n\n{END}{after}"


def reference(page: str) -> str:
    """One section for each table of settings."""
    sections = {"problems": problem_sections, "training": training_sections}[page]()
    return "\n\n".join(f"### {name}\n\n{table(rows)}" for name, rows in sections.items())


def problem_sections() -> dict[str, list[Row]]:
    """The tables of a problem file."""
    return {
        "`[problem]`": setting_rows(ProblemOptions),
        "`[world]`": [*FILE_ROWS, *map_rows(), *setting_rows(SweepRoute), *setting_rows(Units)],
        "`[vehicle]`": setting_rows(Vehicle),
        "`[wind]`": setting_rows(Wind),
        "`[keep_out]`": setting_rows(KeepOut),
    }


def training_sections() -> dict[str, list[Row]]:
    """The loop, the penalty, and each learner."""
    return {
        "The loop": setting_rows(LoopConfig),
        "The penalty": setting_rows(PenaltyConfig),
        **{f"`{name}`": setting_rows(entry.config) for name, entry in LEARNERS.items()},
    }


def table(rows: Iterable[Row]) -> str:
    """A Markdown table."""
    cells = [HEAD, ("---",) * len(HEAD), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def setting_rows(part: type[Any]) -> list[Row]:
    """The keys of a settings class, with the unit, range and sentence that it knows of each."""
    return [
        (f"`{field.name}`", default(field), known.unit, allowed(known), escaped(known.sentence))
        for field, known in settings_of(part)
    ]


def map_rows() -> list[Row]:
    """The map's keys, whose meaning stands under each field of `MapOptions`."""
    sentences = field_docstrings(MapOptions)
    return [
        (f"`{field.name}`", default(field), "", "", escaped(sentences[field.name]))
        for field in dataclasses.fields(MapOptions)
    ]


def default(field: dataclasses.Field[Any]) -> str:
    """The default as a problem file would write it."""
    return "(none)" if field.default is None else f"`{value_text(field.default)}`"


def allowed(known: Setting) -> str:
    """The range or the choices; a plain text has neither."""
    if known.choices:
        return ", ".join(f"`{choice}`" for choice in known.choices)
    text = known.range_text()
    return "" if text == "a finite number" else text


def escaped(sentence: str) -> str:
    """A sentence that a table cell can hold."""
    return " ".join(sentence.replace("|", "\\|").split())


def field_docstrings(part: type[Any]) -> dict[str, str]:
    """The text that stands under each field in the class's source."""
    body = ast.parse(inspect.getsource(part)).body[0]
    if not isinstance(body, ast.ClassDef):
        raise TypeError(f"{part.__name__} is not a class")
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[field.target.id] = str(text.value.value)
    return found


if __name__ == "__main__":
    main()
