# SPDX-License-Identifier: Apache-2.0
"""`QueueFill`: how full the queue is, estimated so rarely that a send pays nothing for it (SPEC section 2)."""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from ojak.clock import Clock
from ojak.errors import StoreError
from ojak.model.job import UNFINISHED
from ojak.store.database import QueueDatabase
from ojak.store.lane import LANE_INDEX

_LOOK_EVERY_S: Final = 5.0
_COUNT_SHARE: Final = 20.0
"""A count that took a second is not made again for so many: it costs a twentieth of one core at most."""
_COUNTING_S: Final = 60.0
"""For so long nobody else counts while one does, or died of it."""
_COUNT: Final = "queued"


class QueueFull(StoreError):
    """So many deliveries wait that no more are taken. Nothing was queued.

    Attributes:
        queued: about how many wait.
        allowed: how many may.
    """

    def __init__(self, *, queued: int, wanted: int, allowed: int) -> None:
        super().__init__(
            f"the queue holds about {queued} deliveries and {wanted} more were handed over; allowed are {allowed} in"
            " all (max_queued): send again when there is room"
        )
        self.queued = queued
        self.allowed = allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class FillEstimate:
    """How full the queue is: no more deliveries than this wait, and whether that is a count or only a bound."""

    at_most: int
    counted: bool


class QueueFill:
    """How many deliveries wait, as one process that sends sees it.

    Looked at every 5 s at most, by whoever sends then. While all rows together, ended ones included, are no more than
    may wait, that is one look at the collection's own count. Beyond, the unfinished ones are counted in the index that
    holds them alone; once for all processes, and the less often the longer it takes. What this process queues in
    between is added.

    Args:
        db: the queue.
        clock: for when to look again.
        most: how many may wait.
    """

    def __init__(self, db: QueueDatabase, clock: Clock, *, most: int) -> None:
        self._db = db
        self._clock = clock
        self._most = most
        self._estimate = FillEstimate(at_most=0, counted=False)
        self._look_at_s: float | None = None
        self._looking = asyncio.Lock()

    async def check_room(self, wanted: int) -> None:
        """Let a send of so many deliveries go on, if there is room for it.

        Raises:
            QueueFull: there is none.
        """
        if self._is_due(wanted):
            async with self._looking:
                if self._is_due(wanted):
                    self._estimate = await estimate_fill(self._db, below=self._most - wanted)
                    self._look_at_s = self._clock.boot_s() + _LOOK_EVERY_S
        if not self._has_room(wanted):
            raise QueueFull(queued=self._estimate.at_most, wanted=wanted, allowed=self._most)

    def queued(self, count: int) -> None:
        """Take note of what this process queued."""
        self._estimate = replace(self._estimate, at_most=self._estimate.at_most + count)

    def _has_room(self, wanted: int) -> bool:
        return self._estimate.at_most + wanted <= self._most

    def _is_due(self, wanted: int) -> bool:
        if self._look_at_s is None or self._clock.boot_s() >= self._look_at_s:
            return True
        # Of all rows together it is not known how many wait.
        return not self._estimate.counted and not self._has_room(wanted)


async def estimate_fill(db: QueueDatabase, *, below: int) -> FillEstimate:
    """About how many deliveries are unfinished; while all rows are no more than `below`, how many rows there are.

    What is in the outbox counts too, a send as one: where no worker runs it would grow without an end.
    """
    outbox = await db.outbox.estimated_document_count()
    rows = outbox + await db.jobs.estimated_document_count()
    if rows <= below:
        return FillEstimate(at_most=rows, counted=False)
    return FillEstimate(at_most=outbox + await _shared_count(db), counted=True)


async def _shared_count(db: QueueDatabase) -> int:
    """The last count of any process, or a new one if that is old enough."""
    due = {"_id": _COUNT, **db.now.has_come("again_at")}
    if await db.settings.find_one_and_update(due, [{"$set": {"again_at": db.now.plus(_COUNTING_S)}}]) is None:
        row = await db.settings.find_one({"_id": _COUNT})
        if row is not None and isinstance(row.get("count"), int):
            return int(row["count"])
        # The first count of all, which others may be making at this moment too.
    began = await db.server_clock()
    count = await count_unfinished(db)
    took_s = (await db.server_clock() - began).total_seconds()
    again_s = max(_LOOK_EVERY_S, took_s * _COUNT_SHARE)
    await db.settings.update_one(
        {"_id": _COUNT}, [{"$set": {"count": count, "again_at": db.now.plus(again_s)}}], upsert=True
    )
    return count


async def count_unfinished(db: QueueDatabase) -> int:
    """How many deliveries are unfinished: one run over the index of the lanes, which holds no others."""
    count = 0
    for state in UNFINISHED:
        count += await db.jobs.count_documents({"state": state}, hint=LANE_INDEX)
    return count
