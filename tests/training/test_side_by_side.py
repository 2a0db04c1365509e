"""Runs side by side in one call: the same as each alone, and none is lost when they are stopped."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scrl
from scrl.problems import Problem, ProblemOptions
from scrl.runs.folder import RunFolder
from scrl.training.algorithm import LoopState
from scrl.training.config import configure
from scrl.training.devices import DeviceRounds, shape_of, task_of
from scrl.training.maps import create_run, train_side_by_side, training_run
from scrl.training.progress import TrainingProgress
from scrl.training.result import TrainingResult
from scrl.training.run import TrainingRun

from .small import LEARNERS, LOOP, ROUNDS, Stopped, assert_same_bits, stop_after

RULES = {
    "one": ("if S2 > 10 then S1 >= 18",),  # as in other files: alone it is compiled already
    "two": ("if S2 > 10 then S1 >= 18", "S2 >= 12"),
    "three": ("S1 + S2 == 40 within 1", "S1 >= 18 or S2 >= 25"),
}
"""Different numbers of atoms and clauses, so that all but one need padding."""


@pytest.fixture(scope="module")
def problems(problem: Problem) -> list[Problem]:
    return [
        Problem.create(problem.world_spec, rules, ProblemOptions(name=name))
        for name, rules in RULES.items()
    ]


def begin(problems: list[Problem], out: Path, name: str = "ppo") -> list[TrainingRun]:
    known: dict[str, Any] = {**LEARNERS[name]}
    config = configure(**(known | {"settings": LOOP | known["settings"]}))
    return [create_run(each, config, (0, 1), out / each.name) for each in problems]


def together(problems: list[Problem], out: Path, watch: Any = None) -> list[TrainingResult]:
    return train_side_by_side(begin(problems, out), watch)


@pytest.fixture(scope="module")
def whole(problems: list[Problem], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("together")
    together(problems, out)
    return out


@pytest.mark.parametrize("name", ["ppo", "cpo", "cal"])
def test_the_first_rounds_are_those_of_each_run_alone(
    problems: list[Problem], tmp_path: Path, name: str
) -> None:
    """Later ones drift apart: sums in another order differ in the last bits, and learning grows.

    CAL has all that other learners carry from round to round: a buffer, targets and multipliers.
    """
    if name == "cal":  # padding is not its business: two runs of one shape will do
        spec, rule = problems[0].world_spec, "if S2 > 12 then S1 >= 21"
        problems = [problems[0], Problem.create(spec, (rule,), ProblemOptions(name="other"))]
    elif name == "cpo":  # one that needs padding and one that does not
        problems = problems[::2]
    runs = begin(problems, tmp_path, name)

    def first_rounds(of: list[TrainingRun]) -> tuple[DeviceRounds, LoopState]:
        tasks = [task_of(run.folder.problem(), run.config) for run in of]
        rounds = DeviceRounds(tasks, (0, 1))
        state, _ = rounds.begin()
        for _ in range(2):
            state, _ = rounds.learn(state)
        if of[0].config.plan.loop.settle:
            state, _ = rounds.settle(state)
        return rounds, state

    rounds, state = first_rounds(runs)
    for index, run in enumerate(runs[: 2 if name == "cal" else 1]):  # the last needs no padding
        alone, own = first_rounds([run])
        expected, found = alone.split(own)[0], rounds.split(state)[index]
        for one, other in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
            if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
                one, other = jax.random.key_data(one), jax.random.key_data(other)
            assert np.allclose(one, other, rtol=2e-3, atol=2e-4)


def test_each_has_a_folder_as_if_it_had_run_alone(problems: list[Problem], whole: Path) -> None:
    for each in problems:
        rows = RunFolder.open(whole / each.name).metrics()
        assert len(rows) == 2 * ROUNDS
        kappas = {key for key in rows[0] if key.startswith("kappa/")}
        assert len(kappas) == len(each.atoms.atoms)
        policy = scrl.load_policy(whole / each.name)
        assert scrl.evaluate(each, policy).density.keys() == {"S1", "S2"}


@pytest.mark.usefixtures("saves_every_round")
def test_runs_that_were_stopped_go_on_to_the_same_bits(
    problems: list[Problem], whole: Path, tmp_path: Path
) -> None:
    with pytest.raises(Stopped):
        together(problems, tmp_path, stop_after(3))
    train_side_by_side([training_run(RunFolder.open(tmp_path / each.name)) for each in problems])
    for each in problems:
        assert_same_bits(tmp_path / each.name, whole / each.name)


@pytest.mark.usefixtures("saves_every_round")
def test_runs_that_a_kill_left_ahead_wait_for_the_others(
    problems: list[Problem], whole: Path, tmp_path: Path
) -> None:
    early, late = tmp_path / "early", tmp_path / "late"
    for out, rounds in ((early, 2), (late, 5)):
        with pytest.raises(Stopped):
            together(problems, out, stop_after(rounds))
    shutil.rmtree(early / "two")
    shutil.copytree(late / "two", early / "two")
    seen: list[TrainingProgress] = []
    train_side_by_side(
        [training_run(RunFolder.open(early / each.name)) for each in problems], seen.append
    )
    rounds = [(now.problem.name, now.rounds) for now in seen]
    assert rounds[:2] == [("one", 3), ("three", 3)]
    assert rounds.count(("two", 6)) == 1
    assert len(rounds) == 2 * (ROUNDS - 2) + ROUNDS - 5
    for each in problems:
        assert_same_bits(early / each.name, whole / each.name)


def test_a_run_that_began_among_others_can_go_on_alone(
    problems: list[Problem], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrl.training.loop.CHECKPOINT_EVERY_S", -1.0)
    with pytest.raises(Stopped):
        together(problems, tmp_path, stop_after(3))
    seen: list[int] = []
    result = scrl.resume(tmp_path / "one", watch=lambda now: seen.append(now.rounds))
    assert seen == list(range(4, ROUNDS + 1))
    assert len(result.seeds) == 2


def test_only_rules_and_numbers_may_differ(problem: Problem, problems: list[Problem]) -> None:
    config = configure("scrl")

    def shape(of: Problem, **changed: Any) -> Any:
        other = dataclasses.replace(config, **changed)
        return shape_of(task_of(of, other))

    spec = problem.world_spec
    faster = dataclasses.replace(spec, vehicle=dataclasses.replace(spec.vehicle, max_speed=2.0))
    assert len({shape(each) for each in problems}) == 1
    assert shape(Problem.create(faster, RULES["one"])) == shape(problems[0])
    assert shape(problems[0], penalty="lagrangian") != shape(problems[0])
    # Fractional settings are numbers of the same program, whole ones and switches are not; and
    # what runs side by side has the same rounds.
    other = {"sharpness": 1.0, "inset": 0.0, "learning_rate": 1e-4}
    assert shape_of(task_of(problems[0], configure("scrl", settings=other))) == shape(problems[0])
    for changed in (
        {"epochs": 1}, {"is_netted": False}, {"kappa_rate": 0.1}, {"iterations": 7}, {"settle": 7},
    ):  # fmt: skip
        config_of_other = configure("scrl", settings=changed)
        assert shape_of(task_of(problems[0], config_of_other)) != shape(problems[0])
    cal = configure("cal", reading="all")
    plans = {shape_of(task_of(each, cal)) for each in problems}
    assert len(plans) == len(problems)
    windy = dataclasses.replace(spec, wind=dataclasses.replace(spec.wind, strength=0.1))
    in_runs = [
        Problem.create(windy, rules, ProblemOptions(confidence=0.9)) for rules in RULES.values()
    ]
    assert len({shape(each) for each in in_runs}) == len(in_runs)  # the network sees every atom
