"""The search over branches: which alternatives of the rules a plan keeps, and the plans of each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np
from jaxtyping import Bool, Int

from scrl.evaluation import (
    REPORT_EPISODES,
    REPORT_SEED,
    Evaluation,
    chosen_episodes,
    evaluate_mixture,
)
from scrl.planning.drives import AT_ONCE, PriceDriver
from scrl.planning.margins import MarginSearch
from scrl.planning.pool import SearchSettings
from scrl.planning.search import Found, PlanSearch
from scrl.problems import Problem
from scrl.reference.priced import Priced, PricedBranch, price_nearly, price_without

FIRST_ROUNDS, FINER = 16, 4 / 3
"""Where no plan on a lattice keeps the rules after so many rounds, one with so many times its
speeds is tried."""
MOST_BRANCHES = 6
"""Branches that are tried before the search gives up."""
FAR = 0.03
"""While no plan is within this share of the fluid estimate or of the proven bound, the search goes
on."""
ABOVE_FLUID = 0.05
"""A branch whose fluid estimate is this share below a plan is not driven: where service is counted
at the landing, drives may return more than the fluid."""
BELOW_FLUID = 0.01
"""In a random world no plan is expected within this share of its branch's fluid."""
ALIKE = 0.5
"""Where service is poured, what a plan lacks of its branch's fluid is mostly inertia and the edges
of regions: in another branch at least this part of it is expected to be lacking too."""
EQUAL = 1e-4
"""Fluid returns of two branches that differ by a smaller share are the same."""
EXACT = 1e-6
"""Two bounds of the same amount that are nearer to each other than this share of them leave no room
for the rounding of a drive in single precision."""
NEAR = 0.02
"""For rules that the fluid cannot keep, the search goes on above this missed share of the loosened
ones."""
LOOSENED_ROUNDS = 6
"""Rounds of the search for a plan for the least loosening."""
MOST_AT_ONCE = 4
"""Branches between which a plan switches on the way."""
MOST_JUDGED = 3
"""Plans that are evaluated in each search but the last."""


@dataclass(frozen=True)
class Judged:
    """Plans, and what they do in episodes that have no part in choosing them."""

    problem: Problem
    found: Found
    seed: int

    @cached_property
    def evaluation(self) -> Evaluation:
        return evaluate_plans(self.problem, self.found, seed=self.seed)

    @property
    def return_(self) -> float:
        """By the episodes that may choose."""
        reacting = self.found.reacting
        return self.evaluation.return_ if reacting is None else reacting.return_

    @property
    def holds(self) -> bool:
        """Whether the rules are kept, by the episodes that may choose."""
        reacting = self.found.reacting
        return self.evaluation.is_satisfied if reacting is None else reacting.missing <= 0.0


@dataclass(frozen=True)
class SearchOptions:
    """What is asked of a search over branches."""

    confidence: float | None = None
    seed: int = 0
    may_mix: bool = False
    good_enough: float | None = None
    """In place of that of the settings."""
    levels: int = 48
    """Speeds on the lattice, at least."""
    is_quick: bool = False
    """Whether the first search of a branch drives few plans at a time on a coarse lattice."""
    deadline: float = float("inf")
    say: Callable[[str], None] = lambda _: None


@dataclass(frozen=True)
class Searched:
    """The best plans that were found, and the branch they are for."""

    priced: Priced
    best: Judged
    mixture: Found | None
    """The best mixture of that branch's plans, where it keeps the rules."""


