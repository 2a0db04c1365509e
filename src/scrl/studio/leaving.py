"""A plan as files for other programs, and as a page of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrl.planning import Answer, Planner


def exported(
    planner: Planner, answer: Answer, format_name: str
) -> tuple[str, bytes, tuple[str, ...]]:
    """The plan as a file of a format: its name, its content, and warnings about it."""
    from scrl.export import ROUTE_FORMATS, ExportError, export
    from scrl.opening import open_run

    if format_name not in ROUTE_FORMATS:
        raise ExportError(f"unknown format '{format_name:.60}'")
    with tempfile.TemporaryDirectory(prefix="scrl-studio-") as folder:
        run, file = Path(folder) / "plan", Path(folder) / ROUTE_FORMATS[format_name].file_name
        planner.keep(answer, run)
        written = export(open_run(run), format_name, file)
        return file.name, file.read_bytes(), written.warnings


def report_page(planner: Planner, answer: Answer) -> str:
    """The report page of the plan."""
    from scrl.report.page import page_text
    from scrl.report.reading import read_runs

    with tempfile.TemporaryDirectory(prefix="scrl-studio-") as folder:
        run = Path(folder) / "plan"
        planner.keep(answer, run)
        return page_text(read_runs([run]))
