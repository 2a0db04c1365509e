"""`scrl.planner().ask(world, rules)`: a plan for any rules on any map, without training."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from scrl.errors import PolicyError
from scrl.evaluation import REPORT_EPISODES, REPORT_SEED, Evaluation, evaluate_mixture
from scrl.planning import plan_files, store
from scrl.planning.answer import Answer, Plan, holds
from scrl.planning.drives import PriceDriver
from scrl.planning.exact import exact_drives
from scrl.planning.policy import PricePolicy
from scrl.planning.pool import SearchSettings
from scrl.planning.search import Found, PlanSearch
from scrl.policies import Schedule
from scrl.problems import Problem, find_world
from scrl.problems.problem import RuleInput
from scrl.reference import Status
from scrl.reference.priced import Priced, PricedBranch, price_rules, price_without

JUDGING_EPISODES = 250
"""Episodes for choosing a plan; its report uses other and more episodes."""
CALM = (SearchSettings(),)
BY_CHANCE = (
    SearchSettings(episodes=32, rounds=4, deviations=2.0, may_mix=False),
    SearchSettings(episodes=128, plans=6, rounds=4, deviations=2.0, may_mix=False),
    SearchSettings(episodes=512, plans=6, rounds=8, deviations=3.0),
)
"""Searches of a random world, each tried if fresh episodes refute the previous one."""
MOST_BRANCHES = 4
"""Branches that are tried before the search gives up."""
NEAR = 0.02
"""For impossible rules, the search goes on above this missed share of the loosened ones."""
MOST_JUDGED = 3
"""Plans that are evaluated in each search but the last."""


class Planner:
    """Answers rule sets with one price policy."""

    def __init__(self, learned: store.Learned) -> None:
        self.learned = learned
        self._last: tuple[Problem, PriceDriver] | None = None

    def ask(
        self,
        world: Problem | Path | str,
        rules: RuleInput | None = None,
        *,
        confidence: float | None = None,
        seed: int = 0,
        watch: Callable[[str], None] | None = None,
    ) -> Answer:
        """The plan that keeps the rules at the least cost.

        Without `rules`, those of the problem are used. `confidence` requires that the rules hold
        in that share of single episodes as well. `watch` is called with a progress message.
        """
        say = watch or (lambda _: None)
        started = time.monotonic()
        if confidence is not None and not 0.0 < confidence < 1.0:
            raise PolicyError(f"confidence = {confidence} must lie between 0 and 1")
        loaded = world if isinstance(world, Problem) else find_world(world)
        problem = loaded if rules is None else loaded.with_rules(rules)
        driver = self._driver(loaded)
        driver.watch = lambda share: say(f"driving plans: {share:.0%} of the path")
        say("computing the reference")
        priced = price_rules(problem)
        if priced.branch is None and priced.reference.conflict:
            names = ", ".join(f"'{name}'" for name, _ in priced.reference.conflict)
            raise PolicyError(
                f"{problem.name}: impossible: no policy keeps {names}, and no loosening was found "
                "that would help; numbers of such different sizes cannot be weighed against each "
                "other"
            )
        if priced.branch is None:
            raise PolicyError(
                f"{problem.name}: the reference found no way to keep the rules in time; "
                "write rules with fewer alternatives"
            )
        priced, (found, evaluation) = _search(problem, priced, driver, confidence, seed)
        if problem.world_spec.is_random:
            evaluation = evaluate_mixture(
                problem, _policies(found, driver), found.weights,
                episodes=REPORT_EPISODES, seed=REPORT_SEED + seed, name="prices",
            )  # fmt: skip
        names = problem.world_spec.regions.names
        plans = tuple(
            Plan.of(float(weight), names, prices, policy)
            for weight, prices, policy in zip(
                found.weights, found.prices, _policies(found, driver), strict=True
            )
        )
        return Answer(
            problem, evaluation, priced.reference, plans, priced.taken, priced.disjuncts,
            tuple(self._warnings(problem)), time.monotonic() - started, confidence,
        )  # fmt: skip

    def keep(self, answer: Answer, path: Path | str, *, seed: int = 0) -> Path:
        """Write an answer as a run folder, for `scrl report`, `export` and `eval`."""
        return plan_files.write(answer, self.learned, path, seed=seed).path

    def ask_all(
        self, world: Problem | Path | str, rule_sets: Sequence[RuleInput], **options: Any
    ) -> list[Answer]:
        """One answer for each rule set on the same world."""
        loaded = world if isinstance(world, Problem) else find_world(world)
        return [self.ask(loaded, rules, **options) for rules in rule_sets]

    def _driver(self, world: Problem) -> PriceDriver:
        """The driver of a world; the last one is cached."""
        if self._last is None or self._last[0] is not world:
            self._last = (world, PriceDriver(self.learned.ahead, world.world_spec, world.world))
        return self._last[1]

    def _warnings(self, problem: Problem) -> list[str]:
        found = list(problem.world_spec.regions.warnings)
        outside = self.learned.ranges.outside(problem.world_spec)
        if not outside:
            return found
        return [
            *found,
            "this policy was not trained for " + "; ".join(outside) + ": its plans may be far from "
            "the best. `scrl learn` with this world trains one that is",
        ]


Judged = tuple[Found, Evaluation]


def _search(
    problem: Problem, priced: Priced, driver: PriceDriver, confidence: float | None, seed: int
) -> tuple[Priced, Judged]:
    """Search the best branch, and the next best if no plan keeps one of its atoms."""
    is_possible = priced.reference.status is not Status.INFEASIBLE
    judge = _Judge(problem, driver, confidence, seed, None if is_possible else priced.branch)
    tried: list[tuple[Priced, Judged]] = []
    avoided: frozenset[int] = frozenset()
    now: Priced | None = priced
    while now is not None and now.branch is not None and len(tried) < MOST_BRANCHES:
        best, broken = judge.search(now.branch, is_possible)
        tried.append((now, best))
        if judge.holds(best) or not len(broken):
            break
        avoided, now = _other_branch(problem, now, avoided, broken)
    if not any(judge.is_near(best) for _, best in tried):
        exact = exact_drives(problem, priced.branch, must_keep=is_possible)
        if exact is not None:
            tried.append((priced, (exact, judge.evaluate(exact))))
    return min(tried, key=lambda each: judge.rank(each[1]))


def _other_branch(
    problem: Problem, now: Priced, avoided: frozenset[int], broken: Int[np.ndarray, " broken"]
) -> tuple[frozenset[int], Priced | None]:
    """A branch without the violated atoms; if these have no alternative, one without the branch's
    other atoms."""
    of_branch = np.zeros(0, int) if now.branch is None else now.branch.atoms
    for atoms in (broken, of_branch):
        wider = avoided | set(atoms[_has_alternative(problem, atoms)].tolist())
        if wider > avoided and (found := price_without(problem, now, wider)) is not None:
            return wider, found
    return avoided, None


def _has_alternative(
    problem: Problem, atoms: Int[np.ndarray, " atom"]
) -> Bool[np.ndarray, " atom"]:
    """Whether every clause of an atom has another atom."""
    members = problem.atoms.members
    others = members.sum(axis=1)[:, None] > 1
    return (others | ~members[:, atoms]).all(axis=0)


@dataclass(frozen=True)
class _Judge:
    """Searches branches and evaluates the plans in new episodes."""

    problem: Problem
    driver: PriceDriver
    confidence: float | None
    seed: int
    loosened: PricedBranch | None = None
    """The loosened rules that replace impossible ones in the comparison of plans."""

    def search(
        self, branch: PricedBranch, is_possible: bool
    ) -> tuple[Judged, Int[np.ndarray, " broken"]]:
        """The best plans found, and the atoms that no mixture keeps."""
        is_random = self.problem.world_spec.is_random
        attempts = [
            replace(settings, confidence=self.confidence)
            for settings in (BY_CHANCE if is_random else CALM)
        ]
        if not is_possible:
            attempts = [replace(attempts[0], by_rules=False, may_mix=True)]
        judged: list[Judged] = []
        search, broken = None, np.zeros(0, int)
        for settings in attempts:
            search = PlanSearch(
                self.problem, branch, self.driver, settings, seed=self.seed, before=search
            )
            for found in islice(search.run(), None if settings is attempts[-1] else MOST_JUDGED):
                judged.append((found, self.evaluate(found)))
                if self.holds(judged[-1]) or not is_possible:
                    return judged[-1], np.zeros(0, int)
            broken = search.broken()
        return min(judged, key=self.rank), broken

    def evaluate(self, found: Found) -> Evaluation:
        return evaluate_mixture(
            self.problem, _policies(found, self.driver), found.weights,
            episodes=JUDGING_EPISODES if self.problem.world_spec.is_random else 1,
            seed=self.seed + 1, name="prices",
        )  # fmt: skip

    def holds(self, judged: Judged) -> bool:
        return holds(judged[1], self.confidence)

    def is_near(self, judged: Judged) -> bool:
        """Whether the rules hold, or the loosened ones nearly do if they are impossible."""
        return self.holds(judged) or (self.loosened is not None and self._missed(judged) <= NEAR)

    def rank(self, judged: Judged) -> tuple[bool, float, int]:
        """Sort key: plans that keep the rules first, then by violation."""
        evaluation = judged[1]
        missed = evaluation.cons_vio if self.loosened is None else self._missed(judged)
        return not self.holds(judged), missed, -evaluation.episodes_satisfied

    def _missed(self, judged: Judged) -> float:
        """The sum over the loosened atoms of the share of their bound that is missed."""
        if self.loosened is None:
            return 0.0
        bounds, density = self.loosened.bounds, np.array(list(judged[1].density.values()))
        over = np.maximum(self.loosened.coefficients @ density - bounds, 0.0)
        return float((over / np.maximum(np.abs(bounds), 1.0)).sum())


def _policies(found: Found, driver: PriceDriver) -> list[PricePolicy | Schedule]:
    """The policy of each plan: the price policy in a random world, else the recorded throttles."""
    if driver.spec.is_random:
        return [driver.policy(prices) for prices in found.prices]
    return [Schedule.of(each) for each in found.throttles]


def planner(policy: Path | str | None = None) -> Planner:
    """A planner with the shipped price policy, or with one from a folder of `scrl learn`."""
    return Planner(store.shipped() if policy is None else store.load(policy))
