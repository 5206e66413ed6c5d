# SPDX-License-Identifier: Apache-2.0
"""The settler: gathers outcomes and writes them in batches, within 100 ms or 256 outcomes."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from ojak.store.aside import SetAside, write_asides
from ojak.store.database import DatabaseTrouble, QueueDatabase
from ojak.store.hosts import write_news
from ojak.store.move import Moved, write_moves
from ojak.store.settle import Ended, Retried, write_ends, write_retries
from ojak.worker.attempted import Outcome
from ojak.worker.failover import Failover, Passed
from ojak.worker.standings import Standings
from ojak.worker.until_stored import MAX_PENDING, until_stored

_log = logging.getLogger("ojak.worker.settle")


class Settler:
    """Writes outcomes until they are stored: an outcome is worth more than the lease it was made under.

    Args:
        db: the queue.
        standings: where what is to be written of hosts comes from; it goes along with the outcomes.
        failover: decides what becomes of deliveries that a gateway did not take.
        lease_s: the length of a lease.
        every_s: how long an outcome waits for others.
        batch: how many outcomes are written at once.
        kept_s: how long a finished row stays.
        telling: whether ends are kept until somebody was told.
        on_stored: called with the ends that are to be told, and with the whole batch.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        standings: Standings,
        failover: Failover,
        lease_s: float,
        every_s: float,
        batch: int,
        kept_s: float,
        telling: Callable[[], bool],
        on_stored: Callable[[Sequence[Ended], Sequence[Outcome]], None],
    ) -> None:
        self._db = db
        self._standings = standings
        self._failover = failover
        self._lease_s = lease_s
        self._every_s = every_s
        self._batch = batch
        self._kept_s = kept_s
        self._telling = telling
        self._on_stored = on_stored
        self._pending: list[Outcome] = []
        self._full = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._writing = 0
        self._draining = 0

    def has_room(self) -> bool:
        """Whether more may be begun."""
        return len(self._pending) + self._writing < MAX_PENDING

    def add(self, outcome: Outcome) -> None:
        """Gather an outcome."""
        self._pending.append(outcome)
        self._empty.clear()
        if len(self._pending) >= self._batch:
            self._full.set()

    def add_all(self, outcomes: Iterable[Outcome]) -> None:
        """Gather several outcomes."""
        for outcome in outcomes:
            self.add(outcome)

    async def drained(self) -> None:
        """Wait until everything gathered is stored."""
        self._draining += 1
        try:
            self._full.set()
            await self._empty.wait()
        finally:
            self._draining -= 1

    async def run(self) -> None:
        """Write batches for as long as the task lives."""
        while True:
            try:
                async with asyncio.timeout(self._every_s):
                    await self._full.wait()
            except TimeoutError:
                pass
            self._full.clear()
            # What comes in while this is written waits for its own time, or every outcome would be a batch of its own.
            waiting, self._pending = self._pending, []
            self._writing = len(waiting)
            for start in range(0, len(waiting), self._batch):
                await self._write(waiting[start : start + self._batch])
            self._writing = 0
            await self._write_news()
            if not self._pending:
                self._empty.set()
            elif self._draining or len(self._pending) >= self._batch:
                self._full.set()

    async def _write(self, batch: Sequence[Outcome]) -> None:
        moves: list[Moved] = []
        ends = [outcome for outcome in batch if isinstance(outcome, Ended)]
        retries = [outcome for outcome in batch if isinstance(outcome, Retried)]
        asides = [outcome for outcome in batch if isinstance(outcome, SetAside)]
        if passed := [outcome for outcome in batch if isinstance(outcome, Passed)]:
            decided = await until_stored(lambda: self._failover.decide(passed))
            ends += [outcome for outcome in decided if isinstance(outcome, Ended)]
            moves += [outcome for outcome in decided if isinstance(outcome, Moved)]
        telling = self._telling()
        stored: set[bytes] = set()
        if ends:
            stored |= await until_stored(lambda: write_ends(self._db, ends, tell=telling, kept_s=self._kept_s))
        if retries:
            stored |= await until_stored(lambda: write_retries(self._db, retries))
        if moves:
            stored |= await until_stored(lambda: write_moves(self._db, moves, lease_s=self._lease_s))
        if asides:
            stored |= await until_stored(lambda: write_asides(self._db, asides))
        if len(stored) < len(batch):
            _log.warning("outcomes dropped, their leases were taken", extra={"count": len(batch) - len(stored)})
        self._on_stored([end for end in ends if end.job.id in stored and telling], batch)

    async def _write_news(self) -> None:
        news = self._standings.take_news()
        try:
            await write_news(self._db, news)
        except DatabaseTrouble as error:
            self._standings.put_back(news)
            _log.warning("host records not written", extra={"error": type(error).__name__})
