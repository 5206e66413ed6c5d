# SPDX-License-Identifier: Apache-2.0
"""Reap: leases that ended without an outcome go back to the queue, by time or by an obituary.

A job whose worker died while it ran is counted as a death and parked after too many; one that was only leased is not.
"""

from collections.abc import Sequence
from typing import Any

from ojak.model.outcome import FailureReason, SettledOutcome
from ojak.store.database import Document, QueueDatabase
from ojak.store.hosts import dues_of, lower_due
from ojak.store.leaving import FLAGGED, end_number, to_queue
from ojak.store.order import promote


async def reap_expired(db: QueueDatabase, *, max_deaths: int) -> int:
    """Return every job whose lease has run out; gives how many.

    Nobody said what of it had begun, so each counts as a death.
    """
    expired = {"state": "leased", **db.now.has_come("lease.until")}
    return await _return(db, expired, died=True, max_deaths=max_deaths)


async def bury(db: QueueDatabase, owner: bytes, begun: Sequence[bytes], *, max_deaths: int) -> int:
    """End the leases of a `run()` that is known to be dead; gives how many.

    Args:
        db: the queue.
        owner: its stamp.
        begun: the ids of the deliveries that it had begun and not yet stored.
        max_deaths: after how many deaths a job is parked.
    """
    leases: Document = {"state": "leased", "lease.by": owner}
    ids = list(begun)
    count = await _return(db, {**leases, "_id": {"$in": ids}}, died=True, max_deaths=max_deaths)
    return count + await _return(db, {**leases, "_id": {"$nin": ids}}, died=False, max_deaths=max_deaths)


async def _return(db: QueueDatabase, leases: Document, *, died: bool, max_deaths: int) -> int:
    # Read before the write, told after it: a crash in between is mended by the lane's own `due`, which lies no later
    # than the end of every lease in it.
    dues = await dues_of(db, leases)
    if not dues:
        return 0
    pipeline = _after_death(db, max_deaths) if died else to_queue(db, {"run_at": db.now.expr})
    orders = [row["order"] async for row in db.jobs.find({**leases, "order": {"$exists": True}}, {"order": 1})]
    result = await db.jobs.update_many(leases, pipeline)
    await lower_due(db, dues)
    # Of those that were parked, or cancelled.
    await promote(db, orders)
    return result.modified_count


def _after_death(db: QueueDatabase, max_deaths: int) -> list[Document]:
    """Queue a job again, one death more, or park it, or end it if it was cancelled."""

    def if_parked(value: Any, otherwise: Any) -> Document:
        return {"$cond": [{"$gte": ["$deaths", max_deaths]}, value, otherwise]}

    def kept(field: str) -> Document:
        return {"$ifNull": [f"${field}", "$$REMOVE"]}

    def if_cancelled(value: Any, otherwise: Any) -> Document:
        return {"$cond": [FLAGGED, value, otherwise]}

    def if_ended(value: Any, otherwise: Any) -> Document:
        return if_cancelled(value, if_parked(value, otherwise))

    return [
        {"$set": {"deaths": {"$add": ["$deaths", 1]}}},
        {
            "$set": {
                "state": if_cancelled(SettledOutcome.CANCELLED.value, if_parked(FailureReason.PARKED.value, "queued")),
                "run_at": if_ended("$run_at", db.now.expr),
                "end": if_ended(end_number(), kept("end")),
                "told": if_ended(False, kept("told")),
                "finished_at": if_ended(db.now.expr, kept("finished_at")),
                "last.reason": if_cancelled(kept("last.reason"), if_parked("crashed-workers", kept("last.reason"))),
            }
        },
        {"$unset": "lease"},
    ]
