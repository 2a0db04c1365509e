"""The worked examples run, at a small budget, and the controllers of their grids keep the rules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import scrl
import scrl.environments.training

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL: dict[str, Any] = {
    "worlds": 2, "iterations": 1, "settle": 1, "episodes": 2, "settle_episodes": 2,
    "width": 8, "depth": 1, "epochs": 1, "minibatches": 2,
}  # fmt: skip
KNOWN: dict[str, tuple[int, Any]] = {
    "pendulum": (200, lambda module: module.controller(1.5, 20.0, 0.25)),
    "mountain_car": (400, lambda module: module.controller(0.4)),
    "lunar_lander": (400, lambda module: module.controller(0.5, 0.25, 0.4)),
}
"""Steps of an episode, and a controller that keeps the rules."""


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", KNOWN)
def test_an_example_trains_and_its_rules_can_be_kept(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrl.environments.training, "REPORT_EPISODES", 4)
    module, (steps, controller) = example(name), KNOWN[name]
    result = module.train(settings={**SMALL, "rollout_steps": steps}, out=tmp_path / "run")
    assert result.run == tmp_path / "run"
    assert set(result.best.evaluation.density) == set(module.problem().regions)
    found = scrl.evaluate(module.problem(), controller(module), episodes=16)
    assert found.is_satisfied
    assert found.return_ > result.best.evaluation.return_
