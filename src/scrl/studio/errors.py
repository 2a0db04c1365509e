"""The errors of the studio, whose messages the page shows."""

from __future__ import annotations

from scrl.errors import ScrlError


class StudioError(ScrlError):
    """An edit or a request that cannot be carried out; the message says why."""


class StaleEditError(StudioError):
    """An edit of a page that does not show the present problem."""


class ChangedOnDiskError(StudioError):
    """The problem file is not the one that was opened."""
