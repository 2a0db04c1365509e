"""Problem files: load, save, start a new one; and the built-in problems."""

from scrl.problems.load import (
    builtin_names,
    builtin_worlds,
    find_world,
    load,
    load_file,
    load_world,
)
from scrl.problems.problem import MapSource, Problem, ProblemOptions
from scrl.problems.save import save
from scrl.problems.start import start_problem

__all__ = [
    "MapSource",
    "Problem",
    "ProblemOptions",
    "builtin_names",
    "builtin_worlds",
    "find_world",
    "load",
    "load_file",
    "load_world",
    "save",
    "start_problem",
]
