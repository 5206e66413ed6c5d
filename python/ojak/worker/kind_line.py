# SPDX-License-Identifier: Apache-2.0
"""The jobs of one kind in this worker: what waits, what runs, and how much to lease (SPEC section 2). Pure."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from ojak.model.handler import Handler
from ojak.model.kind_job import KindJob

_RATE_WEIGHT: Final = 0.3
_MEASURED_S: Final = 0.25
_MOST_AHEAD: Final = 1000


class KindLine:
    """One kind's jobs: leased and not begun, and begun.

    Args:
        handler: what runs them, and how many at a time.
        ahead_s: no more is leased than will start within about so long.
        now_s: on the clock for deadlines.
    """

    def __init__(self, handler: Handler, *, ahead_s: float, now_s: float) -> None:
        self.handler = handler
        self.open = 0
        self.more = False
        self._ahead_s = ahead_s
        self._waiting: deque[KindJob] = deque()
        self._finished = 0
        self._rate_per_s = 0.0
        self._measured_at_s = now_s

    def __len__(self) -> int:
        """How many jobs wait here."""
        return len(self._waiting)

    def want(self) -> int:
        """How many jobs to lease now: what free slots and the time ahead are good for."""
        ahead = min(_MOST_AHEAD, int(self._rate_per_s * self._ahead_s))
        return max(0, self.handler.concurrency - self.open + ahead - len(self._waiting))

    def is_low(self) -> bool:
        """Whether it is time to lease more: half of what was leased ahead has begun."""
        ahead = min(_MOST_AHEAD, int(self._rate_per_s * self._ahead_s))
        return self.open < self.handler.concurrency or len(self._waiting) < ahead // 2

    def add(self, jobs: Sequence[KindJob]) -> None:
        """Take in leased jobs, oldest first."""
        self._waiting.extend(jobs)

    def next(self) -> KindJob | None:
        """The next job if a slot is free for it, counted as open."""
        if not self._waiting or self.open >= self.handler.concurrency:
            return None
        self.open += 1
        return self._waiting.popleft()

    def finished(self) -> None:
        """A job left its slot."""
        self.open -= 1
        self._finished += 1

    def unused(self) -> None:
        """A job that was taken out was not begun."""
        self.open -= 1

    def measure(self, now_s: float) -> None:
        """Take note of how fast jobs end."""
        passed_s = now_s - self._measured_at_s
        if passed_s >= _MEASURED_S:
            rate = self._finished / passed_s
            # Up at once, down slowly: a pause of the source is no reason to forget how quick these jobs are.
            self._rate_per_s = max(rate, self._rate_per_s + _RATE_WEIGHT * (rate - self._rate_per_s))
            self._finished, self._measured_at_s = 0, now_s

    def take(self, ids: set[bytes]) -> list[KindJob]:
        """Take out waiting jobs: their lease was taken, or they were cancelled; gives those that were found."""
        taken = [job for job in self._waiting if job.id in ids]
        for job in taken:
            self._waiting.remove(job)
        return taken

    def take_all(self) -> list[KindJob]:
        """Take out everything that waits, to be handed back."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken
