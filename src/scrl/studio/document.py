"""What a person edits: rules, settings and the map; and the history of these edits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scrl.errors import check_text
from scrl.problems import Problem
from scrl.studio.errors import StudioError
from scrl.studio.outlines import Outlines

MOST_RULES = 200
LONGEST_RULE = 20_000
LONGEST_NAME = 200
MOST_EDITS = 200
"""Edits that can be undone."""


@dataclass(frozen=True)
class RuleText:
    """A rule as it is written, whether or not it can be read."""

    name: str
    text: str
    is_on: bool = True
    """A rule that is switched off is kept and not asked for."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"name": self.name, "text": self.text, "on": self.is_on}

    @classmethod
    def from_json(cls, value: Any) -> RuleText:
        """The rule that `to_json` wrote; raises for anything else."""
        if not isinstance(value, Mapping):
            raise StudioError("a rule is an object with name, text and on")
        name, text, is_on = value.get("name"), value.get("text"), value.get("on", True)
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            raise StudioError(f"a rule's name is a text of 1 to {LONGEST_NAME} characters")
        if not isinstance(text, str) or len(text) > LONGEST_RULE:
            raise StudioError(f"the text of a rule has at most {LONGEST_RULE:,} characters")
        if not isinstance(is_on, bool):
            raise StudioError("whether a rule is on is true or false")
        check_text(name, "the rule's name", error=StudioError)
        return cls(name, text.replace("\r\n", "\n"), is_on)


Settings = Mapping[str, Mapping[str, Any]]
"""Changed settings by the table of the problem file that holds them."""


@dataclass(frozen=True)
class Document:
    """The rules in order, the settings that were changed, and the map."""

    rules: tuple[RuleText, ...] = ()
    settings: Settings = field(default_factory=dict)
    map_name: str | None = None
    """A map of the opened folder that replaces the problem's own; None: its own."""
    outlines: Outlines | None = None
    """The shapes of this map as they were drawn here; None: those of its file."""

    @classmethod
    def of(cls, problem: Problem) -> Document:
        """The rules of a problem; nothing else is changed."""
        return cls(tuple(RuleText(rule.name, rule.text) for rule in problem.own_rules))

    @property
    def texts(self) -> dict[str, str]:
        """The rules that are switched on, by name."""
        return {rule.name: rule.text for rule in self.rules if rule.is_on}

    def with_rules(self, rules: tuple[RuleText, ...]) -> Document:
        """The same document with other rules."""
        return replace(self, rules=rules)

    def to_json(self, before: Document | None = None) -> dict[str, Any]:
        """Plain values, without the outlines that are the same as in the document before."""
        found: dict[str, Any] = {
            "rules": [rule.to_json() for rule in self.rules],
            "settings": {table: dict(values) for table, values in self.settings.items()},
            "map": self.map_name,
        }
        if self.outlines is not None:
            found["outlines"] = self.outlines.to_json(before.outlines if before else None)
        return found

    @classmethod
    def from_json(cls, value: Any, before: Document | None = None) -> Document:
        """The document that `to_json` wrote; raises for anything else."""
        if not isinstance(value, Mapping):
            raise StudioError("a document is an object")
        settings, map_name = value.get("settings", {}), value.get("map")
        if not isinstance(settings, Mapping) or not all(
            isinstance(each, Mapping) for each in settings.values()
        ):
            raise StudioError("settings are tables of values")
        if map_name is not None and not isinstance(map_name, str):
            raise StudioError("a map is named by a text")
        outlines = value.get("outlines")
        if outlines is not None:
            outlines = Outlines.from_json(outlines, before.outlines if before else None)
        return cls(rules_from_json(value.get("rules")), settings, map_name, outlines)


def rules_from_json(value: Any) -> tuple[RuleText, ...]:
    """Rules as a page sends them; names must differ and sizes are bounded."""
    if not isinstance(value, list) or len(value) > MOST_RULES:
        raise StudioError(f"rules are a list of at most {MOST_RULES}")
    rules = tuple(RuleText.from_json(each) for each in value)
    names = [rule.name for rule in rules]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise StudioError(f"two rules are named '{twice}'; choose another name for one of them")
    return rules


@dataclass(frozen=True)
class EditHistory:
    """The present document, what can be undone, and what can be redone."""

    present: Document
    past: tuple[Document, ...] = ()
    future: tuple[Document, ...] = ()

    def edited(self, document: Document) -> EditHistory:
        """With one more edit; the same document again is no edit."""
        if document == self.present:
            return self
        return EditHistory(document, (*self.past, self.present)[-MOST_EDITS:])

    def undone(self) -> EditHistory:
        """One edit back; the same where there is none."""
        if not self.past:
            return self
        return EditHistory(self.past[-1], self.past[:-1], (self.present, *self.future))

    def redone(self) -> EditHistory:
        """One edit forward; the same where there is none."""
        if not self.future:
            return self
        return EditHistory(self.future[0], (*self.past, self.present), self.future[1:])
