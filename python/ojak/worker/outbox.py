# SPDX-License-Identifier: Apache-2.0
"""The outbox of the applications' own transactions, emptied into the queue by the owner of shard 0."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from ojak.clock import Clock
from ojak.errors import StoreError
from ojak.store.database import QueueDatabase
from ojak.store.outbox_parked import park
from ojak.store.outbox_queue import queue_row
from ojak.store.outbox_rows import Head, Unreadable, count_newer, waiting_heads
from ojak.store.trouble import DRIVER_ERRORS
from ojak.worker.loops import forever
from ojak.worker.refused import RefusedRows

_log = logging.getLogger("ojak.worker.outbox")

_READ_MOST: Final = 5000
"""So many are read at a look, to find some that stand behind none that is being queued or was refused."""
_AT_A_TIME: Final = 8
_EAGER_S: Final = 10.0
"""For so long after somebody wrote to the outbox it is looked into often: nobody tells when a transaction commits."""
_EAGER_FIRST_S: Final = 0.02
_EAGER_SLOWEST_S: Final = 0.5
_NEWER_EVERY_S: Final = 60.0


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
        self._busy: dict[bytes, frozenset[str]] = {}
        self._refused = RefusedRows(clock, first_s=poll_s)
        self._newer_at_s = 0.0

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
        if not self._is_ours():
            return
        await self._look_for_newer()
        refused = self._refused.held()
        if len(self._busy) >= _AT_A_TIME or self._refused.is_full:
            return
        # Not among what is read, or many of them would leave no room for the rest; but nothing goes past them.
        without = {"_id": {"$nin": [*self._busy, *refused]}}
        behind = set().union(*self._busy.values(), *refused.values())
        async with aclosing(waiting_heads(self._db, most=_READ_MOST, where=without)) as heads:
            async for head in heads:
                if len(self._busy) >= _AT_A_TIME:
                    return
                await self._take(queueing, head, behind)

    async def _take(self, queueing: asyncio.TaskGroup, head: Head, behind: set[str]) -> None:
        """Begin to queue a row, unless it is behind something; what comes next is not to overtake it."""
        if type(head.row_id) is not bytes:
            # Nothing of ours, and nothing that can be kept in mind by its id.
            await park(self._db, Unreadable(row_id=head.row_id, reason=f"its id is a {type(head.row_id).__name__}"))
            return
        if behind.isdisjoint(head.about):
            self._busy[head.row_id] = head.about
            queueing.create_task(self._queue(head.row_id, head.about), name="ojak-outbox-row")
        behind |= head.about

    async def _queue(self, row_id: bytes, about: frozenset[str]) -> None:
        try:
            await queue_row(self._db, row_id, kept_s=self._kept_s)
        except (StoreError, *DRIVER_ERRORS) as error:
            # It still waits there, and so does what comes after it. Our own sentence quotes no document.
            again_in_s = self._refused.add(row_id, about, error)
            reason = str(error) if isinstance(error, StoreError) else ""
            _log.warning(
                "the outbox cannot be queued yet",
                extra={"error": type(error).__name__, "reason": reason, "again_in_s": again_in_s},
            )
            return
        finally:
            del self._busy[row_id]
        self._refused.forget(row_id)
        # There may be more, of which this was the head.
        self._look.set()

    async def _look_for_newer(self) -> None:
        """Say so, now and then, when what waits is for workers of a later version: perhaps none runs."""
        now_s = self._clock.boot_s()
        if now_s < self._newer_at_s:
            return
        self._newer_at_s = now_s + _NEWER_EVERY_S
        if newer := await count_newer(self._db):
            _log.warning("the outbox holds what only a later version can queue", extra={"waiting": newer})

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
