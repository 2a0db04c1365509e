"""The atoms of a rule set as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from scrl.errors import TooLargeError
from scrl.rules.normal import Atom
from scrl.rules.ruleset import Clause, RuleSet

MOST_MEMBERS = 200_000_000
"""Largest number of clauses times atoms; each takes one byte."""


class Groups(NamedTuple):
    """Clauses that must hold together, and in which share of single runs; 0: on average."""

    members: Bool[np.ndarray, "group clause"]
    shares: Float[np.ndarray, " group"]


@dataclass(frozen=True, slots=True, eq=False)
class AtomTable:
    """Atom k: coefficients[k] . density <= bounds[k]; a clause holds iff one member does."""

    regions: tuple[str, ...]
    """The columns of `coefficients`."""
    rules: tuple[str, ...]
    """The names that `clause_rule` points to."""
    atoms: tuple[Atom, ...]
    """Each atom of the rule set once, in order of first appearance."""
    coefficients: Float[np.ndarray, "atom region"]
    bounds: Float[np.ndarray, " atom"]
    members: Bool[np.ndarray, "clause atom"]
    """Which atoms belong to each clause."""
    listed: Int[np.ndarray, "clause place"]
    """The indices of each clause's atoms in ascending order, padded with -1.

    Work on `listed` grows linearly with the number of clauses, work on `members` quadratically.
    """
    clause_rule: Int[np.ndarray, " clause"]
    """The index of the rule that each clause comes from."""
    shares: tuple[Fraction | None, ...]
    """The share of single runs in which each rule must hold; none: on average."""
    confidence: Fraction | None
    """The share of single runs that must keep all rules together."""

    @classmethod
    def of(cls, rule_set: RuleSet) -> AtomTable:
        """The table of a rule set."""
        return cls.from_clauses(rule_set.clauses, rule_set)

    @classmethod
    def from_clauses(cls, clauses: Sequence[Clause], rule_set: RuleSet) -> AtomTable:
        """The table of some clauses, over the regions and rules of a rule set."""
        index: dict[Atom, int] = {}
        for clause in clauses:
            for atom in clause.atoms:
                index.setdefault(atom, len(index))
        atoms = tuple(index)
        if len(clauses) * len(atoms) > MOST_MEMBERS:
            raise TooLargeError(
                f"the rule set has {len(clauses):,} clauses over {len(atoms):,} different "
                "comparisons, which is more than fits into memory: use fewer rules at once"
            )
        members = np.zeros((len(clauses), len(atoms)), dtype=bool)
        widest = max((len(clause.atoms) for clause in clauses), default=1)
        listed = np.full((len(clauses), widest), -1)
        for row, clause in enumerate(clauses):
            places = sorted({index[atom] for atom in clause.atoms})
            members[row, places] = True
            listed[row, : len(places)] = places
        return cls(
            regions=rule_set.regions,
            rules=tuple(rule.name for rule in rule_set.rules),
            atoms=atoms,
            coefficients=_fixed(_coefficients(atoms, rule_set.regions)),
            bounds=_fixed(np.array([float(atom.bound) for atom in atoms], dtype=np.float64)),
            members=_fixed(members),
            listed=_fixed(listed),
            clause_rule=_fixed(np.array([clause.rule for clause in clauses], dtype=np.int64)),
            shares=rule_set.shares,
            confidence=rule_set.confidence,
        )

    @property
    def groups(self) -> Groups:
        """The clauses that must hold together: all with a confidence, and those of each rule."""
        of_rule = self.clause_rule == np.arange(len(self.rules))[:, None]
        shares = np.array([float(share or 0) for share in self.shares])
        if self.confidence is None:
            return Groups(of_rule, shares)
        own = shares > float(self.confidence)
        together = np.ones((1, len(self.clause_rule)), bool)
        return Groups(
            np.concatenate([together, of_rule[own]]),
            np.append(float(self.confidence), shares[own]),
        )

    @property
    def opposites(self) -> Int[np.ndarray, " atom"]:
        """The index of the atom that bounds the same sum from the other side, else its own index.

        An equality gives such a pair. An atom has an opposite only if exactly one other atom
        qualifies and b + b' >= 0, so that at most one of the two can be violated.
        """
        found = np.arange(len(self.atoms))
        alike: dict[tuple[tuple[str, Fraction], ...], list[int]] = {}
        for index, atom in enumerate(self.atoms):
            alike.setdefault(atom.coefficients, []).append(index)
        for side, own in alike.items():
            across = alike.get(tuple((name, -value) for name, value in side), [])
            if len(own) == len(across) == 1 and self.bounds[[*own, *across]].sum() >= 0:
                found[own[0]] = across[0]
        return found


def _coefficients(
    atoms: tuple[Atom, ...], regions: tuple[str, ...]
) -> Float[np.ndarray, "atom region"]:
    column = {name: position for position, name in enumerate(regions)}
    matrix = np.zeros((len(atoms), len(regions)), dtype=np.float64)
    for row, atom in enumerate(atoms):
        for name, coefficient in atom.coefficients:
            matrix[row, column[name]] = float(coefficient)
    return matrix


def _fixed(array: np.ndarray) -> np.ndarray:
    """The array, made read-only: a table never changes."""
    array.setflags(write=False)
    return array
