"""A rule set: named rules that must all hold, over the regions of a world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

from scrl.errors import RuleError, check_text, did_you_mean
from scrl.rules import normal
from scrl.rules.build import Expression
from scrl.rules.conventions import DEFAULT, Conventions
from scrl.rules.errors import no_area, where
from scrl.rules.linear import LinearExpression, Number, checked_name, exact, region, show_number
from scrl.rules.meaning import holds, holds_in_runs
from scrl.rules.normal import AllOf, Atom, Positive, negation_normal
from scrl.rules.parse import parse, split_rules
from scrl.rules.show import is_dose, region_name, show, show_share
from scrl.rules.syntax import (
    Compare,
    Formula,
    Requirement,
    Statement,
    comparisons,
    formula_of,
    regions_of,
    share_of,
    with_values,
)

Source: TypeAlias = str | Statement | Mapping[str, str | Statement] | Sequence[str | Statement]
"""Rules as a caller may give them: one or several, as text or formula, named or not."""
Totals: TypeAlias = Mapping[str, LinearExpression | None]
"""What rules may name beside regions: amounts of a whole episode, and what is a number (which is
always the same) or a share of a region's amount (its dose)."""
NO_TOTALS: Totals = {}
SMALL_SHARE = Fraction(1, 100)
"""A rule that asks for no more single runs than this is probably a slip: in 0.95 %."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its name, its text as written, and what it says."""

    name: str
    text: str
    statement: Statement

    @classmethod
    def read(
        cls,
        name: str,
        source: str | Statement,
        regions: Sequence[str] | None = None,
        totals: Totals = NO_TOTALS,
    ) -> Rule:
        """A rule from its text or formula; a formula's text is the canonical one.

        A total that is known stands for what it is, unless a region has its name.
        """
        _check_rule_name(name)
        if isinstance(source, Statement):
            quoted = {each: region(region_name(each)) for each in regions or () if each in totals}
            statement = with_values(source, quoted)
            text = show(statement)
        else:
            text, statement = source, parse(source, regions=regions, totals=totals, rule=name)
        named = [each for each in regions_of(formula_of(statement))
                 if each in totals and each not in (regions or ())]  # fmt: skip
        values = {each: value for each in named if (value := totals[each]) is not None}
        try:
            return cls(name, text, with_values(statement, values))
        except RuleError as error:
            raise RuleError(f"rule '{name}': {error}") from None

    @property
    def formula(self) -> Formula:
        """What must hold of amounts, without how surely it must hold."""
        return formula_of(self.statement)

    @property
    def share(self) -> Fraction | None:
        """The share of single runs in which it must hold; 1: surely; none: on average."""
        return share_of(self.statement)


@dataclass(frozen=True, slots=True)
class Clause:
    """A disjunction of atoms, and the index of the rule that it comes from."""

    atoms: tuple[Atom, ...]
    rule: int


