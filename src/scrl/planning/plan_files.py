"""Answers on disk: a run folder with a plan, for reports, evaluation and export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scrl.errors import PolicyError
from scrl.planning.answer import Answer
from scrl.planning.feedback import BRANCHES, Aims, FeedbackPolicy
from scrl.policies import Schedule
from scrl.runs.files import Each, Range, damage_in, read_json, write_json
from scrl.runs.folder import RunFolder, RunRecord
from scrl.runs.result import RunResult, SeedResult

METHOD = "ask"
PLAN = "plan.json"
WEIGHTS_WITHIN = 1e-3
"""Tolerance to which the weights of all plans sum to 1."""
_ATOM = {
    "coefficients": Each(int | float),
    "bound": int | float,
    "inset": int | float,
    "branches?": [Range(int, 0, BRANCHES[-1] - 1)],
}
_PLAN = {
    "weight": Range(int | float, 0.0, 1.0 + WEIGHTS_WITHIN),
    "stretches": [{"share": Range(int | float, 0.0, 1.0), "prices": Each(int | float)}],
    "throttles": list | None,
    "openings?": list,
    "feedback?": {"atoms": [_ATOM], "reserve": Range(int | float, 0.0, 1e6)},
}


@dataclass(frozen=True, repr=False)
class PlanResult(RunResult):
    """What `scrl ask` answered; its one seed is that of the search."""


def write(answer: Answer, path: Path | str, *, seed: int) -> RunFolder:
    """Write an answer as a new run folder; what is there is never overwritten."""
    record = RunRecord.now(answer.problem.name, METHOD, {}, (seed,))
    folder = RunFolder.create(path, answer.problem, record)
    names = answer.problem.world_spec.amounts
    plans = [
        {
            "weight": plan.weight,
            "stretches": plan.to_json()["stretches"],
            **_actions(plan.policy),
            **({} if plan.aims is None else {"feedback": _feedback(plan.aims, names)}),
        }
        for plan in answer.plans
    ]
    write_json(folder.path / PLAN, {"answer": answer.to_json(), "plans": plans})
    result = PlanResult(
        problem=answer.problem.name,
        method=METHOD,
        bound=answer.reference.bound,
        seeds=(SeedResult(seed, answer.evaluation, answer.gap),),
        wall_s=answer.wall_s,
        run=folder.path,
    )
    folder.save_result(result.to_json())
    return folder


def read_answer(folder: RunFolder) -> dict[str, Any]:
    """What `scrl ask` answered, as the JSON fields of the command."""
    return read_json(folder.path / PLAN, {"answer": dict})["answer"]


def read_plans(folder: RunFolder) -> list[tuple[float, FeedbackPolicy | Schedule]]:
    """What drives the plans of a folder and in which share of episodes, the most driven first."""
    file = folder.path / PLAN
    plans = read_json(file, {"plans": [_PLAN]})["plans"]
    with damage_in(file):
        found = [(float(each["weight"]), _policy(folder, each)) for each in plans]
    if abs(sum(weight for weight, _ in found) - 1.0) > WEIGHTS_WITHIN:
        raise PolicyError(f"{file}: damaged: the weights of its plans do not add up to 1")
    return sorted(found, key=lambda each: -each[0])


def conflict_in(answer: dict[str, Any], path: Path) -> tuple[str, ...]:
    """Names of the rules in conflict; empty if there is no conflict."""
    try:
        if answer["status"] != "impossible":
            return ()
        return tuple(str(each["rule"]) for each in answer["conflict"])
    except (KeyError, TypeError) as error:
        raise PolicyError(f"{path / PLAN}: damaged: {error}") from None


def _policy(folder: RunFolder, plan: Any) -> FeedbackPolicy | Schedule:
    has_flow = folder.problem().world_spec.vehicle.has_flow
    if plan["throttles"] is not None:
        names = ("throttles", "openings") if has_flow else ("throttles",)
        actions = [_numbers(plan.get(name), name, low=0.0, high=1.0) for name in names]
        return Schedule.of(np.column_stack(actions) if has_flow else actions[0])
    if "feedback" not in plan:
        raise ValueError("a plan of an earlier version, which does not react: ask again")
    problem = folder.problem()
    aims = _aims(plan["feedback"], problem.world_spec.amounts)
    return FeedbackPolicy.of(problem.world_spec, problem.world, aims)


def _actions(policy: FeedbackPolicy | Schedule) -> dict[str, list[float] | None]:
    """The throttles of a schedule without padding, and with a flow the openings of the pump; no
    throttles for a closed-loop policy."""
    if not isinstance(policy, Schedule):
        return {"throttles": None}
    actions = np.asarray(policy.throttles)
    columns = actions if actions.ndim > 1 else actions[:, None]
    changes = np.flatnonzero((np.diff(columns, axis=0) != 0.0).any(axis=1))
    kept = columns[: changes[-1] + 2 if len(changes) else 1].T.tolist()
    return dict(zip(("throttles", "openings"), kept, strict=False))


def _numbers(values: Any, name: str, *, low: float, high: float) -> np.ndarray:
    found = np.asarray(values, float)
    if found.ndim != 1 or not len(found) or not ((low <= found) & (found <= high)).all():
        raise ValueError(f"{name} must be numbers from {low:g} to {high:g}")
    return found


def _feedback(aims: Aims, names: Sequence[str]) -> dict[str, Any]:
    """What a plan that reacts aims at, as plain values; regions that do not count are left out."""
    atoms = [
        {
            "coefficients": {name: value for name, value in zip(names, row, strict=True) if value},
            "bound": bound,
            "inset": inset,
            "branches": np.flatnonzero(is_in).tolist(),
        }
        for row, bound, inset, is_in in zip(
            aims.coefficients.tolist(),
            aims.bounds.tolist(),
            aims.inset.tolist(),
            aims.is_in.T,
            strict=True,
        )
    ]
    return {"atoms": atoms, "reserve": aims.reserve}


def _aims(feedback: Any, names: Sequence[str]) -> Aims:
    """What `_feedback` wrote."""
    atoms = feedback["atoms"]
    if unknown := {name for atom in atoms for name in atom["coefficients"]} - set(names):
        raise ValueError(f"there is no region {', '.join(map(repr, sorted(unknown)))}")
    rows = [[float(atom["coefficients"].get(name, 0.0)) for name in names] for atom in atoms]
    bounds, inset = (np.array([float(a[key]) for a in atoms]) for key in ("bound", "inset"))
    of_atom = [atom.get("branches", [0]) for atom in atoms]
    count = 1 + max((branch for branches in of_atom for branch in branches), default=0)
    is_in = np.array([[branch in each for each in of_atom] for branch in range(count)], bool)
    coefficients = np.array(rows).reshape(-1, len(names))
    found = Aims(coefficients, bounds, inset, feedback["reserve"], is_in)
    if not all(np.isfinite(each).all() for each in (found.coefficients, bounds, inset)):
        raise ValueError("a number of the feedback is not finite")
    return found
