"""Policies out of run folders."""

from __future__ import annotations

from pathlib import Path

import jax
from jaxtyping import PRNGKeyArray

from scrl.errors import PolicyError
from scrl.evaluation import Evaluation, evaluate
from scrl.learners import SeeingPolicy
from scrl.loop import begin_after
from scrl.measuring import Measurement
from scrl.methods import TrainingConfig
from scrl.outcome import SeedResult, TrainingResult
from scrl.problems import Problem
from scrl.rounds import task_of
from scrl.runfiles.files import damage_in
from scrl.runs import RunError, RunFolder

REPORT_SEED = 1_000_003
"""Added to a training seed: the episodes that report a policy are not those that chose it."""
REPORT_EPISODES = 1_000
"""Episodes behind a result where chance plays a part; else one tells everything."""


def load_policy(run: Path | str, seed: int | None = None) -> SeeingPolicy:
    """The policy that a run on a map ended with: that of a seed, or of the best one."""
    folder = RunFolder.open(run)
    index = seed_index(folder, seed)
    return seed_policy(folder.load_policy(_policies_like(folder)), index)


def seed_index(folder: RunFolder, seed: int | None) -> int:
    """The place of a seed, or of the best one, among those of a finished run."""
    return folder.record.seeds.index(read_seed(folder, seed).seed)


def read_seed(folder: RunFolder, seed: int | None) -> SeedResult:
    """What a finished run says of a seed, or of the best one."""
    result = read_result(folder)
    if result is None:
        raise PolicyError(
            f"{folder.path}: this run is not finished; go on with {folder.going_on} first"
        )
    if seed is None:
        return result.best
    for each in result.seeds:
        if each.seed == seed:
            return each
    known = ", ".join(str(each.seed) for each in result.seeds)
    raise PolicyError(f"{folder.path}: there is no seed {seed} in this run, only {known}")


def read_result(folder: RunFolder) -> TrainingResult | None:
    """What a run ended with; none while it has not."""
    found = folder.result()
    if found is None:
        return None
    result = TrainingResult.from_json(found, folder.path)
    _check(result, folder)
    return result


def _check(result: TrainingResult, folder: RunFolder) -> None:
    """Raise where a result is not one of the seeds and of the problem beside it."""
    path = folder.path / "result.json"
    if sorted(each.seed for each in result.seeds) != sorted(folder.record.seeds):
        raise RunError(f"{path}: damaged: the seeds in it are not those of run.json")
    if not folder.has_problem:
        return
    problem = folder.terms()
    rules = [rule.name for rule in problem.rules.rules]
    regions = set(problem.regions)
    for each in result.seeds:
        found = each.evaluation
        amounts = (found.density, found.density_se)
        if [rule.name for rule in found.rules] != rules or any(set(x) != regions for x in amounts):
            raise RunError(f"{path}: speaks of other rules or regions than the problem beside it")


def config_of(folder: RunFolder) -> TrainingConfig:
    """The method of a run with its settings; what is wrong with them is a fault of run.json."""
    with damage_in(folder.path / "run.json"):
        return TrainingConfig.from_json(folder.record.settings)


def _policies_like(folder: RunFolder) -> SeeingPolicy:
    """The shapes of the policies of all seeds, without training."""
    config = config_of(folder)
    task = task_of(folder.problem(), config)
    number = jax.ShapeDtypeStruct((), float)
    amounts, errors = (
        jax.ShapeDtypeStruct((count,), float)
        for count in (task.world.regions, len(task.told.bounds))
    )
    whole = jax.ShapeDtypeStruct((), bool)
    first = Measurement._make([number, amounts, number, number, number, whole, errors])

    def policy(first: Measurement, key: PRNGKeyArray) -> SeeingPolicy:
        return begin_after(config.plan, task, first, keys=(key, key, key)).best.policy

    seeds = len(folder.record.seeds)
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((seeds, *leaf.shape), leaf.dtype),
        jax.eval_shape(policy, first, jax.random.key(0)),
    )


def report(problem: Problem, policy: SeeingPolicy, seed: int, name: str) -> Evaluation:
    """What a trained policy does in episodes that had no part in choosing it."""
    episodes = REPORT_EPISODES if problem.world_spec.is_random else 1
    return evaluate(problem, policy, episodes=episodes, seed=REPORT_SEED + seed, name=name)


def seed_policy(policies: SeeingPolicy, index: int) -> SeeingPolicy:
    """The policy of one seed out of those of all."""
    return jax.tree.map(lambda leaf: leaf[index], policies)
