"""`scrl list`: built-in problems, policies, methods and learners."""

from __future__ import annotations

from scrl.cli.output import JsonFlag, console, print_json
from scrl.terminal import table


def list_all(as_json: JsonFlag = False) -> None:
    """Show the built-in problems, policies, methods and learners."""
    from scrl.problems import builtin_names, load
    from scrl.training.methods import LEARNER_SENTENCES, METHODS

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
        methods = [
            {
                "name": name,
                "learner": method.learner or "ppo",
                "penalty": method.penalty,
                "reading": method.reading,
            }
            for name, method in METHODS.items()
        ]
        policies = ["full-speed", "constant:V"]
        document = {"problems": listed, "policies": policies, "methods": methods}
        print_json({**document, "learners": list(LEARNER_SENTENCES)})
        return
    shown = table("!problem", "what it asks", title="Built-in problems")
    for problem in problems:
        shown.add_row(f"[bold]{problem.name}[/bold]", problem.options.description)
    policies = table("!policy", "what it does", title="Policies that need no training")
    policies.add_row("[bold]full-speed[/bold]", "drives as fast as it can")
    policies.add_row("[bold]constant:V[/bold]", "keeps the target speed V, in cells per step")
    methods = table(
        "!method", "!learner", "!penalty", "reading", "what it is", title="Methods to train with"
    )
    for name, method in METHODS.items():
        methods.add_row(
            f"[bold]{name}[/bold]",
            method.learner or "ppo",
            method.penalty,
            method.reading,
            method.sentence,
        )
    learners = table("!learner", "what it is", title="Learners")
    for name, sentence in LEARNER_SENTENCES.items():
        learners.add_row(f"[bold]{name}[/bold]", sentence)
    out = console()
    for each in (shown, policies, methods, learners):
        out.print(each)
