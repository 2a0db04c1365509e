"""Training in somebody's environment: folders, going on, all learners, all forms of it."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scrl
from scrl.environments.driver import EnvironmentRounds, for_seeds
from scrl.environments.policy import evaluate_in
from scrl.environments.problem import EnvironmentProblem
from scrl.environments.training import (
    REPORT_SEED,
    check_same,
    configure_environment,
    task_of,
)
from scrl.errors import PolicyError
from scrl.learners import Pricing
from scrl.rollout import Episode
from scrl.runs.folder import RunError, RunFolder
from scrl.training.algorithm import (
    Explorer,
    Measured,
    ends_with_horizon,
    kappa_rate,
    move_kappa,
    present_policy,
)
from scrl.training.progress import TrainingProgress

from .small import (
    HORIZON,
    LOOP,
    REGIONS,
    RULES,
    Pouring,
    Walk,
    loaded,
    make_choices,
    make_walk,
)

OPTIONS: dict[str, Any] = {"labels": "amounts", "regions": REGIONS, "rules": RULES}


def train(env: Any, out: Path, **options: Any) -> Any:
    known = {**OPTIONS, "horizon_steps": HORIZON, "seeds": 2, "settings": LOOP, "out": out}
    return scrl.train(env, **{**known, **options})


def same_bits(run: Path, other: Path) -> bool:
    return all(
        (run / name).read_bytes() == (other / name).read_bytes()
        for name in ("policy.eqx", "metrics.jsonl")
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("outside") / "run"
    train(make_walk, out)
    return out


def test_a_run_folder_holds_what_those_of_maps_hold(run: Path) -> None:
    folder = RunFolder.open(run)
    assert folder.record.problem == "make_walk"
    rows = folder.metrics()
    assert len(rows) == 2 * (LOOP["iterations"] + LOOP["settle"])
    assert {"return", "violation", "steps", "loss", "density/west", "kappa/1"} <= set(rows[0])
    kept = json.loads((run / "environment.json").read_text())
    assert kept["regions"] == list(REGIONS)
    assert kept["rules"] == {"rule-1": RULES}
    assert kept["horizon_steps"] == HORIZON
    assert kept["actions"] == {"shape": [1], "low": [-1.0], "high": [1.0], "dtype": "float32"}
    result = json.loads((run / "result.json").read_text())["result"]
    assert {"problem", "method", "seeds", "satisfied", "gap_mean", "env_steps"} <= set(result)
    first = result["seeds"][0]
    assert set(first["density"]) == set(REGIONS)
    assert first["gap"] is None
    assert first["episodes"] == 200
    problem = scrl.environment(make_walk, horizon_steps=HORIZON, **OPTIONS)
    with problem.open(4) as lanes:  # as many as trained: 2 seeds x 2 worlds
        policy = scrl.load_policy(run, seed=0)
        again = evaluate_in(lanes, problem, policy, episodes=200, seed=REPORT_SEED, name="")
    assert first["episodes_satisfied"] == again.episodes_satisfied
    assert first["density"] == pytest.approx(again.density)
    # 3 rounds of 2 seeds x 2 worlds x 8 steps, what was measured, and the first drives
    measured = sum(row["steps"] * 4 for row in rows)
    assert result["env_steps"] >= 3 * 2 * 2 * HORIZON + measured - len(rows)


@pytest.mark.parametrize(("speed", "kept"), [(1.0, 20), (-1.0, 0)])
def test_single_episodes_that_keep_the_rules_are_counted(speed: float, kept: int) -> None:
    """To the right nothing is given to the west; to the left 8, and nothing to the east."""
    problem = scrl.environment(make_walk, horizon_steps=HORIZON, **OPTIONS)
    found = problem.evaluate(lambda _seen: np.array([speed], np.float32), episodes=20)
    assert (found.episodes, found.episodes_satisfied) == (20, kept)


def test_rules_may_ask_for_a_share_of_single_episodes() -> None:
    """Right by a step of 1 until 3: from a start in [0, 0.5] that is 3 steps, and never 2.9."""

    def right(_seen: np.ndarray) -> np.ndarray:
        return np.array([1.0], np.float32)

    def walk(**options: Any) -> EnvironmentProblem:
        return scrl.environment(make_walk, horizon_steps=HORIZON, **{**OPTIONS, **options})

    found = walk(rules=["east >= 3 in 99 %", "east <= 2.9 in 1 %"]).evaluate(right)
    assert found.episodes == 368, "100 cannot show 99 %"
    assert [rule.is_satisfied for rule in found.rules] == [True, False]
    assert [rule.share for rule in found.rules] == [1.0, 0.0]
    assert found.cons_vio == pytest.approx(0.1)
    problem = walk(rules="east >= 3", confidence=0.9)
    assert problem.evaluate(right).confidence == 0.9
    assert problem.record.rules == problem.rules
    for rule in ("east >= 3 surely", "east >= 3 in 99.9999 %"):
        with pytest.raises(scrl.ScrlError, match=r"only the environment knows|ask for less"):
            walk(rules=rule)


class Counted(Walk):
    """Counts the steps of all that there are."""

    steps = 0

    def step(self, action: Any) -> Any:
        Counted.steps += 1
        return super().step(action)


def test_every_step_is_counted_and_the_budget_kept(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    result = scrl.train(
        Counted, labels="amounts", regions=REGIONS, rules=RULES, horizon_steps=HORIZON,
        settings=LOOP, seeds=2, steps=200, out=tmp_path / "run",
        watch=lambda now: seen.append((now.env_steps, Counted.steps)),
    )  # fmt: skip
    first_look = 1
    assert {driven - counted for counted, driven in seen} == {first_look}
    assert result.env_steps == seen[-1][0] <= 2 * 200


def test_its_curves_can_be_drawn(run: Path) -> None:
    figure = scrl.plot(scrl.resume(run))
    assert [axes.get_ylabel() for axes in figure.axes] == ["return", "violated by, units", "kappa"]


def test_a_map_is_asked_for_in_vain(run: Path) -> None:
    with pytest.raises(RunError, match=r"not on a map but in an external environment \(make_"):
        RunFolder.open(run).problem()


def test_the_policy_comes_back_and_does_the_same(run: Path) -> None:
    result = scrl.resume(run)  # finished: it is read
    problem = scrl.environment(make_walk, horizon_steps=HORIZON, **OPTIONS)
    for seed in (0, 1):
        policy = loaded(run, seed)
        action = policy(np.array([0.2, 0.0], np.float32))
        assert problem.source.maker(0)().action_space.contains(action)
        again = scrl.evaluate(problem, policy, episodes=30, name="again")
        told = next(each for each in result.seeds if each.seed == seed).evaluation
        error = told.density_se["east"] + again.density_se["east"]
        assert again.density["east"] == pytest.approx(told.density["east"], abs=5 * error + 1e-6)
    with pytest.raises(scrl.ScrlError, match="trained on observations of 2 numbers, and this one"):
        policy(np.zeros(3))


def test_it_takes_flattened_observations_of_other_spaces(tmp_path: Path) -> None:
    def make() -> gymnasium.Env[Any, Any]:
        space = gymnasium.spaces.Dict({"walk": Walk().observation_space})
        return gymnasium.wrappers.TransformObservation(Walk(), lambda seen: {"walk": seen}, space)

    policy = loaded(train(make, tmp_path / "run").run)
    env = make()
    seen = gymnasium.spaces.flatten(env.observation_space, env.reset(seed=0)[0])
    assert env.action_space.contains(policy(seen))


def test_gone_on_with_it_ends_with_the_same_bits(run: Path, tmp_path: Path) -> None:
    def stop(now: TrainingProgress) -> None:
        if now.rounds == 2:
            raise KeyboardInterrupt

    import scrl.training.loop

    before, scrl.training.loop.CHECKPOINT_EVERY_S = scrl.training.loop.CHECKPOINT_EVERY_S, 0.0
    try:
        with pytest.raises(KeyboardInterrupt):
            train(make_walk, tmp_path / "run", watch=stop)
    finally:
        scrl.training.loop.CHECKPOINT_EVERY_S = before
    with pytest.raises(RunError, match=r"see scrl\.resume, scrl\.learned, scrl\.load_policy and"):
        scrl.resume(tmp_path / "run")
    with pytest.raises(
        PolicyError, match=r"not finished; resume with scrl\.resume\('.*', env, labels"
    ):
        scrl.load_policy(tmp_path / "run")
    problem = scrl.environment(make_walk, horizon_steps=HORIZON, **OPTIONS)
    with pytest.raises(scrl.ScrlError, match="unit: the environment has its own already"):
        scrl.resume(tmp_path / "run", problem, unit="miles")
    with pytest.raises(scrl.ScrlError, match="unknown option 'label': did you mean 'labels'"):
        scrl.resume(tmp_path / "run", make_walk, label="amounts")
    with pytest.raises(RunError, match="this run began with other horizon_steps: 8, and now it is"):
        scrl.resume(tmp_path / "run", make_walk, labels="amounts", horizon_steps=9)
    with pytest.raises(RunError, match="this run began with 4 environments, not 3"):
        scrl.resume(tmp_path / "run", [make_walk] * 3, labels="amounts")
    with pytest.raises(RunError, match="this run began with other actions"):
        scrl.resume(tmp_path / "run", make_choices, labels="amounts")
    scrl.resume(tmp_path / "run", make_walk, labels="amounts")
    assert same_bits(run, tmp_path / "run")


def test_processes_change_nothing(run: Path, tmp_path: Path) -> None:
    train(make_walk, tmp_path / "run", processes=True)
    assert same_bits(run, tmp_path / "run")
    assert multiprocessing.active_children() == []


def test_a_vector_environment_changes_nothing(run: Path, tmp_path: Path) -> None:
    def make() -> gymnasium.Env[Any, Any]:
        return gymnasium.wrappers.TimeLimit(Walk(), HORIZON)

    vector = gymnasium.vector.SyncVectorEnv([make] * 4)
    train(vector, tmp_path / "run")
    assert same_bits(run, tmp_path / "run")
    vector.reset()  # it is still open: it was made by somebody else
    vector.close()


def test_another_id_is_refused_and_another_name_of_a_function_is_not(
    run: Path, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "run")
    problem = scrl.environment(make_walk, horizon_steps=HORIZON, **OPTIONS)
    named = replace(problem, source=replace(problem.source, name="Walk-v1"))
    folder = RunFolder.open(tmp_path / "run")
    check_same(problem, folder)
    check_same(named, folder)
    (folder.path / "environment.json").write_text(
        json.dumps({**named.record.to_json(), "schema": 1})
    )
    check_same(problem, folder)
    check_same(named, folder)
    other = replace(problem, source=replace(problem.source, name="Walk-v2"))
    with pytest.raises(RunError, match="began with other environment: 'Walk-v1', and now it is"):
        check_same(other, folder)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (make_choices, {"penalty": "scrl-min"}),
        (make_choices, {"learner": "cpo", "penalty": "none"}),
        (make_walk, {"learner": "ddpg", "penalty": "lagrangian"}),
        (make_walk, {"learner": "sac", "penalty": "none"}),
    ],
)
def test_other_learners_and_penalties(make: Any, options: dict[str, Any], tmp_path: Path) -> None:
    replay = {"buffer_size": 100, "batch_size": 8, "updates": 4}
    replay = replay if options.get("learner") in ("ddpg", "sac") else {}
    known = LOOP if not replay else {k: v for k, v in LOOP.items() if k not in NOT_REPLAYED}
    result = train(make, tmp_path / "run", settings={**known, **replay}, seeds=1, **options)
    action = loaded(result.run)(np.zeros(2, np.float32))
    assert make().action_space.contains(action)


NOT_REPLAYED = ("epochs", "minibatches")


def test_rules_are_learned(tmp_path: Path) -> None:
    """Every step costs 1 until the goal in the east; a rule sends the walker west."""
    settings = {**LOOP, "iterations": 60, "settle": 10, "worlds": 8, "width": 16, "epochs": 4}
    settings |= {"episodes": 8, "settle_episodes": 16, "learning_rate": 5e-3}
    result = train(make_walk, tmp_path / "run", rules="west >= 3", seeds=1, settings=settings)
    assert RunFolder.open(result.run).metrics()[0]["violation"] > 2.0
    assert result.is_satisfied
    assert result.best.evaluation.density["west"] >= 3.0


def test_a_rule_may_count_up_or_down_and_in_any_unit(tmp_path: Path) -> None:
    """`time <= 4` and `fuel >= -16`, where a step burns 4: the same rule, so the same training.

    What a step of a region earns is price times label; if networks saw the price alone, the two
    would differ in its sign, and end with different policies.
    """
    seen = []
    for name, amount, rules in (("time", 1.0, "time <= 4"), ("fuel", -4.0, "fuel >= -16")):
        labels = {name: lambda _observation, amount=amount: amount}
        run = train(make_walk, tmp_path / name, labels=labels, regions=None, rules=rules).run
        rows = RunFolder.open(run).metrics()
        assert max(row["kappa/0"] for row in rows) > 0.0
        seen.append([(row["loss"], row["return"], row[f"density/{name}"] / amount) for row in rows])
    np.testing.assert_allclose(*seen, rtol=1e-5)


@pytest.mark.parametrize(
    ("rules", "steps", "kappa"),
    [
        ("time <= 4", 8, 9 * 4 / 8),
        ("time <= 4", 400, 9 * 396 / 400),  # a trained policy that lives 50 times as long
        ("time >= 400", 8, 9 * 392 / 400),  # an untrained one that cannot give this much yet
    ],
)
def test_kappa_moves_by_shares_of_the_present_episodes(
    rules: str, steps: int, kappa: float
) -> None:
    """A step costs 1 and takes 1 of time, so a violation by a whole episode moves kappa by 9."""
    labels = {"time": lambda _observation: 1.0}
    problem = scrl.environment(make_walk, horizon_steps=HORIZON, labels=labels, rules=rules)
    config = configure_environment(problem, settings=LOOP)
    task = task_of(problem, config)
    with problem.open(config.loop.worlds) as lanes:
        state, _ = EnvironmentRounds(task, problem.actions, lanes, (0,)).begin()
    time = jnp.full((1, 4), steps)
    ran = Episode(-1.0 * time, 1.0 * time[..., None], time, jnp.ones((1, 4), bool), None)
    policy = for_seeds(present_policy, task, state)
    moved, _ = for_seeds(move_kappa, task, state, policy, Measured(ran, time.sum(axis=1)))
    assert moved.kappa[0, 0] == pytest.approx(kappa)


class Unrewarded(Walk):
    """Chance finds no reward."""

    def step(self, action: Any) -> Any:
        seen, _, *rest = super().step(action)
        return seen, 0.0, *rest


class Cheap(Walk):
    """A step costs a millionth."""

    def step(self, action: Any) -> Any:
        seen, reward, *rest = super().step(action)
        return seen, 1e-6 * reward, *rest


@pytest.mark.parametrize(("make", "cost"), [(Walk, 1.0), (Unrewarded, 1.0), (Cheap, 1e-6)])
def test_units_come_from_rewards_of_any_size_and_from_none(make: Any, cost: float) -> None:
    """In a walk a step costs 1; where it costs nothing it counts as 1."""
    states = []
    for each in (Walk, make):
        problem = scrl.environment(each, horizon_steps=HORIZON, **OPTIONS)
        config = configure_environment(problem, settings=LOOP)
        with problem.open(config.loop.worlds) as lanes:
            task = task_of(problem, config)
            rounds = EnvironmentRounds(task, problem.actions, lanes, (0,))
            states.append(rounds.begin()[0])
    plain, found = states
    assert found.encoder.price_unit == pytest.approx(cost)
    assert found.encoder.channel_unit[0, 0] == pytest.approx(
        float(cost * plain.encoder.channel_unit[0, 0])
    )
    for each in (0, 1):
        encoders = (jax.tree.map(lambda leaf: leaf[0], state.encoder) for state in states)
        own, usual = (kappa_rate(task, encoder, jnp.ones(())) for encoder in encoders)
        assert float(usual[each]) == pytest.approx(cost * float(own[each]), rel=1e-5)


def test_a_preset_and_a_method_win_over_the_defaults_of_environments() -> None:
    problem = scrl.environment(make_walk, horizon_steps=HORIZON, **OPTIONS)
    usual = configure_environment(problem)
    assert (usual.loop.settle, usual.loop.inset, usual.learner_settings.discount) == (30, 0.0, 0.99)
    paper = configure_environment(problem, preset="paper", settings={"inset": 0.25})
    assert (paper.loop.settle, paper.loop.worlds, paper.loop.inset) == (0, 1, 0.25)
    assert paper.loop.iterations == usual.loop.iterations


def test_a_setting_of_jax_is_changed_for_the_training_only(tmp_path: Path) -> None:
    name, seen = "jax_cpu_enable_async_dispatch", []
    before = jax.config.read(name)
    assert before
    train(make_walk, tmp_path / "run", watch=lambda _: seen.append(jax.config.read(name)))
    assert seen
    assert not any(seen)
    assert jax.config.read(name) == before


@pytest.mark.parametrize(("discount", "ends"), [(1.0, True), (0.9, False)])
def test_only_plain_sums_end_with_the_horizon(discount: float, ends: bool) -> None:
    """A walker that hardly moves is truncated after 8 steps: is that an end for the learner?"""
    problem = scrl.environment(make_walk, horizon_steps=HORIZON, **OPTIONS)
    settings = {**LOOP, "discount": discount, "initial_std": 0.01, "least_std": 0.01}
    config = configure_environment(problem, settings=settings)
    with problem.open(config.loop.worlds) as lanes:
        task = task_of(problem, config)
        rounds = EnvironmentRounds(task, problem.actions, lanes, (0,))
        state, _ = rounds.begin()
        explorer = Explorer(state.learner, state.encoder, jnp.zeros((1, 2, 2)))
        _, rollout = rounds._collect(explorer, None, state.key)
    pricing = Pricing(
        task.reading, state.kappa[0], state.excess[0], task.penalty, task.rate,
        ends_with_horizon(task),
    )  # fmt: skip
    assert rollout.is_truncated[0, -1].all()
    assert not rollout.is_terminated[0, -1].any()
    of_seed = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), rollout)
    assert (pricing.is_end(of_seed)[-1] == ends).all()


def test_only_a_policy_that_sees_what_was_given_keeps_a_share_of_single_episodes(
    tmp_path: Path,
) -> None:
    """85 % are asked for, and no policy that goes by the time keeps more than 61 %."""
    problem = scrl.environment(
        Pouring, labels={"cup": "cup"}, rules=Pouring.RULES, confidence=Pouring.SHARE,
        horizon_steps=Pouring.STEPS,
    )  # fmt: skip
    settings = LOOP | {
        "worlds": 8, "rollout_steps": 5 * Pouring.STEPS, "iterations": 20, "settle": 0,
        "episodes": 16, "epochs": 10, "minibatches": 4,
    }  # fmt: skip
    result = scrl.train(problem, settings=settings, out=tmp_path / "run", watch=None)
    found = result.seeds[0].evaluation
    assert found.episodes_satisfied >= Pouring.SHARE * found.episodes
    policy = loaded(tmp_path / "run")
    assert problem.evaluate(policy, episodes=200).episodes_satisfied >= 200 * Pouring.SHARE
    # An empty cup needs more than one with 5 in it, after half of the steps; a row lacks the cup.
    needs = [float(policy([0.5, given, 6.0])[0]) for given in (0.0, 5.0)]
    assert needs[0] > needs[1] + 0.1
    with pytest.raises(PolicyError, match="then what each region had so far and the steps so far"):
        policy([0.5])
