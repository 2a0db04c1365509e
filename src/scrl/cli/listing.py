"""`scrl list`: what is built in."""

from __future__ import annotations

from scrl.cli.output import JsonFlag, console, print_json, table


def list_all(as_json: JsonFlag = False) -> None:
    """Show the built-in problems and policies."""
    from scrl.problems import builtin_names, load

    problems = [load(name) for name in builtin_names()]
    if as_json:
        listed = [
            {
                "name": problem.name,
                "description": problem.options.description,
                "rules": [{"name": rule.name, "text": rule.text} for rule in problem.rules.rules],
            }
            for problem in problems
        ]
        print_json({"problems": listed, "policies": ["full-speed", "constant:V"]})
        return
    shown = table("problem", "what it asks", title="Built-in problems")
    for problem in problems:
        shown.add_row(f"[bold]{problem.name}[/bold]", problem.options.description)
    policies = table("policy", "what it does", title="Policies that need no training")
    policies.add_row("[bold]full-speed[/bold]", "drives as fast as it can")
    policies.add_row("[bold]constant:V[/bold]", "keeps the target speed V, in cells per step")
    out = console()
    out.print(shown)
    out.print(policies)
