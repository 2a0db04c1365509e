"""What a benchmark measured, as a file: command, commit, machine, and a line for each row."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.machine import described

MEASURED = described()
"""As it is when a benchmark begins."""


def write_rows(path: Path | None, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace the file by these rows; without a path, nothing is written."""
    if path is None:
        return
    module = Path(sys.argv[0]).stem
    head = {"command": " ".join([f"python -m benchmarks.{module}", *sys.argv[1:]])}
    lines = ",\n".join(json.dumps(_rounded(row)) for row in rows)
    text = json.dumps({**head, "measured": MEASURED})[:-1]
    path.write_text(f'{text}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: float(f"{value:.6g}") if isinstance(value, float) else value
        for name, value in row.items()
    }
