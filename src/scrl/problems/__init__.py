"""Problem files (load, save, templates) and the built-in problems."""

from scrl.problems.load import (
    builtin_names,
    builtin_worlds,
    find_world,
    load,
    load_file,
)
from scrl.problems.problem import MapSource, Problem, ProblemOptions, Terms, difference_between
from scrl.problems.save import save
from scrl.problems.templates import start_problem

__all__ = [
    "MapSource",
    "Problem",
    "ProblemOptions",
    "Terms",
    "builtin_names",
    "builtin_worlds",
    "difference_between",
    "find_world",
    "load",
    "load_file",
    "save",
    "start_problem",
]
