# SPDX-License-Identifier: Apache-2.0
"""Time as the store writes it: one expression, *now*, that the database evaluates (DESIGN section 3, "Time").

No statement spells the time itself. In production *now* is `$$NOW`; tests that turn the clock give a literal.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Comparisons with *now* start here, so that a null or a text is never taken for a time that has come."""

NEVER: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""When a lane without work is due. A date, since `$min` over null leaves null."""


class Now:
    """The database's present moment, as an expression for pipelines and `$expr`."""

    __slots__ = ("_literal",)

    def __init__(self, literal: datetime | None = None) -> None:
        self._literal = literal

    def turn(self, moment: datetime) -> None:
        """Set the literal that stands for now (tests only)."""
        self._literal = moment

    @property
    def expr(self) -> Any:
        """The expression of this moment."""
        return "$$NOW" if self._literal is None else {"$literal": self._literal}

    @property
    def literal(self) -> datetime | None:
        """The moment that a test has set, or None in production."""
        return self._literal

    def plus(self, seconds: float) -> Any:
        """The expression of the moment `seconds` from now; negative ones lie in the past."""
        return {"$add": [self.expr, round(seconds * 1000)]}

    def has_come(self, field: str) -> dict[str, Any]:
        """A filter: `field` holds a time, and it is not later than now."""
        return {field: {"$gte": EPOCH}, "$expr": {"$lte": [f"${field}", self.expr]}}


def utc(moment: datetime) -> datetime:
    """Read a stored time, which has milliseconds and no zone of its own, as UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def later(moment: datetime, seconds: float) -> datetime:
    """The moment `seconds` after `moment`."""
    return moment + timedelta(seconds=seconds)
