"""Training at a tiny budget: same seed, same bits, however often it is interrupted."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import scrl
from scrl import methods, rounds, training
from scrl.errors import PolicyError, ScrlError
from scrl.outcome import TrainingResult
from scrl.problems import Problem, ProblemOptions
from scrl.punish import MECHANISMS
from scrl.runs import RunError, RunFolder
from scrl.trained import report
from scrl.training import DivergedError, InterruptedTrainingError, Progress
from scrl.worlds.regions import from_labels
from scrl.worlds.spec import SweepSpec

LOOP = {"worlds": 2, "steps": 32, "iterations": 4, "settle": 6, "width": 8, "depth": 1}
ROUNDS = LOOP["iterations"] + LOOP["settle"]
REPLAY = {"memory": 100, "batch": 8, "updates": 4}  # the ring is full in the second round
SHORT = {"settle": 0, "depth": 0}
LEARNERS: dict[str, dict[str, Any]] = {
    "ppo": {"learner": "ppo", "penalty": "scrl", "settings": {"epochs": 1, "minibatches": 2}},
    "ddpg": {"learner": "ddpg", "penalty": "lagrangian", "settings": REPLAY},
    "sac": {"learner": "sac", "penalty": "scrl-min", "settings": REPLAY | SHORT},
    "unpunished": {"learner": "ddpg", "penalty": "none", "settings": REPLAY | SHORT},
}
"""Every learner and every penalty once."""


class Stopped(Exception):  # noqa: N818 (nothing is wrong)
    """What ends a run in the middle here."""


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Full speed gives S1 15.75 and breaks the rule; an untrained policy gives 20 and keeps it.

    S2 always gets more than 10, so that the kappa of one atom grows all the time.
    """
    spec = SweepSpec(from_labels(np.repeat([[1] * 4 + [2] * 4], 4, axis=0)))
    rules = {"situational": "if S2 > 10 then S1 >= 18"}
    return Problem.create(spec, rules, ProblemOptions(name="small"))


@pytest.fixture(scope="module", autouse=True)
def traces() -> Iterator[Counter[str]]:
    """Compile quickly, and only once for runs that are alike; count what is traced."""
    counted: Counter[str] = Counter()

    def counting(name: str) -> Callable[..., Any]:
        traced = getattr(rounds, name)

        def count(*arguments: Any, **options: Any) -> Any:
            counted[name] += 1
            return traced(*arguments, **options)

        return count

    with pytest.MonkeyPatch.context() as patch:
        # Compiled code is kept by its mechanism, and each run makes its own.
        patch.setattr(methods, "scrl", functools.cache(methods.scrl))
        for name, make in MECHANISMS.items():
            patch.setitem(MECHANISMS, name, functools.cache(make))
        for name in ("begin", "iterate", "settle"):
            patch.setattr(rounds, name, counting(name))
        jax.config.update("jax_disable_most_optimizations", True)
        yield counted
        jax.config.update("jax_disable_most_optimizations", False)


def train(problem: Problem, name: str, out: Path, **options: Any) -> TrainingResult:
    """A run of two seeds; `name` is a row of the table above."""
    known = LEARNERS[name]
    settings = LOOP | known["settings"]
    return scrl.train(
        problem, **{"seeds": 2, **known, "settings": settings, "out": out, **options}
    )  # fmt: skip


@pytest.fixture(scope="module")
def traced() -> dict[str, Counter[str]]:
    """What each of the runs below had to trace."""
    return {}


@pytest.fixture(scope="module")
def whole(
    problem: Problem,
    tmp_path_factory: pytest.TempPathFactory,
    traces: Counter[str],
    traced: dict[str, Counter[str]],
) -> Callable[[str], TrainingResult]:
    """Runs that nothing interrupts, each trained once."""
    root = tmp_path_factory.mktemp("whole")

    @functools.cache
    def trained(name: str) -> TrainingResult:
        before = traces.copy()
        result = train(problem, name, root / name)
        traced[name] = traces - before
        return result

    return trained