@dataclass(frozen=True)
class RuleSet:
    """Rules that must all hold, the regions they may name, and the conventions they follow."""

    rules: tuple[Rule, ...]
    regions: tuple[str, ...]
    """All amounts that the rules may name: regions, then the totals that they do name."""
    conventions: Conventions = DEFAULT
    confidence: Fraction | None = None
    """The share of single runs that must keep all rules together; none: each rule for itself."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))
        object.__setattr__(self, "regions", tuple(map(checked_name, self.regions)))
        _check_unique("region", self.regions)
        _check_unique("rule", [rule.name for rule in self.rules])
        for rule in self.rules:
            _check_rule_name(rule.name)
            check_text(rule.text, f"rule '{rule.name}'", may_break=True, error=RuleError)
            _check_regions(rule, self.regions)
        if self.confidence is not None:
            object.__setattr__(self, "confidence", _checked_confidence(self.confidence, self.rules))

    @classmethod
    def of(
        cls,
        source: Source,
        regions: Iterable[str],
        conventions: Conventions = DEFAULT,
        confidence: Number | None = None,
        totals: Totals = NO_TOTALS,
    ) -> RuleSet:
        """Rules from a text, a formula, a list of them (rule-1, rule-2, ...) or a named mapping.

        A text without a name may hold several rules, with `;` between them. Totals that the rules
        name are amounts after those of the regions.
        """
        if isinstance(source, Expression):
            raise RuleError(f"{source} is an amount and no rule: compare it, as in {source} >= 300")
        if isinstance(source, str | Statement):
            source = [source]
        if not isinstance(source, Iterable):
            raise RuleError(
                f"rules are texts, formulas, lists of them or a mapping, not {source!r}"
            )
        if not isinstance(source, Mapping):
            pieces = [piece for each in source for piece in _pieces(each)]
            source = {f"rule-{number}": each for number, each in enumerate(pieces, start=1)}
        known = tuple(regions)
        rules = tuple(Rule.read(name, each, known, totals) for name, each in source.items())
        named = {name for rule in rules for name in regions_of(rule.formula)}.difference(known)
        amounts = (*known, *(name for name in totals if name in named))
        return cls(rules, amounts, conventions, None if confidence is None else exact(confidence))

    @classmethod
    def from_texts(
        cls,
        texts: Mapping[str, str],
        regions: Iterable[str],
        conventions: Conventions = DEFAULT,
        confidence: Number | None = None,
        totals: Totals = NO_TOTALS,
    ) -> RuleSet:
        """Rules from named texts, as a problem file holds them."""
        return cls.of(texts, regions, conventions, confidence, totals)

    @property
    def shares(self) -> tuple[Fraction | None, ...]:
        """The share of single runs in which each rule must hold; none: on average.

        With a confidence no rule may hold in fewer runs than that.
        """
        if self.confidence is None:
            return tuple(rule.share for rule in self.rules)
        return tuple(max(rule.share or self.confidence, self.confidence) for rule in self.rules)

    @property
    def largest_share(self) -> Fraction | None:
        """The largest share of single runs that is asked for; none: all rules hold on average."""
        return max((share for share in self.shares if share is not None), default=None)

    def on_average(self) -> RuleSet:
        """The same formulas, all on average: what share rules ask for where nothing is random."""
        rules = tuple(
            Rule.read(rule.name, show(rule.formula)) if isinstance(rule.statement, Requirement)
            else rule
            for rule in self.rules
        )  # fmt: skip
        return replace(self, rules=rules, confidence=None)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """The clauses of every rule, rule by rule; all must hold."""
        sizes = [normal.clauses_size(node) for node in self.positive]
        for rule, size in zip(self.rules, sizes, strict=True):
            normal.check_size(size, "clauses", f"rule '{rule.name}'")
        whole = normal.Size(*(sum(counts) for counts in zip((0, 0), *sizes, strict=True)))
        normal.check_size(whole, "clauses", "the rule set")
        return tuple(
            Clause(atoms, index)
            for index, (rule, node) in enumerate(zip(self.rules, self.positive, strict=True))
            for atoms in normal.clauses(node, of=f"rule '{rule.name}'")
        )

    @cached_property
    def branches(self) -> normal.Groups:
        """The disjunctive normal form of all rules: every atom of one branch must hold."""
        return normal.branches(AllOf(self.positive), of="the rule set")

    @cached_property
    def positive(self) -> tuple[Positive, ...]:
        """Every rule in negation normal form."""
        return tuple(
            negation_normal(rule.formula, self.conventions, rule=rule.name, text=rule.text)
            for rule in self.rules
        )

    def holds(self, density: Mapping[str, Number]) -> bool:
        """Whether every rule holds; exact, also on a boundary."""
        return all(holds(rule.formula, density, self.conventions) for rule in self.rules)

    def holds_in_runs(self, runs: Sequence[Mapping[str, Number]]) -> bool:
        """Whether the rules hold in a sample of runs, as surely as they must; exact."""
        if self.confidence is None:
            return all(holds_in_runs(rule.statement, runs, self.conventions) for rule in self.rules)
        kept = Fraction(sum(map(self.holds, runs)), len(runs))
        own = [rule for rule in self.rules if rule.share is not None]
        return kept >= self.confidence and all(
            holds_in_runs(rule.statement, runs, self.conventions) for rule in own
        )

    def warnings(self) -> tuple[str, ...]:
        """Rules that are allowed but probably not intended."""
        rare = tuple(
            f"rule '{rule.name}' must hold {show_share(rule.share)} of single runs only: is "
            f"'in {show_number(100 * 100 * rule.share)} %' meant?"
            for rule in self.rules
            if rule.share is not None and rule.share <= SMALL_SHARE
        )
        if self.conventions.equality_band > 0:
            return rare
        return rare + tuple(
            _no_band(rule, compare)
            for rule in self.rules
            for compare in comparisons(rule.formula)
            if compare.relation == "==" and compare.band is None
        )


def _checked_confidence(confidence: Number, rules: Sequence[Rule]) -> Fraction:
    """The exact confidence; raises unless it is a share that every rule can be asked for."""
    share = exact(confidence)
    if not 0 < share < 1:
        raise RuleError(f"confidence = {confidence} must lie between 0 and 1, as 0.95")
    for rule in rules:
        if isinstance(rule.statement, Requirement) and rule.share is None:
            raise RuleError(
                f"rule '{rule.name}' says 'on average', and confidence = {float(share):g} asks all "
                "rules together of single runs: leave out one of the two"
            )
    return share


def _pieces(source: str | Statement) -> list[str | Statement]:
    """The rules in a text; a formula, or a text that holds one rule, is left as it is."""
    if not isinstance(source, str) or ";" not in source:
        return [source]
    return [*split_rules(source)] or [""]


def _no_band(rule: Rule, compare: Compare) -> str:
    place = f"rule '{rule.name}'"
    if compare.span is not None:
        place = where(rule.text, compare.span, rule.name)
    return (
        f"{place}: '{show(compare)}' is an equality without a band, so it must be hit exactly: "
        "add 'within 6' (in units), or set equality_band"
    )


def _check_rule_name(name: object) -> None:
    if not isinstance(name, str):
        raise RuleError(f"a rule's name is text, not {name!r}")
    check_text(name, f"the rule's name {name!a}", error=RuleError)


def _check_unique(noun: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise RuleError(f"the {noun} '{name}' occurs twice")
        seen.add(name)


def _check_regions(rule: Rule, regions: Sequence[str]) -> None:
    for name in regions_of(rule.formula):
        if name not in regions and is_dose(name):
            raise RuleError(f"rule '{rule.name}': {no_area(name)}")
        if name not in regions:
            hint = did_you_mean(name, regions)
            raise RuleError(f"rule '{rule.name}': unknown region '{name}'{hint}")
