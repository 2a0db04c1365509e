"""What is computed for the page: the fluid estimate, the plan, and trade-offs, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from scrl.evaluation import REPORT_SEED
from scrl.planning import Answer
from scrl.planning.plan_files import METHOD, PlanResult
from scrl.problems import Problem
from scrl.reference import NumericalTroubleError, Reference
from scrl.reference.answer import Question
from scrl.reference.fluid_search import best_fluid
from scrl.reference.solve import solve_question
from scrl.report.page.ending import figures_of, impossible_verdict, verdict_on
from scrl.report.words import RuleDescriber, Said, amount
from scrl.route import drive
from scrl.rules import Span
from scrl.runs.result import SeedResult
from scrl.studio.document import RuleText
from scrl.studio.drawing import bars_document, estimate_pictures, route_document
from scrl.studio.errors import StudioError
from scrl.studio.loosening import numbers_in, with_number
from scrl.violation import rule_margins

ESTIMATE_TIME_S = 1.0
POINTS = 25
"""Points of a trade-off curve."""
WIDEST_SHARE = 0.5
LEAST_DUAL = 1e-9


def estimate(problem: Problem, top: float | None = None, view: str = "given") -> dict[str, Any]:
    """The fluid estimate: return, amounts, margins and the picture of a view of the map.

    `top` is the scale of what is given.
    """
    question = Question.of(problem)
    reference, found = solve_question(question, time_limit_s=ESTIMATE_TIME_S, is_explained=False)
    best = found.best
    if best is None:
        return {"possible": False, "return": None}
    times, services = (
        _of_cells(problem, each[question.fluid.group_of_part])
        for each in (best.times, best.services)
    )
    return {
        "possible": True,
        "return": best.return_,
        "bars": bars_document(problem, reference.fluid_density),
        "margins": _margins(problem, list(reference.fluid_density.values())),
        "costs": costs_of(problem, reference),
        "pictures": estimate_pictures(problem, times, services, top, view),
    }


def _of_cells(problem: Problem, of_part: Float[np.ndarray, " part"]) -> Float[np.ndarray, " cell"]:
    return of_part.reshape(-1, problem.world_spec.service.parts).mean(axis=1)


def _margins(problem: Problem, density: Sequence[float]) -> dict[str, float]:
    names = [rule.name for rule in problem.rules.rules]
    found = rule_margins(problem.atoms, np.array(density), len(names))
    return dict(zip(names, found.tolist(), strict=True))


def costs_of(problem: Problem, reference: Reference) -> dict[str, list[str]]:
    """What one unit of each bound costs, as sentences, by rule."""
    is_least = {atom.show(): atom.is_at_least for atom in problem.atoms.atoms}
    found: dict[str, list[str]] = {}
    for each in reference.duals:
        if each.dual > LEAST_DUAL:
            moved = "one unit less" if is_least.get(each.atom) else "one unit more"
            text = f"{each.atom}: {moved} saves {_saved(each.dual)}"
            found.setdefault(each.rule, []).append(text)
    return found


def _saved(dual: float) -> str:
    return f"{dual:.2g}" if dual < 0.1 else amount(dual)


def plan_document(answer: Answer) -> dict[str, Any]:
    """The plan: verdict, figures, bars, rules, ways, conflict, and the drive."""
    problem, evaluation = answer.problem, answer.evaluation
    result = PlanResult(
        problem=problem.name, method=METHOD, bound=answer.reference.bound,
        seeds=(SeedResult(0, evaluation, answer.gap),), wall_s=answer.wall_s, run=Path(),
    )  # fmt: skip
    verdict, state = verdict_on(result, problem)
    if answer.status == "impossible":
        verdict, state = impossible_verdict(result, problem), "bad"
    elif not answer.is_satisfied and not answer.reference.conflict:
        verdict += (
            " No plan was found that keeps the rules, and none is excluded: nothing is proven."
        )
    policy = max(answer.plans, key=lambda plan: plan.weight).policy
    seed = REPORT_SEED if problem.is_random else 0
    return {
        "status": answer.status,
        "satisfied": answer.is_satisfied,
        "verdict": verdict,
        "state": state,
        "figures": [asdict(figure) for figure in figures_of(result, problem)],
        "return": evaluation.return_,
        "bars": bars_document(problem, evaluation.density),
        "rules": _rules(answer),
        "conflict": conflict_document(answer),
        "route": route_document(drive(problem, policy, seed=seed)),
        "total": evaluation.total,
        "warnings": [*answer.warnings, *evaluation.warnings()],
        "wall_s": answer.wall_s,
    }


def _rules(answer: Answer) -> list[dict[str, Any]]:
    problem, evaluation = answer.problem, answer.evaluation
    describer = RuleDescriber.of(problem, evaluation.density)
    costs = costs_of(problem, answer.reference)
    best = [each.return_ for each in answer.disjuncts if each.return_ is not None]
    return [
        {
            "name": rule.name,
            "satisfied": judged.is_satisfied,
            "margin": judged.margin,
            "marginText": judged.margin_text("+,.2f"),
            "said": _said(describer.say(rule.formula)),
            "costs": costs.get(rule.name, []),
            "ways": [
                {
                    "text": way.text,
                    "met": answer.is_met(way),
                    "taken": way.is_taken,
                    "cost": _way_cost(way.return_, way.is_decided, max(best, default=0.0)),
                }
                for way in answer.disjuncts
                if way.rule == rule.name
            ],
        }
        for rule, judged in zip(problem.rules.rules, evaluation.rules, strict=True)
    ]


def _way_cost(return_: float | None, is_decided: bool, best: float) -> str:
    if return_ is None:
        return "cannot be kept with the other rules" if is_decided else "not decided in time"
    more = best - return_
    return "the cheapest way" if more < 0.0005 else f"costs {amount(more)} more"


def _said(said: Said) -> dict[str, Any]:
    return {
        "held": said.is_held, "text": said.text, "kind": said.kind, "used": said.is_used,
        "parts": [_said(part) for part in said.parts[:40]],
    }  # fmt: skip


def conflict_document(answer: Answer) -> dict[str, Any] | None:
    """Which rules cannot hold together, what would help, and whether that is proven."""
    reference = answer.reference
    if not reference.conflict or answer.is_satisfied:
        return None
    several = len(reference.conflict) > 1
    subject = "These rules cannot hold together" if several else "This rule cannot be kept"
    why = (
        f"{subject}: that is proven."
        if reference.is_impossible
        else f"{subject}, probably: nothing is proven. No plan was found, and none is excluded."
    )
    return {
        "why": why,
        "restsOn": reference.conflict_rests_on,
        "rules": [{"name": name, "text": text} for name, text in reference.conflict],
        "relax": [str(each) for each in reference.relax],
        "others": [
            "; ".join(str(each) for each in way)
            for way in reference.alternatives
            if way != reference.relax
        ],
        "hints": list(reference.vehicle_hints),
    }


def number_at(text: str, start: int) -> Span:
    """The number of a rule's text that begins at a place."""
    for span in numbers_in(text):
        if span.start == start:
            return span
    raise StudioError("there is no number at this place of the rule any more")


