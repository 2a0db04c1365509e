"""The atoms of a rule set as arrays: what the fast code computes with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from scrl.rules.normal import Atom
from scrl.rules.ruleset import Clause, RuleSet


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
    """Which atoms each clause may be kept by."""
    clause_rule: Int[np.ndarray, " clause"]
    """The index of the rule that each clause comes from."""

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
        members = np.zeros((len(clauses), len(atoms)), dtype=bool)
        for row, clause in enumerate(clauses):
            members[row, [index[atom] for atom in clause.atoms]] = True
        return cls(
            regions=rule_set.regions,
            rules=tuple(rule.name for rule in rule_set.rules),
            atoms=atoms,
            coefficients=_fixed(_coefficients(atoms, rule_set.regions)),
            bounds=_fixed(np.array([float(atom.bound) for atom in atoms], dtype=np.float64)),
            members=_fixed(members),
            clause_rule=_fixed(np.array([clause.rule for clause in clauses], dtype=np.int64)),
        )

    @property
    def listed(self) -> Int[np.ndarray, "clause place"]:
        """The atoms of each clause as numbers, -1 where it has fewer than others.

        What is done with these grows with the clauses; with `members`, by their square.
        """
        widest = int(self.members.sum(axis=1).max(initial=1))
        found = np.full((len(self.members), widest), -1)
        for row, of_clause in enumerate(self.members):
            places = np.flatnonzero(of_clause)
            found[row, : len(places)] = places
        return found

    @property
    def opposites(self) -> Int[np.ndarray, " atom"]:
        """The atom that bounds the same sum from the other side, as in an equality; else itself.

        Only where there is one such atom, and b + b' >= 0: at most one of the two can be broken.
        """
        found = np.arange(len(self.atoms))
        for index, (side, bound) in enumerate(zip(self.coefficients, self.bounds, strict=True)):
            alike = np.flatnonzero((self.coefficients == side).all(axis=1))
            across = np.flatnonzero((self.coefficients == -side).all(axis=1))
            if len(alike) == 1 and len(across) == 1 and bound + self.bounds[across[0]] >= 0:
                found[index] = across[0]
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
