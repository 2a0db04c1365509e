"""The tables of the paper: every method on every task."""

from scrl.bench.bench import BenchResult, run_bench
from scrl.bench.engines import ENGINES, Workers
from scrl.bench.progress import BenchProgress
from scrl.bench.rows import Row
from scrl.bench.tables import TABLES, Cell, Table, Terms, cells_of, find_table

__all__ = [
    "ENGINES",
    "TABLES",
    "BenchProgress",
    "BenchResult",
    "Cell",
    "Row",
    "Table",
    "Terms",
    "Workers",
    "cells_of",
    "find_table",
    "run_bench",
]