def search_plans(
    problem: Problem, priced: Priced, driver: PriceDriver, options: SearchOptions
) -> Searched:
    """Search the best branch, and others while no plan is near the fluid estimate."""
    reference = priced.reference
    judge = _Judge(problem, driver, options, reference.is_impossible)
    # The next branch returns no more than the best one, nor does any plan more than the bound.
    estimates = [each for each in (reference.fluid, reference.bound) if each is not None]
    at_most = min(estimates, default=-np.inf)
    tried: list[Searched] = []
    branches = _Branches(problem, may_mix=options.may_mix)
    first = branches.first(priced)
    if first is not priced:
        at_most = _fluid_return(first)
    now: Priced | None = first
    while now is not None and now.branch is not None and len(tried) < MOST_BRANCHES:
        others = branches.around(now)
        best, mixture, broken = judge.search(now.branch, others)
        tried.append(Searched(now, best, mixture))
        if judge.is_near(best, now.branch, at_most) or time.monotonic() > options.deadline:
            break
        options.say(f"trying another branch ({len(tried)} so far)")
        now = branches.after(now, broken)
        if now is not None and branches.is_exact(now) and any(each.best.holds for each in tried):
            break
        if now is not None and judge.is_beaten(now.branch, tried):
            break
    return min(tried, key=lambda each: judge.rank(each.best, each.priced.branch))


class _Branches:
    """The order in which branches are searched.

    Atoms that no mixture of plans keeps are avoided. Otherwise branches are searched best first by
    the fluid; so they are in a random world, where what is out of the reach of some runs cannot be
    told from the atoms that these break. Branches that ask for exactly one amount come last.
    """

    def __init__(self, problem: Problem, *, may_mix: bool = False) -> None:
        self.problem, self.may_mix = problem, may_mix
        self.avoided: frozenset[int] = frozenset()
        self.known: dict[tuple[int, ...], Priced] = {}
        self.without: dict[tuple[int, ...], frozenset[int]] = {}
        """The atoms that a known branch was found without."""
        self.searched: set[tuple[int, ...]] = set()

    def first(self, best: Priced) -> Priced:
        """The best branch, or one that whole steps may keep though the fluid misses it by less.

        Where the best one asks for exactly one amount, it is the best other one.
        """
        spec = self.problem.world_spec
        if self.is_exact(best):
            self.known[_atoms_of(best)] = best
            return self.after(best, np.zeros(0, int)) or best
        if spec.is_poured or not spec.is_random or best.branch is None:
            return best
        if best.branch.loosened is not None:
            return best
        nearly = price_nearly(self.problem, best, spec.vehicle.rate)
        worth = _fluid_return(best) + FAR * abs(_fluid_return(best))
        if nearly is None or _atoms_of(nearly) == _atoms_of(best) or _fluid_return(nearly) < worth:
            return best
        self.known[_atoms_of(best)] = best
        return nearly

    def around(self, now: Priced) -> list[PricedBranch]:
        """The branches that a plan for single runs may switch to."""
        self.searched.add(_atoms_of(now))
        if not self.problem.world_spec.is_random:
            return []
        # A plan drives for the cheapest branch it knows: those searched before are left out.
        near = [
            each
            for _, each in _alternatives(self.problem, now)
            if _atoms_of(each) not in self.searched
        ]
        self.known.update((_atoms_of(each), each) for each in near)
        if not all(self.problem.atoms.shares):
            return []  # different runs would keep a mean by different disjuncts
        chosen = near[: MOST_AT_ONCE - 1]
        # Without this branch a plan would still drive for one that costs the same.
        self.searched.update(_atoms_of(each) for each in chosen if _is_equal(each, now))
        return [each.branch for each in chosen if each.branch is not None]

    def after(self, now: Priced, broken: Int[np.ndarray, " broken"]) -> Priced | None:
        """The next branch."""
        if not self.problem.world_spec.is_random:
            if len(broken):
                self.avoided, found = _other_branch(self.problem, now, self.avoided, broken)
                return found
            # Each alternative stays without what it was found without: no branch is passed over.
            without = self.without.get(_atoms_of(now), frozenset()) | self.avoided
            for atom, each in _alternatives(self.problem, now, without):
                self.known.setdefault(_atoms_of(each), each)
                self.without.setdefault(_atoms_of(each), without | {atom})
        left = (
            each
            for key, each in self.known.items()
            if key not in self.searched and self.avoided.isdisjoint(key)
        )
        return max(
            left, key=lambda each: (not self.is_exact(each), _fluid_return(each)), default=None
        )

    def is_exact(self, priced: Priced) -> bool:
        """Whether a branch asks for an amount that a single plan hits by luck alone.

        A closed pump gives exactly 0, and landing in whole steps may give exactly a bound.
        """
        spec, branch = self.problem.world_spec, priced.branch
        if branch is None or branch.loosened is not None or self.may_mix:
            return False
        if spec.is_random or not spec.is_poured:
            return False
        sides, bounds = branch.coefficients, branch.bounds
        is_same = (np.abs(sides[:, None] + sides) <= EXACT * np.abs(sides)).all(axis=-1)
        is_tight = np.abs(bounds[:, None] + bounds) <= EXACT * np.abs(bounds)
        is_nothing = (bounds == 0.0) & ((sides >= 0.0).all(axis=1) | (sides <= 0.0).all(axis=1))
        return bool((is_same & is_tight & ~is_nothing).any())


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


