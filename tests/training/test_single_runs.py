"""Training for rules that must hold in a share of single runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scrl
from scrl.errors import MethodError
from scrl.learners import ReactingPolicy
from scrl.opening import MapRun, open_run
from scrl.penalty import Atoms
from scrl.policies import Action, Constant, PlacedPolicy
from scrl.problems import Problem, ProblemOptions
from scrl.rollout import run_episodes
from scrl.training.algorithm import judge
from scrl.training.config import configure
from scrl.training.devices import SweepTask, measure, task_of
from scrl.training.result import TrainingResult
from scrl.violation import required_violation
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle, Wind

from .small import train
from .tasks import problem as corridor
from .tasks import task

GUSTY = Wind(strength=0.3)


@pytest.mark.parametrize("confidence", [None, 0.8])
@pytest.mark.parametrize(
    "rules", [("A >= 9 in 70 %", "B <= 9"), ("A >= 9 or B <= 2 in 30 %", "A + B >= 14 in 90 %")]
)
def test_what_moves_kappa_is_what_decides_whether_rules_hold(
    rules: tuple[str, ...], confidence: float | None
) -> None:
    of = corridor(rules, wind=GUSTY)
    of = of.with_confidence(confidence)
    own = dataclasses.replace(task(of), is_in_runs=True)
    for throttle in (0.2, 0.5):
        service, seen = measured(own, throttle, jax.random.key(2))
        asked = required_violation(of.atoms, np.asarray(service, float))
        assert (float(seen) <= 1e-4) == (float(asked.total) <= 1e-4)
        if confidence is None:
            assert float(seen) == pytest.approx(float(asked.total), abs=1e-4)


@jax.jit
def measured(of: SweepTask, throttle: float, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What each of 50 runs gave, and the violation that moves kappa."""
    ran = measure(of, Constant(jnp.asarray(throttle)), 50, key=key)
    return ran.service, judge(of, ran).violation


def test_a_rule_for_all_runs_is_divided_among_its_clauses() -> None:
    of = corridor(("A >= 9", "B >= 9", "A >= 2 or B >= 2")).with_confidence(0.94)
    assert Atoms.of(of.atoms).share.tolist() == pytest.approx([0.98, 0.98, 0.98, 0.98])
    mixed = corridor(("A >= 9 in 90 %", "B >= 9"))
    assert Atoms.of(mixed.atoms).share.tolist() == pytest.approx([0.9, 0.0])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    """Eight legs of S1 and S2 in strong gusts."""
    spec = SweepSpec(
        from_labels(np.repeat([[1] * 8 + [2] * 8], 8, axis=0)), Vehicle(rate=1.0), wind=GUSTY
    )
    of = Problem.create(spec, "S1 >= 45 in 90 %", ProblemOptions(name="gusty"))
    settings = {
        "worlds": 4, "rollout_steps": 256, "iterations": 60, "settle": 4, "settle_episodes": 80,
        "episodes": 8, "width": 16, "depth": 1, "minibatches": 4,
    }  # fmt: skip
    out = tmp_path_factory.mktemp("runs") / "gusty"
    return scrl.train(of, seeds=1, settings=settings, out=out)


def test_single_runs_keep_the_rule_because_the_policy_reacts(trained: TrainingResult) -> None:
    run = open_run(trained.run)
    assert isinstance(run, MapRun)
    policy, of = run.policy(), run.problem
    assert isinstance(policy, ReactingPolicy)
    ran = scrl.evaluate(of, policy, episodes=1000, seed=77)
    assert ran.share >= 0.88
    # A steady throttle that gives as much on average varies far more.
    keys = jax.random.split(jax.random.key(5), 500)

    def received(policy: Action | PlacedPolicy) -> np.ndarray:
        return np.asarray(run_episodes(of.world, policy, keys=keys).service, float)[:, 0]

    own = received(policy)
    steady = [received(Constant(jnp.asarray(each))) for each in (0.2, 0.3, 0.4, 0.5)]
    near = min(steady, key=lambda found: abs(found.mean() - own.mean()))
    assert own.std() < 0.7 * near.std()


@pytest.mark.parametrize("learner", ["ddpg", "sac", "cpo"])
def test_other_learners_are_charged_for_single_runs(learner: str) -> None:
    gusty = corridor(("A >= 9 in 90 %", "B <= 9"), wind=GUSTY)
    assert train(gusty, learner, None).best.evaluation.rules[0].asked == pytest.approx(0.9)


def test_without_chance_single_runs_train_like_means() -> None:
    calm = corridor(("A >= 9 in 90 %",))
    assert not task_of(calm, configure()).is_in_runs


def test_what_cannot_be_learned_for_single_runs_is_refused(tmp_path: Path) -> None:
    gusty = corridor(("A >= 9 in 90 %",), wind=GUSTY)
    with pytest.raises(MethodError, match="'cal' predicts costs of means"):
        scrl.train(gusty, method="cal", out=tmp_path / "cal")
    discounted = dataclasses.replace(gusty, options=ProblemOptions(discount=0.9))
    with pytest.raises(MethodError, match="needs a discount of 1"):
        scrl.train(discounted, out=tmp_path / "discounted")
    assert not any(tmp_path.iterdir())
