# SPDX-License-Identifier: Apache-2.0
"""`RefusedRows`: what the database refused to queue of the outbox, and when each is tried again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ojak.clock import Clock
from ojak.errors import QueueUnavailable
from ojak.store.database import DatabaseTrouble

_SLOWEST_S: Final = 60.0
_MOST: Final = 1000
"""When so many are refused it is not their fault: no others are begun until the first of them is due again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    about: frozenset[str]
    pause_s: float
    until_s: float


class RefusedRows:
    """Rows that wait for their next try, each with what it is about: what comes after it waits too.

    The pause doubles with every refusal, up to a minute. A database that is away refuses none in particular: then it
    stays as it is.

    Args:
        clock: for when to try again.
        first_s: the first pause.
    """

    def __init__(self, clock: Clock, *, first_s: float) -> None:
        self._clock = clock
        self._first_s = first_s
        self._rows: dict[bytes, _Refusal] = {}

    @property
    def is_full(self) -> bool:
        """Whether so many wait that no more are to be begun."""
        return len(self.held()) >= _MOST

    def held(self) -> Mapping[bytes, frozenset[str]]:
        """The rows that are not to be tried yet, each with what it is about."""
        now_s = self._clock.boot_s()
        # Also those that somebody else queued meanwhile: nobody comes to say so.
        self._rows = {row_id: row for row_id, row in self._rows.items() if now_s - row.until_s < _SLOWEST_S}
        return {row_id: row.about for row_id, row in self._rows.items() if now_s < row.until_s}

    def add(self, row_id: bytes, about: frozenset[str], error: Exception) -> float:
        """Take note of a refusal; gives in how many seconds the row is tried again."""
        before = self._rows.get(row_id)
        pause_s = before.pause_s if before is not None else self._first_s
        if before is not None and not isinstance(error, QueueUnavailable | DatabaseTrouble):
            pause_s = min(pause_s * 2, max(_SLOWEST_S, self._first_s))
        self._rows[row_id] = _Refusal(about=about, pause_s=pause_s, until_s=self._clock.boot_s() + pause_s)
        return pause_s

    def forget(self, row_id: bytes) -> None:
        """Take note that a row is queued, or parked."""
        self._rows.pop(row_id, None)
