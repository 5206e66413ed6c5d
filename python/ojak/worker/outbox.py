# SPDX-License-Identifier: Apache-2.0
"""The outbox of the applications' own transactions, emptied into the queue by the owner of shard 0."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ojak.clock import Clock
from ojak.errors import StoreError
from ojak.store.database import DatabaseTrouble, QueueDatabase
from ojak.store.outbox import Head, queue_head, waiting_heads
from ojak.worker.loops import forever

_log = logging.getLogger("ojak.worker.outbox")

_PAGE: Final = 100
_AT_A_TIME: Final = 8
_EAGER_S: Final = 10.0
"""For so long after somebody wrote to the outbox it is looked into often: nobody tells when a transaction commits."""
_EAGER_FIRST_S: Final = 0.02
_EAGER_SLOWEST_S: Final = 0.5


class OutboxLoop:
    """Queues what waits in the outbox, what is about the same thing in the order in which it was handed over.

    Args:
        db: the queue.
        clock: for when to look.
        poll_s: how often it is looked into when nobody hints at it.
        kept_s: how long a delivery queued now can need its activity.
        is_ours: whether this `run()` is the one to do it. Two that both believe so do no harm.
    """

    def __init__(
        self, *, db: QueueDatabase, clock: Clock, poll_s: float, kept_s: float, is_ours: Callable[[], bool]
    ) -> None:
        self._db = db
        self._clock = clock
        self._poll_s = poll_s
        self._kept_s = kept_s
        self._is_ours = is_ours
        self._eager_until_s = 0.0
        self._pause_s = poll_s
        self._look = asyncio.Event()
        self._busy: dict[bytes, Head] = {}

    def hint(self) -> None:
        """Look now, and often for some seconds: a transaction that writes to the outbox is about to be committed."""
        self._eager_until_s = self._clock.boot_s() + _EAGER_S
        self._pause_s = _EAGER_FIRST_S
        self._look.set()

    async def run(self) -> None:
        """Queue what comes for as long as the task lives. Being cut off at any point loses nothing."""
        # A hint that came before this listened is lost.
        self.hint()
        async with asyncio.TaskGroup() as queueing:
            await forever("outbox", lambda: self._step(queueing))

    async def _step(self, queueing: asyncio.TaskGroup) -> None:
        await self._pause()
        if not self._is_ours() or len(self._busy) >= _AT_A_TIME:
            return
        found = await waiting_heads(self._db, limit=_PAGE, where={"_id": {"$nin": list(self._busy)}})
        behind = {key for head in self._busy.values() for key in head.about}
        for head in found:
            if len(self._busy) >= _AT_A_TIME:
                return
            if behind.isdisjoint(head.about):
                self._busy[head.row_id] = head
                queueing.create_task(self._queue(head), name="ojak-outbox-row")
            behind |= head.about

    async def _queue(self, head: Head) -> None:
        try:
            await queue_head(self._db, head, kept_s=self._kept_s)
        except (StoreError, DatabaseTrouble) as error:
            # It still waits there, and so does what comes after it. Our own sentence quotes no document.
            reason = str(error) if isinstance(error, StoreError) else ""
            _log.warning("the outbox cannot be queued yet", extra={"error": type(error).__name__, "reason": reason})
            return
        finally:
            del self._busy[head.row_id]
        # There may be more, of which this was the head.
        self._look.set()

    async def _pause(self) -> None:
        """Wait until somebody hints, or for the next look."""
        eager = self._clock.boot_s() < self._eager_until_s
        try:
            async with asyncio.timeout(self._pause_s if eager else self._poll_s):
                await self._look.wait()
        except TimeoutError:
            pass
        self._look.clear()
        self._pause_s = min(self._pause_s * 1.5, _EAGER_SLOWEST_S)
