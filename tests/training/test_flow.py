"""Training with two-dimensional actions, by every learner."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import scrl
from scrl.export.formats import POLICY_FORMATS
from scrl.export.policies import PortableSweepPolicy
from scrl.opening import open_run
from scrl.problems import Problem, ProblemOptions
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle

from .small import LEARNERS, LOOP


@pytest.mark.parametrize("name", ["ppo", "ddpg", "sac", "cal", "cpo"])
def test_every_learner_chooses_a_flow(name: str, tmp_path: Path) -> None:
    vehicle = Vehicle(flow=(0.0, 2.0), product_cost=0.01)
    spec = SweepSpec(from_labels(np.repeat([[1] * 4 + [2] * 4], 4, axis=0)), vehicle)
    problem = Problem.create(spec, "S1 >= 30 and S2 <= 2", ProblemOptions(name="small"))
    chosen = dict(LEARNERS[name])
    settings = LOOP | chosen.pop("settings") | {"depth": 0, "settle": 0}
    result = scrl.train(problem, **chosen, settings=settings, out=tmp_path / "run")
    again = scrl.evaluate(problem, open_run(result.run).policy())
    assert again.density == pytest.approx(result.seeds[0].evaluation.density, rel=1e-5)
    assert again.given_out == pytest.approx(sum(again.density.values()), rel=1e-5)
    state = {
        "cell": np.array([0, 9, 31], np.int32), "offset": np.array([0.0, 0.3, 0.9], np.float32),
        "speed": np.array([0.0, 1.2, 2.8], np.float32), "gust": np.zeros(3, np.float32),
    }  # fmt: skip
    policy = PortableSweepPolicy.of(problem, open_run(result.run).policy())
    wanted = np.asarray(policy.function()(*state.values()))
    model, _ = POLICY_FORMATS["onnx"].write(policy)
    (found,) = onnxruntime.InferenceSession(model).run(["action"], state)
    assert wanted.shape == (3, 2)
    np.testing.assert_allclose(np.asarray(found), wanted, atol=1e-5)
