"""The learned part of a price policy on disk: numbers in one file, what they are in another.

Nothing that is read is executed. The one that is shipped lies beside this file.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax

from scrl.errors import PolicyError, ScrlError
from scrl.prices.learning import LearningConfig, begin
from scrl.prices.policy import AheadOfFluid
from scrl.prices.ranges import Ranges
from scrl.runfiles.files import read_json, replacing, write_json
from scrl.runfiles.trees import read_tree, write_tree

SHIPPED = Path(__file__).parent / "shipped"
NUMBERS, CARD = "prices.eqx", "prices.json"


@dataclass(frozen=True)
class Learned:
    """A learned price policy, and what it was trained for."""

    ahead: AheadOfFluid
    ranges: Ranges
    config: LearningConfig
    made: dict[str, Any]
    """Commit, command, seed and worlds behind it."""


def save(folder: Path, learned: Learned) -> None:
    """Write both files."""
    with replacing(folder / NUMBERS) as file:
        write_tree(file, learned.ahead)
    card = {
        "settings": dataclasses.asdict(learned.config),
        "ranges": learned.ranges.to_json(),
        "made": learned.made,
    }
    write_json(folder / CARD, card)


def load(folder: Path | str) -> Learned:
    """Read both files; anything wrong with them is one message."""
    folder = Path(folder)
    if not (folder / CARD).is_file():
        raise PolicyError(
            f"{folder}: holds no price policy ({CARD}); name a folder that `scrl learn` has written"
        )
    card = read_json(folder / CARD, {"settings": dict, "ranges": dict, "made": dict})
    try:
        config = LearningConfig(**card["settings"])
        ranges = Ranges.from_json(card["ranges"])
    except (TypeError, ValueError, ScrlError) as error:
        raise PolicyError(f"{folder / CARD}: damaged: {error}") from None
    like = jax.eval_shape(lambda: begin(config, key=jax.random.key(0)).slow)
    return Learned(read_tree(folder / NUMBERS, like), ranges, config, card["made"])


@cache
def shipped() -> Learned:
    """The general price policy that comes with the package."""
    return load(SHIPPED)
