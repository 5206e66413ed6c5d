# SPDX-License-Identifier: Apache-2.0
"""The settler of other kinds: gathers what came of their jobs and writes it in batches."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from ojak.store.database import QueueDatabase
from ojak.store.kind_settle import KindEnded, KindRetried, write_kind_outcomes
from ojak.worker.until_stored import MAX_PENDING, until_stored

_log = logging.getLogger("ojak.worker.kinds")

KindOutcome = KindEnded | KindRetried


class KindSettler:
    """Writes outcomes until they are stored: an outcome is worth more than the lease it was made under.

    Args:
        db: the queue.
        every_s: how long an outcome waits for others.
        batch: how many outcomes are written at once.
        kept_s: how long an ended row stays.
        on_stored: called with each batch once it is stored, or dropped for good.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        every_s: float,
        batch: int,
        kept_s: float,
        on_stored: Callable[[Sequence[KindOutcome]], None],
    ) -> None:
        self._db = db
        self._every_s = every_s
        self._batch = batch
        self._kept_s = kept_s
        self._on_stored = on_stored
        self._pending: list[KindOutcome] = []
        self._come = asyncio.Event()
        self._full = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._draining = False

    def has_room(self) -> bool:
        """Whether more may be begun."""
        return len(self._pending) < MAX_PENDING

    def add(self, outcome: KindOutcome) -> None:
        """Gather an outcome."""
        self._pending.append(outcome)
        self._empty.clear()
        self._come.set()
        if self._draining or len(self._pending) >= self._batch:
            self._full.set()

    async def drained(self) -> None:
        """Wait until everything gathered is stored; from now on nothing waits for others."""
        self._draining = True
        self._full.set()
        await self._empty.wait()

    async def step(self) -> None:
        """Wait for an outcome, and a little for others; write a batch."""
        await self._come.wait()
        try:
            async with asyncio.timeout(self._every_s):
                await self._full.wait()
        except TimeoutError:
            pass
        self._full.clear()
        self._come.clear()
        while self._pending:
            # They stay in the list until they stand: whoever waits for an empty one waits for that.
            batch = self._pending[: self._batch]
            stored = await self._store(batch)
            del self._pending[: len(batch)]
            if len(stored) < len(batch):
                _log.warning("outcomes dropped, their leases were taken", extra={"count": len(batch) - len(stored)})
            self._on_stored(batch)
        self._empty.set()

    async def _store(self, batch: Sequence[KindOutcome]) -> set[bytes]:
        return await until_stored(lambda: write_kind_outcomes(self._db, batch, kept_s=self._kept_s))
