"""The page of an audit: map, amounts, rules, gaps and findings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from scrl._version import __version__
from scrl.audit import Audit
from scrl.audit.audit import RuleAudit
from scrl.errors import ScrlError
from scrl.files import replacing
from scrl.report.audits import limit_text, margin_text, outcome_text, said_of
from scrl.report.page.bars import Received, region_bars
from scrl.report.page.maps import draw_map, heat_pictures
from scrl.report.page.story import page_environment
from scrl.report.words import Said, amount

STATES = {"held": "good", "broken": "bad", "unknown": "mixed"}


@dataclass(frozen=True)
class AuditHeat:
    """What was given out where, as a picture."""

    heat: str
    about_heat: str
    most: str


@dataclass(frozen=True)
class AuditedRule:
    """A rule with its outcome."""

    name: str
    text: str
    status: str
    state: str
    outcome: str
    margin: str
    said: Said | None
    """In words, where nothing is unknown."""


def write_audit_page(result: Audit, path: Path) -> Path:
    """Write the page to a file atomically."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ScrlError(f"{path}: a page's name ends in .html")
    text = audit_page_text(result)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
    return path


def audit_page_text(result: Audit) -> str:
    """The HTML text of the page."""
    problem = result.problem
    (picture,), most = heat_pictures([result.cells])
    received = Received("log", 0, result.density, {})
    bars, left_out = region_bars(problem, [received])
    limits = dict.fromkeys(result.totals, "")
    limits |= {each.name: limit_text(each.received, each.at_most) for each in result.regions}
    about = f"Where the log gives out how much of {amount(result.given_out)} {result.unit}."
    return page_environment().get_template("audit.html").render(
        audit=result,
        title=problem.name,
        state=STATES[result.status],
        map=draw_map(problem.world_spec.regions),
        heat=AuditHeat(picture, about, amount(most)),
        bars=bars,
        bars_left_out=left_out,
        limits=limits,
        rules=[_rule(result, rule) for rule in result.rules],
        amount=amount,
        infinite=math.inf,
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )  # fmt: skip


def _rule(result: Audit, rule: RuleAudit) -> AuditedRule:
    said = None if rule.status == "unknown" else said_of(result, rule)
    return AuditedRule(
        rule.name, rule.text, rule.status, STATES[rule.status], outcome_text(result, rule),
        margin_text(rule), said,
    )  # fmt: skip
