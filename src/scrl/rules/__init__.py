"""The rule language: text or Python operators -> formula -> normal forms -> arrays."""

from scrl.rules.atoms import AtomTable
from scrl.rules.build import Expression, average, d, dose, implies, total
from scrl.rules.conventions import Conventions
from scrl.rules.errors import PlacedRuleError
from scrl.rules.linear import LinearExpression
from scrl.rules.meaning import holds, holds_in_runs
from scrl.rules.normal import (
    AllOf,
    AnyOf,
    Atom,
    Origin,
    Positive,
    Size,
    branches,
    branches_size,
    clauses,
    clauses_size,
    negation_normal,
)
from scrl.rules.parse import parse
from scrl.rules.readings import disjuncts, reading_of
from scrl.rules.ruleset import Clause, Rule, RuleSet
from scrl.rules.show import show, show_share
from scrl.rules.syntax import (
    And,
    Compare,
    Formula,
    Implies,
    Not,
    Or,
    Relation,
    Requirement,
    Span,
    Statement,
    comparisons,
    formula_of,
    regions_of,
    share_of,
)

__all__ = [
    "AllOf",
    "And",
    "AnyOf",
    "Atom",
    "AtomTable",
    "Clause",
    "Compare",
    "Conventions",
    "Expression",
    "Formula",
    "Implies",
    "LinearExpression",
    "Not",
    "Or",
    "Origin",
    "PlacedRuleError",
    "Positive",
    "Relation",
    "Requirement",
    "Rule",
    "RuleSet",
    "Size",
    "Span",
    "Statement",
    "average",
    "branches",
    "branches_size",
    "clauses",
    "clauses_size",
    "comparisons",
    "d",
    "disjuncts",
    "dose",
    "formula_of",
    "holds",
    "holds_in_runs",
    "implies",
    "negation_normal",
    "parse",
    "reading_of",
    "regions_of",
    "share_of",
    "show",
    "show_share",
    "total",
]
