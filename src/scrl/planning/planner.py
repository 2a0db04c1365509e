"""`scrl.planner().ask(world, rules)`: a plan for any rules on any map, without training."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scrl.errors import PolicyError
from scrl.evaluation import NO_MIXTURE
from scrl.planning import plan_files
from scrl.planning.answer import Answer, Plan
from scrl.planning.branch_search import SearchOptions, search_plans
from scrl.planning.drives import PriceDriver
from scrl.planning.even import even_plan
from scrl.policies import Schedule
from scrl.problems import Problem, find_world
from scrl.problems.problem import RuleInput
from scrl.reference import Reference
from scrl.reference.answer import Question
from scrl.reference.priced import Priced, price_rules
from scrl.reference.solve import bounded

SUREST = 0.999
"""The largest share of single episodes that a search asks for."""
TIME_LIMIT_S = 60.0
BOUND_TIME_S, PROOF_TIME_S = 5.0, 10.0
"""How long a bound may take where a plan was found, and where none was."""


class Planner:
    """Answers rule sets; the last world is remembered."""

    def __init__(self) -> None:
        self._last: tuple[Problem, PriceDriver] | None = None

    def ask(
        self,
        world: Problem | Path | str,
        rules: RuleInput | None = None,
        *,
        mix: bool = False,
        even: bool = False,
        seed: int = 0,
        time_limit_s: float = TIME_LIMIT_S,
        watch: Callable[[str], None] | None = None,
    ) -> Answer:
        """The best plan found; where none keeps the rules, the one that breaks them least.

        Without `rules`, those of the problem are used. With `mix` the answer may draw one of
        several plans for each episode, which keep the rules on average and not each by itself.
        With `even` the plan has one speed and one dose for each region (`planning.even`).
        `watch` is called with a progress message.
        """
        say = watch or (lambda _: None)
        started = time.monotonic()
        loaded = world if isinstance(world, Problem) else find_world(world)
        problem = loaded if rules is None else loaded.with_rules(rules)
        share = problem.rules.largest_share
        if mix and share is not None:
            raise PolicyError(NO_MIXTURE)
        if mix and even:
            raise PolicyError("an even plan is one plan: leave out --mix or --even")
        is_same = problem.world_spec.totals == loaded.world_spec.totals
        say("computing the reference")
        priced = price_rules(problem)
        if priced.branch is None and priced.reference.conflict:
            names = ", ".join(f"'{name}'" for name, _ in priced.reference.conflict)
            raise PolicyError(
                f"{problem.name}: the fluid cannot keep {names}, and no loosening was found "
                "that would help; numbers of such different sizes cannot be weighed against each "
                "other"
            )
        if priced.branch is None:
            raise PolicyError(
                f"{problem.name}: the reference found no way to keep the rules in time; "
                "write rules with fewer alternatives"
            )
        say("proving a bound")
        # One value for each branch is enough: so the same question has the same answer.
        reference = bound_of(problem, priced.reference, BOUND_TIME_S, enough=np.inf)
        priced = replace(priced, reference=reference)
        if even:
            return self._even(problem, priced, started)
        driver = self._driver(loaded if is_same else problem)
        driver.watch = lambda share: say(f"driving plans: {share:.0%} of the path")
        # The search asks all rules together of as many single episodes as the strictest one does.
        confidence = None if share is None else min(float(share), SUREST)
        # With a flow, polishing finds what a coarse lattice misses.
        options = SearchOptions(
            confidence, seed, may_mix=mix, is_quick=problem.world_spec.vehicle.has_flow,
            deadline=started + time_limit_s, say=say,
        )  # fmt: skip
        searched = search_plans(problem, priced, driver, options)
        priced, found, evaluation = searched.priced, searched.best.found, searched.best.evaluation
        reference = priced.reference
        if evaluation.is_satisfied:
            reference = reference.without_conflict()
        elif reference.conflict and not reference.is_impossible:
            say("looking for a proof that no policy keeps the rules")
            reference = bound_of(problem, reference, PROOF_TIME_S)
        names = problem.world_spec.amounts
        plans = tuple(
            Plan.of(float(weight), names, prices, policy, found.aims)
            for weight, prices, policy in zip(
                found.weights, found.prices, found.policies, strict=True
            )
        )
        return Answer(
            problem, evaluation, reference, plans, priced.taken, priced.disjuncts,
            loaded.world_spec.regions.warnings, time.monotonic() - started,
        )  # fmt: skip

    def _even(self, problem: Problem, priced: Priced, started: float) -> Answer:
        """The best even plan, judged by the bound of all plans."""
        found = even_plan(problem)
        plan = Plan.of(
            1.0, problem.world_spec.amounts, found.prices[None], Schedule.of(found.actions)
        )
        return Answer(
            problem, found.evaluation, priced.reference, (plan,), found.priced.taken,
            found.priced.disjuncts, tuple(problem.world_spec.regions.warnings),
            time.monotonic() - started,
        )  # fmt: skip

    def keep(self, answer: Answer, path: Path | str, *, seed: int = 0) -> Path:
        """Write an answer as a run folder, for `scrl report`, `export` and `eval`."""
        return plan_files.write(answer, path, seed=seed).path

    def ask_all(
        self, world: Problem | Path | str, rule_sets: Sequence[RuleInput], **options: Any
    ) -> list[Answer]:
        """One answer for each rule set on the same world."""
        loaded = world if isinstance(world, Problem) else find_world(world)
        return [self.ask(loaded, rules, **options) for rules in rule_sets]

    def _driver(self, world: Problem) -> PriceDriver:
        """The driver of a world; the last one is cached."""
        if self._last is None or self._last[0] is not world:
            self._last = (world, PriceDriver(world.world_spec, world.world))
        return self._last[1]


def bound_of(
    problem: Problem, reference: Reference, time_limit_s: float, enough: float | None = None
) -> Reference:
    """The reference with a bound of the true world, where there is one."""
    if problem.discount != 1.0:
        return reference
    question = Question.of(problem)
    return bounded(question, reference, time_limit_s=time_limit_s, enough=enough)


def planner() -> Planner:
    """A planner, which answers any rules on any map."""
    return Planner()
