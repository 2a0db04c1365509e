"""Any rules in an external environment, from one policy that sees prices, without training again.

`respond` is that policy at given prices, run for whole episodes. The branch and the multipliers are
those of the best mixture of all policies run so far (the master program of `reference.columns`), by
branch and bound over the atoms (`reference.branches`). The multipliers, and points near those
of the policies that are mixed, are run next. The answer is a single policy that keeps the rules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from scrl.density import standard_error
from scrl.environments.driver import Uniform, act_all, held
from scrl.environments.lanes import Lanes
from scrl.environments.policy import EnvironmentPolicy, evaluate_mixture_in
from scrl.environments.problem import EnvironmentProblem
from scrl.environments.rollout import run_episodes
from scrl.environments.training import REPORT_EPISODES, waiting
from scrl.errors import PolicyError
from scrl.evaluation import REPORT_SEED, Evaluation
from scrl.learners import TrainedPolicy
from scrl.penalty import LARGEST_PRICE, random_prices
from scrl.problems.problem import RuleInput
from scrl.reference.answer import Taken
from scrl.reference.branches import Relaxed, search
from scrl.reference.columns import Mixture, best_mixture
from scrl.reference.disjunctive import BoundedAtoms, BranchChoice
from scrl.reference.linear import Optimum
from scrl.reference.solve import taken_disjuncts
from scrl.rules import RuleSet
from scrl.runs.folder import RunFolder, RunRecord
from scrl.runs.result import SeedResult
from scrl.training.config import TrainingConfig
from scrl.training.result import TrainingResult
from scrl.violation import cons_vio

TIME_LIMIT_S = 60.0
"""For the search; the episodes that report come on top."""
WORLDS = 16
"""Worlds side by side in training: each rollout has as many vectors of prices."""
LANES, AT_ONCE = 5, 8
"""Environments for each vector of prices, and vectors of prices at once."""
SEARCHED_STEPS, FEWEST, MOST = 3_000, 5, 15
"""Steps behind one response, about, and its episodes, at least and at most."""
MORE, CONFIRMED, PAIR = 4, 8, 2
"""How many times as many episodes confirm a policy, how often that is tried at a time, and for how
many policies at once."""
REPORTED_STEPS = 40_000
"""Steps behind the report of an answer, about, unless `REPORT_EPISODES` take fewer."""
FIRST_SIZES = (0.2, 1.0, 5.0)
"""Prices of single regions that are tried first, in units; both signs."""
FIRST_DRAWN = 8
"""Further prices that are tried first, drawn as in training."""
ROUNDS = 8
DEVIATIONS = 2.0
"""Standard errors that a policy must lie inside the bounds."""
GOOD_ENOUGH = 0.01
"""A single policy this share of the return from the best mixture ends the search."""
SPREAD = 0.1
"""How far from the multipliers and from the best policies others are tried, as a share."""
DEAR = 10.0
"""What breaking an atom costs, in the largest prices."""
SEARCH_SEED = 0x5EED
"""Of the episodes that choose, which differ from those that report."""


@dataclass(frozen=True)
class Tried:
    """A policy at some prices, and its episodes."""

    prices: Float[np.ndarray, " region"]
    """In return for one unit."""
    returns: Float[np.ndarray, " episode"]
    amounts: Float[np.ndarray, "episode region"]

    @property
    def return_(self) -> float:
        return float(self.returns.mean())

    @cached_property
    def mean(self) -> Float[np.ndarray, " region"]:
        return self.amounts.mean(axis=0)

    def margin(self, coefficients: Float[np.ndarray, "atom region"]) -> Float[np.ndarray, " atom"]:
        """How far inside each bound it must lie."""
        return DEVIATIONS * standard_error(self.amounts @ coefficients.T)


@dataclass(frozen=True, repr=False)
class PricedPolicy:
    """The policy at some prices, and the share of the episodes that it acts in."""

    weight: float
    prices: dict[str, float]
    """What one more unit is worth to it, in return."""
    policy: EnvironmentPolicy

    def to_json(self) -> dict[str, Any]:
        return {"weight": self.weight, "prices": self.prices}

    def __repr__(self) -> str:
        prices = ", ".join(f"{name} {price:+.3g}" for name, price in self.prices.items())
        return f"<PricedPolicy for {self.weight:.1%} of the episodes: {prices}>"


@dataclass(frozen=True, repr=False)
class EnvironmentAnswer:
    """The answer to one rule set in an environment."""

    problem: EnvironmentProblem
    evaluation: Evaluation
    policies: tuple[PricedPolicy, ...]
    """One policy, or a mixture that draws one by its weight for each episode."""
    branch: tuple[Taken, ...]
    """The disjunct taken in each clause."""
    wall_s: float

    @property
    def is_satisfied(self) -> bool:
        return self.evaluation.is_satisfied

    @property
    def status(self) -> str:
        """`satisfied` or `violated`: nothing is proven in an external environment."""
        return "satisfied" if self.is_satisfied else "violated"

    def to_json(self) -> dict[str, Any]:
        """The fields of the command contract."""
        return {
            **self.evaluation.to_json(),
            "status": self.status,
            "branch": [each.to_json() for each in self.branch],
            "prices": self.policies[0].prices,
            "plans": [each.to_json() for each in self.policies],
            "gap": None,
            "gap_to_best": None,
            "warnings": [],
            "wall_s": self.wall_s,
        }

    @property
    def summary(self) -> str:
        """The status as text."""
        return f"{self.status} ({self.wall_s:.2f} s)"

    def __repr__(self) -> str:
        return f"<Answer {self.problem.name}: return {self.evaluation.return_:.2f}, {self.summary}>"

    def __str__(self) -> str:
        return f"{self.evaluation}\n  {self.summary}"


class EnvironmentPlanner:
    """Answers rule sets in an environment with the policy that `scrl.learn` has trained."""

    def __init__(
        self, problem: EnvironmentProblem, policy: TrainedPolicy, config: TrainingConfig, path: Path
    ) -> None:
        self.problem, self.policy, self.config, self.path = problem, policy, config, path
        self._first: dict[int, list[Tried]] = {}

    def __repr__(self) -> str:
        return f"<EnvironmentPlanner {self.problem.name}, trained in {self.path}>"

    def ask(
        self,
        rules: RuleInput,
        *,
        mix: bool = False,
        seed: int = 0,
        time_limit_s: float = TIME_LIMIT_S,
        watch: Callable[[str], None] | None = None,
    ) -> EnvironmentAnswer:
        """The best policy found that keeps the rules, else the one that breaks them least.

        Rules hold on average over episodes. With `mix` the answer may draw one of several policies
        for each episode, which keep the rules on average and not each by itself. `watch` is called
        with a progress message.
        """
        say, started = watch or (lambda _: None), time.monotonic()
        problem = with_rules(self.problem, rules)
        lanes_wanted = problem.source.lanes or LANES * AT_ONCE
        with waiting(), problem.open(lanes_wanted) as lanes:
            tries = Tries(self.policy, problem, lanes, seed)
            if seed not in self._first:
                say("trying prices")
                self._first[seed] = tries.run(first_prices(tries.unit, seed))
            found = _Search(problem, tries, list(self._first[seed]), seed)
            best, weights = found.best(started + time_limit_s, say, may_mix=mix)
            policies = tuple(
                PricedPolicy(
                    weight, dict(zip(problem.regions, each.prices.tolist(), strict=True)),
                    EnvironmentPolicy(tries.at(each.prices), problem.actions),
                )
                for weight, each in zip(weights.tolist(), best, strict=True)
            )  # fmt: skip
            say("judging the answer in new episodes")
            evaluation = evaluate_mixture_in(
                lanes, problem, [each.policy for each in policies], weights,
                episodes=lanes.count * -(-reported_episodes(problem) // lanes.count),
                seed=REPORT_SEED + seed, name="prices",
            )  # fmt: skip
        return EnvironmentAnswer(
            problem, evaluation, policies, found.taken, time.monotonic() - started
        )

    def ask_all(self, rule_sets: Sequence[RuleInput], **options: Any) -> list[EnvironmentAnswer]:
        """One answer for each rule set."""
        return [self.ask(rules, **options) for rules in rule_sets]

    def keep(self, answer: EnvironmentAnswer, path: Path | str, *, seed: int = 0) -> Path:
        """Write an answer as a run folder, for `scrl report`, `export` and `evaluate_run`."""
        problem, config = answer.problem, self.config
        first, *others = answer.policies
        if others:
            raise PolicyError("a mixture of policies cannot be kept: ask without `mix`")
        record = RunRecord.now(problem.name, config.method, config.to_json(), (seed,))
        folder = RunFolder.create(path, None, record, environment=problem.record)
        folder.save_policy(jax.tree.map(lambda leaf: leaf[None], first.policy.policy))
        result = TrainingResult(
            problem=problem.name,
            method=config.method,
            bound=None,
            seeds=(SeedResult(seed, answer.evaluation, None),),
            wall_s=answer.wall_s,
            run=folder.path,
            env_steps=0,
        )
        folder.save_result(result.to_json())
        return folder.path


def reported_episodes(problem: EnvironmentProblem) -> int:
    """Episodes that report an answer, at least: long ones take long and vary less."""
    return max(1, min(REPORT_EPISODES, REPORTED_STEPS // problem.horizon_steps))


def with_rules(problem: EnvironmentProblem, rules: RuleInput) -> EnvironmentProblem:
    """The same environment under other rules."""
    options = problem.options
    found = RuleSet.of(rules, problem.regions, options.conventions, options.confidence)
    if found.largest_share is not None:
        raise PolicyError(
            f"{problem.name}: rules for a share of single episodes are not searched for; ask for "
            "rules on average, or train with scrl.train"
        )
    return replace(problem, rules=found)


def first_prices(unit: Float[np.ndarray, " region"], seed: int) -> Float[np.ndarray, "try region"]:
    """No prices, those of single regions, and some that are drawn as in training."""
    sizes = np.concatenate([FIRST_SIZES, np.negative(FIRST_SIZES)])
    alone = [size * np.diag(unit) for size in sizes]
    drawn = random_prices(jnp.asarray(unit), FIRST_DRAWN, key=jax.random.key(seed))
    return np.concatenate([np.zeros((1, len(unit))), *alone, np.asarray(drawn, float)])


class Tries:
    """The policy at any prices in some lanes, always in the same episodes."""

    def __init__(
        self, policy: TrainedPolicy, problem: EnvironmentProblem, lanes: Lanes, seed: int
    ) -> None:
        self.policy, self.problem, self.lanes = policy, problem, lanes
        self.at_once = int(np.gcd(lanes.count, AT_ONCE))
        self.seed = SEARCH_SEED + seed
        encoder = policy.encoder
        self.unit = np.asarray(encoder.price_unit / jnp.abs(encoder.label_unit), float)
        self.episodes = int(np.clip(SEARCHED_STEPS // problem.horizon_steps, FEWEST, MOST))

    def at(self, prices: Float[np.ndarray, " region"]) -> TrainedPolicy:
        """The policy that sees these prices."""
        price = jnp.asarray(prices, self.policy.price.dtype)
        return eqx.tree_at(lambda each: each.price, self.policy, price)

    def run(self, prices: Float[np.ndarray, "try region"]) -> list[Tried]:
        """Whole episodes at each vector of prices."""
        found: list[Tried] = []
        for first in range(0, len(prices), self.at_once):
            some = prices[first : first + self.at_once]
            filled = np.resize(some, (self.at_once, some.shape[1]))
            found += self._run_some(filled, self.episodes)[: len(some)]
        return found

    def run_more(self, prices: Float[np.ndarray, "try region"]) -> list[Tried]:
        """More episodes at up to `PAIR` vectors of prices, in all lanes."""
        if self.lanes.count % len(prices):
            return [self.run_more(row[None])[0] for row in prices]
        return self._run_some(prices, MORE * self.episodes)

    def _run_some(self, prices: Float[np.ndarray, "try region"], episodes: int) -> list[Tried]:
        count, lanes = len(prices), self.lanes
        each = -(-episodes // (lanes.count // count))
        policies = [self.at(row) for row in prices]
        answer = held(act_all, jax.tree.map(lambda *leaves: jnp.stack(leaves), *policies))
        actions, uniform = self.problem.actions, Uniform(self.policy, self.seed)

        def act(lanes: Lanes) -> np.ndarray:
            seen = np.reshape(lanes.features, (count, -1, lanes.features.shape[-1]))
            drawn = np.repeat(uniform(1, seen.shape[1]), count, axis=0)
            chosen = np.asarray(answer(seen, drawn))
            return actions.to_environment(chosen.reshape(lanes.count, *actions.kind.shape))

        own = np.random.SeedSequence(self.seed).generate_state(lanes.count // count) >> 1
        ran = run_episodes(
            lanes, act, each=each, seeds=np.tile(own, count).tolist(),
            discount=self.problem.discount,
        )  # fmt: skip
        returns = np.asarray(ran.return_).reshape(count, -1)
        amounts = np.asarray(ran.service).reshape(count, returns.shape[1], -1)
        return [Tried(*row) for row in zip(prices, returns, amounts, strict=True)]


class _Search:
    """The policies tried so far for one rule set, and what to try next."""

    def __init__(
        self, problem: EnvironmentProblem, tries: Tries, tried: list[Tried], seed: int
    ) -> None:
        self.problem, self.tries, self.tried = problem, tries, tried
        self.table = problem.atoms
        self.rng = np.random.default_rng(seed)
        self.confirmed: set[int] = set()
        """Which of them ran more episodes."""
        largest = LARGEST_PRICE * tries.unit
        size = np.abs(self.table.coefficients)
        in_unit = np.divide(largest, size, out=np.full(size.shape, np.inf), where=size > 0.0)
        self.penalties = DEAR * in_unit.min(axis=1, initial=np.inf)

    @property
    def taken(self) -> tuple[Taken, ...]:
        """The disjunct of each clause that the best mixture rests on."""
        branch = self._branch().branch
        assert branch is not None  # noqa: S101 (penalties leave no branch without a mixture)
        return taken_disjuncts(self.table, branch)

    def best(
        self, deadline: float, say: Callable[[str], None], *, may_mix: bool
    ) -> tuple[list[Tried], Float[np.ndarray, " policy"]]:
        """Try prices until a policy that keeps the rules is near the best mixture."""
        before = -np.inf
        for round_ in range(ROUNDS):
            say(f"trying prices, round {round_ + 1}")
            atoms = self._in_force()
            mixture = self._mixture(atoms)
            gain, before = mixture.value - before, mixture.value
            enough = GOOD_ENOUGH * abs(mixture.value)
            is_settled = may_mix and gain <= enough
            if is_settled or time.monotonic() > deadline:
                break
            if self._confirmed(mixture.return_ - enough, deadline) is not None:
                break
            self.tried += self.tries.run(self._proposed(mixture, atoms))
        best = self._confirmed(-np.inf, deadline)
        if may_mix:
            mixture = self._confirmed_mixture(deadline)
            return_ = -np.inf if best is None else self.tried[best].return_
            if not mixture.excess.any() and mixture.return_ > return_:
                used = mixture.used
                weights = mixture.weights[used] / mixture.weights[used].sum()
                return [self.tried[each] for each in used], weights
        if best is None:
            best = int(np.argmin(cons_vio(self.table, self._amounts())))
        return [self.tried[best]], np.ones(1)

    def _confirmed_mixture(self, deadline: float) -> Mixture:
        """The best mixture, of policies that ran more episodes if there is time."""
        while True:
            mixture = self._mixture(self._in_force())
            new = [each for each in mixture.used.tolist() if each not in self.confirmed]
            if not new or time.monotonic() > deadline:
                return mixture
            for first in range(0, len(new), PAIR):
                self._run_more(new[first : first + PAIR])

    def _run_more(self, numbers: Sequence[int]) -> None:
        """What more episodes say of policies replaces what fewer did."""
        prices = np.array([self.tried[each].prices for each in numbers])
        for number, more in zip(numbers, self.tries.run_more(prices), strict=True):
            self.tried[number] = more
            self.confirmed.add(number)

    def _is_kept(self) -> Bool[np.ndarray, " try"]:
        """Which of them keep the rules by their margins."""
        table = self.table
        over = self._amounts() @ table.coefficients.T - table.bounds + self._margins()
        is_held = over <= self.problem.tolerance
        return np.all(np.any(is_held[:, None] & table.members, axis=2), axis=1)

    def _confirmed(self, least: float, deadline: float) -> int | None:
        """The best policy with at least this return that keeps the rules in more episodes too.

        After the deadline it is the best that was confirmed before, else the best of few episodes.
        """
        for _ in range(CONFIRMED):
            kept, returns = np.flatnonzero(self._is_kept()), self._returns()
            kept = kept[returns[kept] >= least]
            if not len(kept):
                return None
            best = kept[np.argsort(-returns[kept], kind="stable")].tolist()
            sure = [each for each in best if each in self.confirmed]
            if time.monotonic() > deadline:
                return (sure or best)[0]
            if best[0] in sure:
                return best[0]
            self._run_more([each for each in best if each not in sure][:PAIR])
        return None

    def _branch(self) -> BranchChoice:
        """The best branch by mixtures of what was tried, by branch and bound over its atoms."""
        table = self.table
        unknown = np.full(len(table.bounds), np.inf)
        atoms = BoundedAtoms(
            table.coefficients, table.bounds - self._inset(), table.members, -unknown, unknown
        )
        amounts = self._amounts()

        def solve(chosen: Int[np.ndarray, " chosen"]) -> Relaxed:
            mixture = self._mixture(chosen)
            none = np.zeros(0)
            optimum = Optimum(
                mixture.weights, mixture.value, mixture.weights @ amounts, mixture.multipliers,
                none, none,
            )  # fmt: skip
            return Relaxed(mixture.value, optimum)

        size = float(np.abs(self._returns()).max())
        return search(atoms, solve, size=size, deadline=np.inf)

    def _in_force(self) -> Int[np.ndarray, " chosen"]:
        """The atoms of the best branch."""
        found = self._branch().in_force
        return np.zeros(0, int) if found is None else found

    def _mixture(self, atoms: Int[np.ndarray, " chosen"]) -> Mixture:
        """The best mixture that keeps some atoms."""
        bounds = (self.table.bounds - self._inset())[atoms]
        over = self._amounts() @ self.table.coefficients[atoms].T - bounds
        return best_mixture(self._returns(), over, self.penalties[atoms])

    def _returns(self) -> Float[np.ndarray, " try"]:
        return np.array([each.return_ for each in self.tried])

    def _amounts(self) -> Float[np.ndarray, "try region"]:
        return np.array([each.mean for each in self.tried])

    def _inset(self) -> Float[np.ndarray, " atom"]:
        """How far inside each bound mixtures aim: as far as a usual policy must lie."""
        return np.median(self._margins(), axis=0)

    def _margins(self) -> Float[np.ndarray, "try atom"]:
        """How far inside each bound they must lie, by as many episodes as confirm a policy."""
        return np.array([
            each.margin(self.table.coefficients)
            / np.sqrt(1 if number in self.confirmed else MORE)
            for number, each in enumerate(self.tried)
        ])  # fmt: skip

    def _proposed(
        self, mixture: Mixture, atoms: Int[np.ndarray, " chosen"]
    ) -> Float[np.ndarray, "try region"]:
        """The multipliers, some near them, the mixed policies as one, and some near that one."""
        coefficients = self.table.coefficients[atoms]
        factors = 1.0 + SPREAD * self.rng.standard_normal((AT_ONCE // 2, len(atoms)))
        factors[0] = 1.0
        by_multipliers = -(factors * mixture.multipliers) @ coefficients
        used = mixture.used
        between = mixture.weights[used] @ np.array([self.tried[each].prices for each in used])
        some = 1.0 + SPREAD * self.rng.standard_normal((AT_ONCE - len(factors), len(between)))
        some[0] = 1.0
        largest = LARGEST_PRICE * self.tries.unit
        return np.clip(np.concatenate([by_multipliers, some * between]), -largest, largest)
