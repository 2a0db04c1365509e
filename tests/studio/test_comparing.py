"""Two plans beside each other, in numbers."""

from __future__ import annotations

from scrl.evaluation import evaluate
from scrl.policies import fixed_policy
from scrl.problems import load
from scrl.studio.comparing import ShownPlan, differences


def shown(rules: dict[str, str], speed: float) -> ShownPlan:
    problem = load("agri").with_rules(rules)
    found = evaluate(problem, fixed_policy(f"constant:{speed}", problem), name="x")
    return ShownPlan("x", problem, found, "", {}, {})


def test_every_row_of_both_plans_is_in_the_tables() -> None:
    first = shown({"same": "S1 >= 10", "old": "S2 >= 1"}, 3.0)
    second = shown({"same": "S1 >= 10", "new": "S2 <= 1"}, 1.5)
    tables = differences(first, second)
    whole = {row["name"]: row for row in tables["The whole drive"]}
    a, b = first.evaluation, second.evaluation
    assert float(whole["Steps"]["difference"].replace(",", "")) == b.steps - a.steps > 0
    # Half the speed costs 0.1 / 2.5 a step instead of 0.1 / 4 in about twice as many steps.
    assert whole["Cost (the negative of the return)"]["difference"].startswith("+")
    assert [row["name"] for row in tables["What each region receives"]] == list(a.density)
    rules = {row["name"]: row for row in tables["The rules"]}
    assert list(rules) == ["same", "old", "new"]
    assert rules["same"]["first"].startswith("kept, ")
    assert rules["same"]["difference"].startswith("+")
    assert (rules["old"]["second"], rules["new"]["first"]) == ("not asked for", "not asked for")
    assert rules["new"]["second"].startswith("S2 <= 1: broken by ")


def test_a_plan_does_not_differ_from_itself() -> None:
    one = shown({"same": "S1 >= 10"}, 3.0)
    for rows in differences(one, one).values():
        assert all(row["first"] == row["second"] for row in rows)
        assert all(row["difference"] == "0" for row in rows)
