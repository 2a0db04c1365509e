"""Every baseline learns: a corridor with one plain rule, whose best drive is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scrl
from scrl.policies import Constant
from scrl.problems import Problem, ProblemOptions
from scrl.worlds.regions import from_labels
from scrl.worlds.spec import Route, SweepSpec

SMALL = {"worlds": 8, "steps": 64, "width": 16, "settle": 40, "iterations": 60}
REPLAYED = {"memory": 8192, "batch": 64, "updates": 64, "learning_rate": 3e-3, "target_rate": 0.03}
