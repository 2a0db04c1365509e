"""Problem files: load, save, start a new one; and the built-in problems."""

from scrl.problems.load import (
    builtin_names,
    builtin_worlds,
    find_world,
    load,
    load_file,
    load_world,
)
from scrl.problems.problem import MapSource, Problem
from scrl.problems.save import save
from scrl.problems.start import start_problem
from scrl.problems.terms import ProblemOptions, Terms, difference_between

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
    "load_world",
    "save",
    "start_problem",
]
