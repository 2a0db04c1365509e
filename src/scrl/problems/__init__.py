"""Problem files (load, save, templates) and the built-in problems."""

from scrl.problems.load import (
    builtin_names,
    builtin_worlds,
    find_world,
    load,
    load_file,
)
from scrl.problems.problem import (
    BaseProblem,
    MapSource,
    Problem,
    ProblemOptions,
    difference_between,
)
from scrl.problems.save import save
from scrl.problems.templates import start_problem

__all__ = [
    "BaseProblem",
    "MapSource",
    "Problem",
    "ProblemOptions",
    "builtin_names",
    "builtin_worlds",
    "difference_between",
    "find_world",
    "load",
    "load_file",
    "save",
    "start_problem",
]
