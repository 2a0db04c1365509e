"""Readings of the rules, as methods receive them.

SCRL takes the rules as they are. Other methods cannot: a plain learner receives no rules, DCRL
one disjunct of every rule, Lagrangian methods all atoms at once, and RCPO, CAL, CPO and PCPO one
cost for all inequalities, and two for every equality.
"""

from __future__ import annotations

import re
from fractions import Fraction

from scrl.errors import RuleError
from scrl.rules import normal
from scrl.rules.atoms import AtomTable
from scrl.rules.normal import AnyOf, Atom, Origin, Positive
from scrl.rules.ruleset import Clause, RuleSet

_DISJUNCT = re.compile(r"disjunct-([1-9][0-9]{0,5})")


def reading_of(rule_set: RuleSet, reading: str) -> AtomTable:
    """The atoms of a reading: `all`, `nothing`, `every-atom`, `cost`, `disjunct-1`, ..."""
    if reading == "all":
        return AtomTable.of(rule_set)
    if reading == "nothing":
        return AtomTable.from_clauses((), rule_set)
    if reading == "every-atom":
        return AtomTable.from_clauses(_every_atom(rule_set.clauses), rule_set)
    if reading == "cost":
        return AtomTable.from_clauses(_as_costs(rule_set.clauses), rule_set)
    if (found := _DISJUNCT.fullmatch(reading)) is not None:
        return AtomTable.from_clauses(_disjunct_of_each(rule_set, int(found[1])), rule_set)
    raise RuleError(
        f"unknown reading '{reading}': known are all, nothing, every-atom, cost, disjunct-K"
    )


def disjuncts(rule: Positive) -> tuple[Positive, ...]:
    """The disjuncts of a rule from left to right; the rule itself if it has no `or`.

    The first disjunct of `if P then C` is the negated premise.
    """
    if not isinstance(rule, AnyOf):
        return (rule,)
    return tuple(each for part in rule.parts for each in disjuncts(part))


def with_disjunct(rule_set: RuleSet, rule: int, number: int) -> AtomTable:
    """The rule set with one rule replaced by one of its disjuncts, counted from 0."""
    chosen = disjuncts(rule_set.positive[rule])[number]
    of = f"disjunct {number + 1} of rule '{rule_set.rules[rule].name}'"
    clauses = [clause for clause in rule_set.clauses if clause.rule != rule]
    clauses += [Clause(atoms, rule) for atoms in normal.clauses(chosen, of=of)]
    return AtomTable.from_clauses(clauses, rule_set)


def disjunct_clauses(rule: Positive) -> tuple[tuple[str, ...], ...]:
    """The clauses of a disjunct as rule texts: one atom of each clause must hold."""
    return tuple(
        tuple(atom.show() for atom in atoms) for atoms in normal.clauses(rule, of="a rule")
    )


def _disjunct_of_each(rule_set: RuleSet, number: int) -> tuple[Clause, ...]:
    """The clauses of one disjunct of every rule; a rule without `or` keeps all of its clauses."""
    if number > 1 and all(len(disjuncts(node)) == 1 for node in rule_set.positive):
        raise RuleError(f"no rule leaves a choice: there is only disjunct 1, and no {number}")
    found: list[Clause] = []
    for index, (rule, node) in enumerate(zip(rule_set.rules, rule_set.positive, strict=True)):
        ways = disjuncts(node)
        if len(ways) > 1 and number > len(ways):
            raise RuleError(f"rule '{rule.name}' has {len(ways)} disjuncts: there is no {number}")
        chosen = ways[0] if len(ways) == 1 else ways[number - 1]
        of = f"disjunct {number} of rule '{rule.name}'"
        for atoms in normal.clauses(chosen, of=of):
            if len(atoms) > 1:
                raise RuleError(f"{of} leaves a choice of its own: it is no plain conjunction")
            found.append(Clause(atoms, index))
    return tuple(found)


def _every_atom(clauses: tuple[Clause, ...]) -> tuple[Clause, ...]:
    """Every atom as a clause of its own: as if each `or` were an `and`."""
    rules: dict[Atom, int] = {}
    for clause in clauses:
        for atom in clause.atoms:
            rules.setdefault(atom, clause.rule)
    return tuple(Clause((atom,), rule) for atom, rule in rules.items())


def _as_costs(clauses: tuple[Clause, ...]) -> tuple[Clause, ...]:
    """One cost for all inequalities, and two for every equality, one for each side.

    The cost of the inequalities is the sum over the clauses of the mean of their atoms. It is
    linear, in units of density; for a rule set of a single atom it is that atom. It does not tell
    which disjunct holds. The two halves of an equality would cancel in it.
    """
    sides = {atom.coefficients for clause in clauses for atom in clause.atoms}
    coefficients: dict[str, Fraction] = {}
    bound = Fraction(0)
    for clause in clauses:
        share = Fraction(1, len(clause.atoms))
        for atom in clause.atoms:
            if _opposite(atom) in sides:
                continue
            bound += share * atom.bound
            for region, coefficient in atom.coefficients:
                coefficients[region] = coefficients.get(region, Fraction(0)) + share * coefficient
    left = tuple(sorted((name, value) for name, value in coefficients.items() if value))
    origin = Origin(None, None, "one cost for all inequalities")
    cost = (Clause((Atom(left, bound, origin),), 0),) if left else ()
    halves = [each for each in _every_atom(clauses) if _opposite(each.atoms[0]) in sides]
    return (*cost, *halves)


def _opposite(atom: Atom) -> tuple[tuple[str, Fraction], ...]:
    return tuple((region, -value) for region, value in atom.coefficients)
