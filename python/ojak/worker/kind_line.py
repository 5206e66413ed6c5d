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
_SUSPECTS: Final = 16
_SUSPECT_HELD_S: Final = 1.0
"""A suspect waits here so long for another to end, and then for its turn elsewhere."""


class KindLine:
    """One kind's jobs: leased and not begun, and begun.

    Suspects, whose worker died while they ran, wait apart: of two that may have killed their worker, one begins when
    the other has ended, and what stands behind them goes on.

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
        self._suspects: deque[tuple[KindJob, float]] = deque()
        self._finished = 0
        self._rate_per_s = 0.0
        self._measured_at_s = now_s

    def __len__(self) -> int:
        """How many jobs wait here."""
        return len(self._waiting) + len(self._suspects)

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

    def next(self, *, now_s: float, suspect_runs: bool) -> KindJob | None:
        """The next job if a slot is free for it, counted as open; no suspect while another runs."""
        if self.open >= self.handler.concurrency:
            return None
        job: KindJob | None = None
        if self._suspects and not suspect_runs:
            job, _ = self._suspects.popleft()
        while job is None and self._waiting:
            job = self._waiting.popleft()
            if job.deaths and suspect_runs:
                self._suspects.append((job, now_s))
                job = None
        self.open += job is not None
        return job

    def stale_suspects(self, now_s: float) -> list[KindJob]:
        """Take out suspects that have waited here for too long, or that are too many: to be handed back."""
        stale: list[KindJob] = []
        while self._suspects and (len(self._suspects) > _SUSPECTS or now_s - self._suspects[0][1] >= _SUSPECT_HELD_S):
            stale.append(self._suspects.popleft()[0])
        return stale

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
        taken = [job for job in self._all() if job.id in ids]
        self._waiting = deque(job for job in self._waiting if job.id not in ids)
        self._suspects = deque(item for item in self._suspects if item[0].id not in ids)
        return taken

    def take_all(self) -> list[KindJob]:
        """Take out everything that waits, to be handed back."""
        taken = self._all()
        self._waiting.clear()
        self._suspects.clear()
        return taken

    def _all(self) -> list[KindJob]:
        return [*(job for job, _ in self._suspects), *self._waiting]