@pytest.fixture
def copied(whole: Callable[[str], TrainingResult], tmp_path: Path) -> Path:
    """A finished run of its own."""
    return shutil.copytree(whole("ppo").run, tmp_path / "copied")


@pytest.fixture
def saves_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_EVERY_S", -1.0)


def stop_after(round_: int) -> Callable[[Progress], None]:
    def watch(now: Progress) -> None:
        if now.rounds == round_:
            raise Stopped

    return watch


def result_of(run: Path) -> dict[str, Any]:
    """The result without what may differ: how long it took, and where it lies."""
    document = json.loads((run / "result.json").read_text())
    assert document["result"].pop("wall_s") > 0
    for each in document["result"]["seeds"]:
        assert each.pop("run") == str(run)
    return document


def assert_same_bits(run: Path, other: Path) -> None:
    assert (run / "policy.eqx").read_bytes() == (other / "policy.eqx").read_bytes()
    assert (run / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    assert json.dumps(result_of(run)) == json.dumps(result_of(other))


def leaves(tree: Any) -> list[list[Any]]:
    return [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(tree)]


# What a run is.


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_and_penalty_trains_and_says_what_the_contract_asks_for(
    whole: Callable[[str], TrainingResult], name: str
) -> None:
    result = whole(name)
    document = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert (document["problem"], document["method"]) == ("small", "scrl")
    assert [each["seed"] for each in document["seeds"]] == [0, 1]
    assert document["satisfied"] == sum(each["satisfied"] for each in document["seeds"])
    assert document["wall_s"] > 0
    assert {"gap_mean", "gap_worst", "env_steps"} <= document.keys()
    for each in document["seeds"]:
        assert {
            "return", "density", "density_se", "cons_vio", "satisfied", "rules", "episodes",
            "episodes_satisfied", "steps", "seed", "gap", "run",
        } <= each.keys()  # fmt: skip
        assert each["density"].keys() == {"S1", "S2"}
        assert each["gap"] == pytest.approx(
            (document["reference"] - each["return"]) / abs(document["reference"])
        )
        assert each["run"] == str(result.run)
    folder = RunFolder.open(result.run)
    assert folder.record.settings["penalty"] == LEARNERS[name]["penalty"]
    assert folder.result() == document


def test_every_round_of_every_seed_is_logged_and_every_step_counted(
    whole: Callable[[str], TrainingResult],
) -> None:
    result = whole("ppo")
    rows = RunFolder.open(result.run).metrics()
    assert [(row["iteration"], row["seed"]) for row in rows] == [
        (round_, seed) for round_ in range(1, ROUNDS + 1) for seed in (0, 1)
    ]
    # Learning: 4 rounds x 2 worlds x 32 steps x 2 seeds = 512; the rest is measured.
    assert result.env_steps == 512 + sum(row["steps"] for row in rows)
    # S2 <= 10 never holds: its kappa grows in every round.
    kappas = [row["kappa/0"] for row in rows if row["seed"] == 0]
    assert kappas == sorted(set(kappas))
    assert kappas[0] == 0.0


def test_the_policy_handed_out_is_the_best_that_was_measured(
    whole: Callable[[str], TrainingResult],
) -> None:
    result = whole("ppo")
    rows = RunFolder.open(result.run).metrics()
    for each in result.seeds:
        kept = [row["return"] for row in rows if row["seed"] == each.seed and row["violation"] == 0]
        assert each.evaluation.return_ == pytest.approx(max(kept), rel=1e-5)
        assert each.is_satisfied


def test_a_watcher_sees_every_round(problem: Problem, tmp_path: Path) -> None:
    seen: list[Progress] = []
    result = train(problem, "ppo", tmp_path / "run", watch=seen.append)
    assert [now.rounds for now in seen] == list(range(1, ROUNDS + 1))
    assert {now.rounds_in_all for now in seen} == {ROUNDS}
    assert {now.run for now in seen} == {result.run}
    assert seen[-1].env_steps == result.env_steps
    assert seen[0].metrics.density.shape == (2, 2)


def test_without_out_a_run_gets_a_new_folder(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = {train(problem, "ppo", out=None).run for _ in range(2)}  # type: ignore[arg-type]
    assert {run.parent for run in runs} == {Path("runs")}
    assert all(run.name.startswith("small-scrl-") for run in runs)
    assert len(runs) == 2


def test_a_thread_may_train_though_it_gets_no_signals(
    problem: Problem, tmp_path: Path, whole: Callable[[str], TrainingResult]
) -> None:
    worker = threading.Thread(target=train, args=(problem, "ppo", tmp_path / "run"))
    worker.start()
    worker.join()
    assert_same_bits(tmp_path / "run", whole("ppo").run)


@pytest.mark.parametrize("name", ["ppo", "ddpg"])
def test_rounds_are_compiled_once_however_many_there_are(
    whole: Callable[[str], TrainingResult], traced: dict[str, Counter[str]], name: str
) -> None:
    assert len(RunFolder.open(whole(name).run).metrics()) == 2 * ROUNDS
    assert traced[name] == Counter(begin=1, iterate=1, settle=1)


# Seeds.


@pytest.mark.parametrize("name", ["ppo", "ddpg"])
def test_the_same_seed_gives_the_same_bits(
    problem: Problem, tmp_path: Path, whole: Callable[[str], TrainingResult], name: str
) -> None:
    again = train(problem, name, tmp_path / "again")
    assert_same_bits(again.run, whole(name).run)


def test_another_seed_learns_something_else(
    problem: Problem, tmp_path: Path, whole: Callable[[str], TrainingResult]
) -> None:
    other = train(problem, "ppo", tmp_path / "other", seed=5)
    assert [each.seed for each in other.seeds] == [5, 6]
    policies = [
        leaves(scrl.load_policy(run, seed))
        for run, seed in [(whole("ppo").run, 0), (whole("ppo").run, 1), (other.run, 5)]
    ]
    assert policies[0] != policies[1]
    assert policies[0] != policies[2]
    losses = {
        row["loss"]
        for run in (whole("ppo").run, other.run)
        for row in RunFolder.open(run).metrics()
        if row["iteration"] == 1
    }
    assert len(losses) == 4


def test_a_seed_learns_the_same_whatever_stands_beside_it(
    problem: Problem, tmp_path: Path, whole: Callable[[str], TrainingResult]
) -> None:
    swapped = train(problem, "ppo", tmp_path / "swapped", seeds=[1, 0])
    for one in (0, 1):
        rows, others = (
            [row for row in RunFolder.open(run).metrics() if row["seed"] == one]
            for run in (whole("ppo").run, swapped.run)
        )
        for row, other in zip(rows, others, strict=True):
            assert row == pytest.approx(other, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    "seeds", [{"seeds": 0}, {"seeds": []}, {"seeds": [1, 1]}, {"seeds": [3, -1]}, {"seed": -1}]
)
def test_seeds_that_are_none_the_same_or_negative_are_refused(
    problem: Problem, tmp_path: Path, seeds: dict[str, Any]
) -> None:
    with pytest.raises(ScrlError, match="different whole numbers of at least 0"):
        train(problem, "ppo", tmp_path / "run", **seeds)
    assert not (tmp_path / "run").exists()


# Folders in use.


def test_a_folder_that_is_not_empty_is_refused_and_left_as_it_is(
    problem: Problem, tmp_path: Path, copied: Path
) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter.txt").write_text("keep me")
    before = contents(tmp_path)
    with pytest.raises(RunError, match=r"choose another --out$"):
        train(problem, "ppo", tmp_path / "letters")
    with pytest.raises(RunError, match=r"or go on with --resume .*copied$"):
        train(problem, "ppo", copied)
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Going on.


@pytest.mark.usefixtures("saves_every_round")
@pytest.mark.parametrize("name", ["ppo", "ddpg"])
@pytest.mark.parametrize("stop", [1, 3, 4, 7, ROUNDS])
def test_a_run_that_was_stopped_ends_with_the_same_bits(
    problem: Problem,
    tmp_path: Path,
    whole: Callable[[str], TrainingResult],
    name: str,
    stop: int,
) -> None:
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        train(problem, name, run, watch=stop_after(stop))
    seen: list[int] = []
    result = scrl.resume(run, watch=lambda now: seen.append(now.rounds))
    assert seen == list(range(stop + 1, ROUNDS + 1))
    assert_same_bits(run, whole(name).run)
    assert result.env_steps == whole(name).env_steps


@pytest.mark.usefixtures("saves_every_round")
def test_what_happened_after_the_last_checkpoint_happens_again(
    problem: Problem,
    tmp_path: Path,
    whole: Callable[[str], TrainingResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = tmp_path / "run"

    def watch(now: Progress) -> None:
        if now.rounds == 2:
            monkeypatch.setattr(training, "CHECKPOINT_EVERY_S", 1e9)
        stop_after(6)(now)

    with pytest.raises(Stopped):
        train(problem, "ppo", run, watch=watch)
    assert len(RunFolder.open(run).metrics()) == 2 * 6
    seen: list[int] = []
    scrl.resume(run, watch=lambda now: seen.append(now.rounds))
    assert seen[0] == 3
    assert_same_bits(run, whole("ppo").run)


def test_a_run_without_a_checkpoint_starts_again(
    problem: Problem, tmp_path: Path, whole: Callable[[str], TrainingResult]
) -> None:
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        train(problem, "ppo", run, watch=stop_after(2))
    scrl.resume(run)
    assert_same_bits(run, whole("ppo").run)


@pytest.mark.parametrize("pressed", [1, 4, ROUNDS - 1])
def test_ctrl_c_ends_the_round_and_saves_it(
    problem: Problem, tmp_path: Path, whole: Callable[[str], TrainingResult], pressed: int
) -> None:
    before = signal.getsignal(signal.SIGINT)

    def watch(now: Progress) -> None:
        if now.rounds == pressed:
            os.kill(os.getpid(), signal.SIGINT)

    run = tmp_path / "run"
    with pytest.raises(InterruptedTrainingError, match="all is saved in") as stopped:
        train(problem, "ppo", run, watch=watch)
    assert stopped.value.run == run
    assert signal.getsignal(signal.SIGINT) is before
    mark = json.loads((run / "checkpoint" / "checkpoint.json").read_text())
    assert mark["iteration"] == pressed + 1
    scrl.resume(run)
    assert_same_bits(run, whole("ppo").run)


def test_ctrl_c_twice_does_not_wait_for_the_round(problem: Problem, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)

    def watch(now: Progress) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(problem, "ppo", tmp_path / "run", watch=watch)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_finished_run_is_read_and_not_trained_again(
    copied: Path, whole: Callable[[str], TrainingResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "Rounds", None)
    before = contents(copied)
    found = scrl.resume(copied)
    assert found.seeds == whole("ppo").seeds
    assert found.wall_s == whole("ppo").wall_s
    assert found.run == copied
    assert contents(copied) == before


@pytest.mark.usefixtures("saves_every_round")
def test_a_damaged_checkpoint_is_not_gone_on_with(problem: Problem, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        train(problem, "ppo", run, watch=stop_after(2))
    (state,) = (run / "checkpoint").glob("*.eqx")
    state.write_bytes(state.read_bytes()[:-1])
    with pytest.raises(RunError, match="damaged: its checksum"):
        scrl.resume(run)


# Numbers that are none.


@pytest.mark.usefixtures("saves_every_round")
@pytest.mark.parametrize("field", ["loss", "return_", "kappa"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_divergence_names_round_and_seed_and_keeps_the_last_good_checkpoint(
    problem: Problem,
    tmp_path: Path,
    whole: Callable[[str], TrainingResult],
    field: str,
    value: float,
) -> None:
    run = tmp_path / "run"
    learn = rounds.Rounds.learn

    def spoiled(self: rounds.Rounds, state: Any) -> Any:
        state, metrics = learn(self, state)
        if state.iteration[1] == 3:
            numbers = getattr(metrics, field)
            metrics = metrics._replace(**{field: numbers.at[1].set(value)})
        return state, metrics

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds.Rounds, "learn", spoiled)
        with pytest.raises(DivergedError, match=r"diverged in round 3 \(seed 8\)") as diverged:
            train(problem, "ppo", run, seeds=[4, 8])
    assert "learning_rate" in str(diverged.value)
    assert str(run) in str(diverged.value)
    assert len(RunFolder.open(run).metrics()) == 2 * 2
    seen: list[int] = []
    result = scrl.resume(run, watch=lambda now: seen.append(now.rounds))
    assert seen[0] == 3
    assert [each.seed for each in result.seeds] == [4, 8]


def test_all_seeds_that_diverged_are_named(problem: Problem, tmp_path: Path, monkeypatch) -> None:
    def spoiled(self: rounds.Rounds, state: Any) -> Any:
        state, metrics = rounds.learn_round(self.plan, self.mesh, self.task, state)
        return state, metrics._replace(loss=metrics.loss * np.nan)

    monkeypatch.setattr(rounds.Rounds, "learn", spoiled)
    with pytest.raises(DivergedError, match=r"round 1 \(seed 0, 1\)"):
        train(problem, "ppo", tmp_path / "run")


# Policies out of runs.


def test_a_policy_does_again_exactly_what_the_result_says(
    problem: Problem, whole: Callable[[str], TrainingResult]
) -> None:
    for name in LEARNERS:
        result = whole(name)
        for each in result.seeds:
            policy = scrl.load_policy(result.run, each.seed)
            assert report(problem, policy, each.seed, "scrl") == each.evaluation
            found = scrl.evaluate(problem, policy, name="scrl")
            assert found == each.evaluation  # nothing is random here: any episode is the same


def test_the_policy_of_the_best_seed_is_loaded_unless_another_is_named(copied: Path) -> None:
    first, second = (leaves(scrl.load_policy(copied, seed)) for seed in (0, 1))
    assert first != second
    document = json.loads((copied / "result.json").read_text())
    for best, expected in [(0, first), (1, second)]:
        for index, each in enumerate(document["result"]["seeds"]):
            each["return"] = -1.0 if index == best else -2.0
        (copied / "result.json").write_text(json.dumps(document))
        assert leaves(scrl.load_policy(str(copied))) == expected


def test_a_seed_that_was_not_trained_has_no_policy(copied: Path) -> None:
    with pytest.raises(PolicyError, match="there is no seed 7 in this run, only 0, 1"):
        scrl.load_policy(copied, 7)


def test_a_run_that_is_not_finished_has_no_policy_yet(problem: Problem, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        train(problem, "ppo", tmp_path / "run", watch=stop_after(2))
    with pytest.raises(PolicyError, match=r"not finished; go on with `scrl train --resume`"):
        scrl.load_policy(tmp_path / "run")


def test_a_folder_that_is_no_run_has_no_policy(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no run\.json"):
        scrl.load_policy(tmp_path)
    with pytest.raises(RunError, match="there is no such folder"):
        scrl.load_policy(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("policy.eqx", None, "there is no policy yet"),
        ("policy.eqx", lambda data: data[:-4], "policy.eqx: .*damaged: the file ends here"),
        ("policy.eqx", lambda data: data + b"x", "policy.eqx: holds more than is asked for"),
        ("policy.eqx", lambda data: b"junk" + data, "policy.eqx: .*damaged"),
        ("result.json", lambda data: data[:50], "result.json: damaged, not JSON"),
        (
            "result.json",
            lambda data: b'{"schema": 1, "result": {}}',
            r"result\.json: damaged: 'problem' is missing",
        ),
        ("run.json", lambda data: data[:50], "run.json: damaged, not JSON"),
        (
            "run.json",
            lambda data: data.replace(b'"width": 8', b'"width": 9'),
            "policy.eqx: .*it belongs to other settings",
        ),
    ],
)
def test_damage_is_named(
    copied: Path, name: str, damage: Callable[[bytes], bytes] | None, message: str
) -> None:
    path = copied / name
    if damage is None:
        path.unlink()
    else:
        damaged = damage(path.read_bytes())
        assert damaged != path.read_bytes()
        path.write_bytes(damaged)
    with pytest.raises(RunError, match=message):
        scrl.load_policy(copied)
