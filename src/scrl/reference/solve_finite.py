"""The best policy of a finite MDP under rules: one call, whatever the method."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Literal, assert_never

import numpy as np
from jaxtyping import Float

from scrl.errors import RuleError, ScrlError, did_you_mean
from scrl.reference.branches import best_branch_by_enumeration
from scrl.reference.certificate import Certificate, certify, require
from scrl.reference.disjunctive import BoundedAtoms, BranchChoice, choose_branch
from scrl.reference.finite import FiniteMDP
from scrl.reference.linear import Status
from scrl.reference.mdp_columns import MixedPolicy, solve_columns
from scrl.reference.occupancy import occupancy_of, ranges
from scrl.rules import AtomTable, RuleSet
from scrl.rules.ruleset import Source

Method = Literal["milp", "branches", "columns"]
METHODS = ("auto", "milp", "branches", "columns")
COLUMNS_FROM = 50_000
"""With more states times actions than this, "auto" means columns."""


@dataclass(frozen=True)
class FiniteSolution:
    """The best policy that keeps the rules, what it gives, and what proves it."""

    status: Status
    """OPTIMAL; INFEASIBLE; or TIME_LIMIT: the best so far, if any, and the bound so far."""
    method: Method
    bound: float
    """No policy that keeps the rules has a return above this; -inf if none keeps them."""
    return_: float | None = None
    density: dict[str, float] | None = None
    branch: tuple[str, ...] = ()
    """The disjunct that each clause rests on, as text."""
    duals: dict[str, float] | None = None
    """For each atom in force: the return that one unit more of room would give."""
    policy: Float[np.ndarray, "state action"] | None = None
    """pi(a | s), randomised where the rules need it."""
    certificate: Certificate | None = None
    """For a branch that was solved to its optimum."""
    mixture: MixedPolicy | None = None
    """With method "columns": the same as a lottery over deterministic policies."""


def solve_mdp(
    mdp: FiniteMDP,
    rules: RuleSet | Source,
    *,
    method: str = "auto",
    time_limit_s: float = 60.0,
) -> FiniteSolution:
    """The best policy of a finite MDP that keeps the rules in expectation."""
    deadline = monotonic() + time_limit_s
    how = _method(mdp, method)
    rule_set = rules if isinstance(rules, RuleSet) else RuleSet.of(rules, mdp.regions)
    if rule_set.largest_share is not None:
        raise RuleError(
            "a finite MDP is solved for rules that hold on average, and here rules must hold in a "
            "share of single runs: leave that out"
        )
    table = AtomTable.of(rule_set)
    atoms = atoms_of(mdp, table, is_ranged=how == "milp")
    occupancy = occupancy_of(mdp)
    mixture: MixedPolicy | None = None
    left = max(deadline - monotonic(), 1e-3)
    match how:
        case "milp":
            choice = choose_branch(occupancy.model, atoms, time_limit_s=left)
        case "branches":
            choice = best_branch_by_enumeration(occupancy.model, atoms, time_limit_s=left)
        case "columns":
            solution = solve_columns(mdp, atoms, time_limit_s=left)
            choice, mixture = solution.choice, solution.mixture
        case _:
            assert_never(how)
    if choice.optimum is None or choice.in_force is None or choice.branch is None:
        return FiniteSolution(choice.status, how, _bound(mdp, choice))
    optimum, chosen = choice.optimum, choice.in_force
    certificate = certify(
        occupancy.model, atoms.coefficients[chosen], atoms.bounds[chosen], optimum
    )
    texts = [atom.show() for atom in table.atoms]
    return FiniteSolution(
        status=choice.status,
        method=how,
        bound=_bound(mdp, choice),
        return_=optimum.return_,
        density=dict(zip(mdp.regions, optimum.density.tolist(), strict=True)),
        branch=tuple(texts[atom] for atom in choice.branch),
        duals={
            texts[atom]: float(dual) for atom, dual in zip(chosen, optimum.of_atom, strict=True)
        },
        policy=occupancy.policy_of(optimum.point),
        certificate=require(certificate) if choice.status is Status.OPTIMAL else certificate,
        mixture=mixture,
    )


def atoms_of(mdp: FiniteMDP, table: AtomTable, *, is_ranged: bool = True) -> BoundedAtoms:
    """The atoms over the regions of an MDP; with their ranges over all policies, or without."""
    for name in table.regions:
        if name not in mdp.regions:
            hint = did_you_mean(name, mdp.regions)
            raise RuleError(f"the rules know a region '{name}' that the MDP has not{hint}")
    coefficients = np.zeros((len(table.bounds), len(mdp.regions)))
    coefficients[:, [mdp.regions.index(name) for name in table.regions]] = table.coefficients
    unknown = np.full(len(table.bounds), np.inf)
    low, high = ranges(mdp.core, coefficients) if is_ranged else (-unknown, unknown)
    return BoundedAtoms(coefficients, table.bounds, table.members, low, high)


def _method(mdp: FiniteMDP, method: str) -> Method:
    match method:
        case "auto":
            return "columns" if mdp.core.available.sum() > COLUMNS_FROM else "milp"
        case "milp" | "branches" | "columns":
            return method
        case _:
            raise ScrlError(f"unknown method '{method}'{did_you_mean(method, METHODS)}")


def _bound(mdp: FiniteMDP, choice: BranchChoice) -> float:
    """The bound of the search; if it has none yet, the best return without any rule."""
    if choice.bound < np.inf:
        return choice.bound
    return mdp.core.best_policy(mdp.core.rewards).bound
