"""The network of a price policy on disk: the arrays in one file, their description in another.

Loading executes no code. The shipped policy lies in the folder `shipped`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax

from scrl.errors import PolicyError
from scrl.files import replacing
from scrl.planning.fitting import LearningConfig, begin
from scrl.planning.policy import AheadOfFluid
from scrl.planning.ranges import Ranges
from scrl.runs.files import (
    Each,
    check_files,
    checksums_of,
    damage_in,
    read_json,
    write_json,
)
from scrl.runs.serialisation import read_tree, write_tree

SHIPPED = Path(__file__).parent / "shipped"
NUMBERS, CARD = "prices.eqx", "prices.json"


@dataclass(frozen=True)
class Learned:
    """A trained price policy and the ranges it was trained for."""

    ahead: AheadOfFluid
    ranges: Ranges
    config: LearningConfig
    made: dict[str, Any]
    """Commit, command, seed and worlds of the training."""


def save(folder: Path, learned: Learned) -> None:
    """Write the arrays, then the description with their checksum."""
    with replacing(folder / NUMBERS) as file:
        write_tree(file, learned.ahead)
    card = {
        "settings": dataclasses.asdict(learned.config),
        "ranges": learned.ranges.to_json(),
        "made": learned.made,
        "files": checksums_of(folder, NUMBERS),
    }
    write_json(folder / CARD, card)


def load(folder: Path | str) -> Learned:
    """Read both files; raises PolicyError if one is missing or damaged."""
    folder = Path(folder)
    if not (folder / CARD).is_file():
        raise PolicyError(
            f"{folder}: holds no price policy ({CARD}); name a folder that `scrl learn` has written"
        )
    shape = {"settings": dict, "ranges": Each([int | float]), "made": dict, "files?": Each(str)}
    card = read_json(folder / CARD, shape)
    with damage_in(folder / CARD):
        config = LearningConfig(**card["settings"])
        ranges = Ranges.from_json(card["ranges"])
    if not (folder / NUMBERS).is_file():
        raise PolicyError(f"{folder / NUMBERS}: missing, but {CARD} describes it")
    check_files(folder, card.get("files", {}), "restore it from a copy, or run `scrl learn` again")
    like = jax.eval_shape(lambda: begin(config, key=jax.random.key(0)).slow)
    numbers = read_tree(folder / NUMBERS, like, is_finite=True)
    return Learned(numbers, ranges, config, card["made"])


@cache
def shipped() -> Learned:
    """The general price policy that comes with the package."""
    return load(SHIPPED)
