"""The paper's tables: every method on every task, in one loop."""

from scrl.bench.bench import BenchProgress, BenchResult, run_bench
from scrl.bench.rows import Row
from scrl.bench.tables import TABLES, Cell, Table, cells_of, find_table

__all__ = [
    "TABLES",
    "BenchProgress",
    "BenchResult",
    "Cell",
    "Row",
    "Table",
    "cells_of",
    "find_table",
    "run_bench",
]
