"""Which regions each part of the path serves, as a table of few kinds of parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from scrl.worlds.sweep.dynamics import Place, Served, share_of_step
from scrl.worlds.sweep.inside import PARTS, Corrections


@dataclass(frozen=True)
class ServiceTable:
    """Service rows, stored once for each kind of part: a large map has few kinds of them.

    Past the end of the path is one more cell, which serves nothing: the last kind.
    """

    kind_of_part: Int[np.ndarray, " part_and_end"]
    kinds: Float[np.ndarray, "kind region"]
    outside: Float[np.ndarray, " kind"]
    """The share of a step's amount that no region receives."""
    is_poured: bool
    most_cells: float
    """The largest number of cells that a step may cover."""
    parts: int = 1
    """Equal parts of a path cell, each of which has a kind."""

    @cached_property
    def of_regions(self) -> Served:
        """What each region receives."""
        return self._served(self.kinds)

    @cached_property
    def of_none(self) -> Served:
        """What no region receives, as one column."""
        return self._served(self.outside[:, None])

    def with_everywhere(self, values: Float[np.ndarray, " column"]) -> ServiceTable:
        """With columns that have the same value on the whole path."""
        if not len(values):
            return self
        columns = np.tile(values.astype(self.kinds.dtype), (len(self.kinds), 1))
        columns[-1] = 0.0
        return replace(self, kinds=np.concatenate([self.kinds, columns], axis=1))

    @property
    def outside_share(self) -> float:
        """The share of the path that lies outside all regions."""
        return float(self.outside[self.on_path].mean(dtype=float))

    @property
    def lengths(self) -> Float[np.ndarray, " region"]:
        """How many cells of the path lie inside each region."""
        count = np.bincount(self.on_path, minlength=len(self.kinds))
        return count @ self.kinds.astype(float) / self.parts

    @property
    def on_path(self) -> Int[np.ndarray, " part"]:
        """The kinds of all parts of the path, without its end."""
        return self.kind_of_part[: -self.parts]

    def _served(self, kinds: Float[np.ndarray, "kind column"]) -> Served:
        """The sums of these columns along the path, in fixed point.

        31 bits hold what a step serves and the rest of its first run.
        """
        first, kinds = self._first_parts, kinds.astype(float)
        longest = self.parts * (self.most_cells + LONGEST_RUN + 2.0)
        longest *= max(1.0, float(kinds.max(initial=0.0)))
        unit = 2.0 ** (math.ceil(math.log2(longest)) - 31)
        of_run = np.round(kinds / unit).astype(np.int64)[self.kind_of_part[first]]
        parts = np.diff(first, append=len(self.kind_of_part))[:, None]
        sums = np.cumsum(of_run * parts, axis=0) - of_run * parts
        run_of_part = np.repeat(np.arange(len(first), dtype=np.int32), parts[:, 0])
        return Served(
            self.kind_of_part, kinds, run_of_part, first.astype(np.int32), sums.astype(np.int32),
            unit,
        )  # fmt: skip

    @property
    def _first_parts(self) -> Int[np.ndarray, " run"]:
        """Where runs begin; long ones are cut, so that places in them keep their precision."""
        parts = np.arange(len(self.kind_of_part))
        is_first = np.diff(self.kind_of_part, prepend=-1) != 0
        return np.flatnonzero(is_first | (parts % (LONGEST_RUN * self.parts) == 0))

    def share_between(
        self,
        served: Served,
        begin: Float[np.ndarray, "*step"],
        end: Float[np.ndarray, "*step"],
    ) -> np.ndarray:
        """What each column receives of steps between two distances along the path, in cells."""
        last = len(self.kind_of_part) - 1
        begin, end = self.parts * begin, self.parts * end
        before, after = (np.minimum(along.astype(int), last) for along in (begin, end))
        return share_of_step(
            served, Place(before, begin - before), Place(after, end - after), end - begin,
            is_poured=self.is_poured, look=_columns_first,
        )  # fmt: skip


def _columns_first(table: np.ndarray, index: Int[np.ndarray, "*step"]) -> np.ndarray:
    """Rows of a table, with the axis of its columns before those of the steps."""
    return table[index] if table.ndim == 1 else np.moveaxis(table[index], -1, 0)


LONGEST_RUN = 16
FARTHEST_STEP = 8.0
"""The longest step in any wind, in steps at top speed; the deviation of gusts is at most 1."""


def service_table(
    service: Float[np.ndarray, "cell region"],
    outside: Float[np.ndarray, " cell"],
    finer: Corrections | None = None,
    *,
    is_poured: bool,
    most_cells: float,
) -> ServiceTable:
    """Group cells with equal rows, or parts of cells whose rows are corrected."""
    first, kind = _grouped(service, outside)
    service, outside = service[first], outside[first]
    parts = 1 if finer is None else PARTS
    if finer is not None:
        changed, entry = np.unique(finer.part, return_inverse=True)
        old = kind[changed // parts]
        rows = np.column_stack([service[old], outside[old]])
        np.add.at(rows, (entry, finer.column), finer.share)
        np.clip(rows, 0.0, 1.0, out=rows)
        service = np.concatenate([service, rows[:, :-1]])
        outside = np.concatenate([outside, rows[:, -1]])
        kind = np.repeat(kind, parts)
        kind[changed] = len(first) + np.arange(len(changed))
        used, kind = _numbered(kind)
        first, group = _grouped(service[used], outside[used])
        service, outside, kind = service[used][first], outside[used][first], group[kind]
    kinds = np.concatenate([service, np.zeros((1, service.shape[1]))]).astype(np.float32)
    kind = np.append(kind, np.full(parts, len(service))).astype(np.int32)
    outside = np.append(outside, 0.0).astype(np.float32)
    return ServiceTable(kind, kinds, outside, is_poured, most_cells, parts)


def _grouped(
    service: Float[np.ndarray, "row region"], outside: Float[np.ndarray, " row"]
) -> tuple[Int[np.ndarray, " group"], Int[np.ndarray, " row"]]:
    """The first row of each group of equal rows, and the group of each row.

    Rows are compared by a fixed random projection, and it is checked that the grouping is exact.
    """
    *weights, last = np.random.default_rng(0).standard_normal(service.shape[1] + 1)
    projected = service @ np.array(weights) + last * outside
    _, first, group = np.unique(projected, return_index=True, return_inverse=True)
    if not np.array_equal(service[first][group], service) or not np.array_equal(
        outside[first][group], outside
    ):
        rows = np.column_stack([service, outside])
        _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, group.ravel()


def _numbered(
    kind: Int[np.ndarray, " part"],
) -> tuple[Int[np.ndarray, " used"], Int[np.ndarray, " part"]]:
    """The kinds that occur, and the number among these of each."""
    is_used = np.bincount(kind) > 0
    return np.flatnonzero(is_used), (np.cumsum(is_used) - 1)[kind]
