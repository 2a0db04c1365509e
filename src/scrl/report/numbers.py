"""Numbers as people write them."""

from __future__ import annotations


def amount(value: float) -> str:
    """At most two decimals, none where they are zero; more only where nothing else is left."""
    if value and abs(value) < 0.01:
        return f"{value:.1g}" if abs(value) >= 1e-6 else "0"
    text = f"{value:,.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def percent(share: float) -> str:
    """1.5 %; no minus before what rounds to nothing."""
    text = f"{100.0 * share:.1f}"
    return f"{text.removeprefix('-') if float(text) == 0.0 else text} %"


def chance(p: float) -> str:
    """p = 0.002, or p < 0.001 below that."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}".rstrip("0").rstrip(".")