def trade_points(
    make: Callable[[Sequence[RuleText]], Problem],
    rules: Sequence[RuleText],
    index: int,
    span: Span,
) -> Iterator[tuple[float, float | None]]:
    """The fluid's return for values of one number: (value, return), coarse first.

    The return is None where the fluid cannot keep the rules.
    """
    text = rules[index].text
    now = float(text[span.start : span.end])
    for value in _values(now, _scale(make(rules)) if now == 0.0 else now):
        moved = RuleText(rules[index].name, with_number(text, span, value))
        problem = make([*rules[:index], moved, *rules[index + 1 :]])
        question = Question.of(problem)
        try:
            best = best_fluid(question.fluid, question.atoms, time_limit_s=ESTIMATE_TIME_S).best
        except NumericalTroubleError:  # at the edge of what is possible
            continue
        yield value, None if best is None else best.return_


def _values(now: float, scale: float) -> list[float]:
    """The present value, both ends, and points between them, coarse first."""
    width = WIDEST_SHARE * scale
    grid = np.linspace(max(0.0, now - width), now + width, POINTS)
    order = [0, POINTS - 1]
    for step in (8, 4, 2, 1):
        order += [place for place in range(0, POINTS, step) if place not in order]
    return [now, *(float(f"{grid[place]:.4g}") for place in order)]


def _scale(problem: Problem) -> float:
    """The largest amount that a region receives at full speed, for numbers that are 0."""
    fluid = Question.of(problem).fluid
    return float((fluid.amount @ fluid.fully_open(fluid.fastest)).max(initial=1.0))