def _alternatives(
    problem: Problem, now: Priced, without: frozenset[int] = frozenset()
) -> list[tuple[int, Priced]]:
    """The best branches without one of the atoms of this one, and without others; best first."""
    if now.branch is None or now.branch.loosened is not None:
        return []
    atoms = now.branch.atoms[_has_alternative(problem, now.branch.atoms)]
    found = {
        _atoms_of(other): (atom, other)
        for atom in atoms.tolist()
        if (other := price_without(problem, now, without | {atom})) is not None
        and other.branch is not None
    }
    return sorted(found.values(), key=lambda each: _fluid_return(each[1]), reverse=True)


def _atoms_of(priced: Priced) -> tuple[int, ...]:
    return () if priced.branch is None else tuple(priced.branch.atoms.tolist())


def _fluid_return(priced: Priced) -> float:
    return -np.inf if priced.branch is None else priced.branch.return_


def _is_equal(one: Priced, other: Priced) -> bool:
    """Whether two branches have the same fluid return."""
    return math.isclose(_fluid_return(one), _fluid_return(other), rel_tol=EQUAL)


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
    options: SearchOptions
    is_impossible: bool

    def search(
        self, branch: PricedBranch, others: Sequence[PricedBranch]
    ) -> tuple[Judged, Found | None, Int[np.ndarray, " broken"]]:
        """The best plans found, the best mixture, and the atoms that no mixture keeps.

        A plan that reacts may switch to one of the other branches.
        """
        if self.problem.world_spec.is_random:
            return self._react(branch, others)
        found: list[Judged] = []
        broken = np.zeros(0, int)
        if not self.is_impossible:
            attempts = self._attempts() if branch.loosened is None else self._attempts()[:1]
            best, mixture, broken = self._search(branch, attempts)
            if best.holds or branch.loosened is None:
                return best, mixture, broken
            found.append(best)
        # The least violating plan is one for the least loosening.
        settings = replace(self._attempts()[0], by_rules=False, rounds=LOOSENED_ROUNDS)
        bounds = branch.bounds if branch.loosened is None else branch.loosened
        near, _, _ = self._search(replace(branch, bounds=bounds), [settings])
        return min([*found, near], key=lambda each: self.rank(each, branch)), None, broken

    def _react(
        self, branch: PricedBranch, others: Sequence[PricedBranch]
    ) -> tuple[Judged, None, Int[np.ndarray, " broken"]]:
        """A plan that reacts, where chance plays a part."""
        options = self.options
        options.say("driving a plan that reacts")
        confidence = options.confidence
        best = MarginSearch(self.problem, branch, others, confidence, options.seed).best()
        found = Found.of(best, self.problem.world_spec)
        # Margins and branches are chosen by other episodes.
        judged = Judged(self.problem, found, REPORT_SEED + options.seed)
        return judged, None, branch.atoms[best.is_broken]

    def _attempts(self) -> list[SearchSettings]:
        options = self.options
        first = SearchSettings(rounds=FIRST_ROUNDS)
        if options.is_quick:
            first = replace(first, plans=AT_ONCE, is_coarse=True)
        calm = (
            (first, options.levels),
            (SearchSettings(), int(FINER * options.levels)),
        )
        return [
            replace(
                settings,
                may_mix=options.may_mix,
                good_enough=options.good_enough or settings.good_enough,
                levels=levels,
                deadline=options.deadline,
            )
            for settings, levels in calm
        ]

    def _search(
        self, branch: PricedBranch, attempts: list[SearchSettings]
    ) -> tuple[Judged, Found | None, Int[np.ndarray, " broken"]]:
        judged: list[Judged] = []
        search, broken = None, np.zeros(0, int)
        for settings in attempts:
            search = PlanSearch(
                self.problem, branch, self.driver, settings, seed=self.options.seed, before=search
            )
            for found in islice(search.run(), None if settings is attempts[-1] else MOST_JUDGED):
                judged.append(Judged(self.problem, found, self.options.seed))
                if judged[-1].holds or not settings.by_rules:
                    return judged[-1], search.mixture(), np.zeros(0, int)
            broken = search.broken()
        return min(judged, key=lambda each: self.rank(each, branch)), None, broken

    def is_near(self, judged: Judged, branch: PricedBranch, at_most: float) -> bool:
        """Whether the rules hold at nearly the return that is to be hoped for, or, where the fluid
        cannot keep them, the loosened ones nearly do."""
        if not judged.holds:
            return branch.loosened is not None and _missed(judged, branch) <= NEAR
        return judged.return_ >= at_most - FAR * abs(at_most)

    def is_beaten(self, branch: PricedBranch | None, tried: list[Searched]) -> bool:
        """Whether a plan that keeps the rules returns more than is to be hoped for in a branch."""
        if branch is None or branch.loosened is not None:
            return False
        spec = self.problem.world_spec
        for each in tried:
            if not each.best.holds:
                continue
            share = ABOVE_FLUID
            if spec.is_random:
                share = -BELOW_FLUID
            elif spec.is_poured:
                fluid = _fluid_return(each.priced)
                share = -ALIKE * max(fluid - each.best.return_, 0.0) / abs(fluid)
            if each.best.return_ >= branch.return_ + share * abs(branch.return_):
                return True
        return False

    def rank(self, judged: Judged, branch: PricedBranch | None) -> tuple[bool, float, float]:
        """Sort key: plans that keep the rules first, then by violation, then by return.

        Where it is proven that no plan keeps them, the violation is that of the loosened ones.
        """
        reacting = judged.found.reacting
        missed = judged.evaluation.cons_vio if reacting is None else reacting.missing
        if self.is_impossible and branch is not None and branch.loosened is not None:
            missed = _missed(judged, branch)
        return not judged.holds, max(missed, 0.0), -judged.return_


def evaluate_plans(problem: Problem, found: Found, *, seed: int = 0) -> Evaluation:
    """Plans in episodes that have no part in choosing them."""
    episodes = chosen_episodes(
        problem.rules, None, is_random=problem.world_spec.is_random, usual=REPORT_EPISODES
    )
    return evaluate_mixture(
        problem, found.policies, found.weights, episodes=episodes, seed=seed, name="prices"
    )


def _missed(judged: Judged, branch: PricedBranch) -> float:
    """The sum over the loosened atoms of the share of their bound that is missed."""
    bounds = branch.bounds if branch.loosened is None else branch.loosened
    density = np.array(list(judged.evaluation.density.values()))
    over = np.maximum(branch.coefficients @ density - bounds, 0.0)
    return float((over / np.maximum(np.abs(bounds), 1.0)).sum())
