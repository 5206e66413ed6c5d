# SPDX-License-Identifier: Apache-2.0
"""Batches: their deadlines, and how far each is."""

from datetime import datetime, timedelta
from typing import Any, Final

from pymongo import DESCENDING, ReturnDocument
from pymongo.errors import DuplicateKeyError

from ojak.errors import InputError
from ojak.model.batch import Batch, BatchProgress, FailedDelivery, estimate_end
from ojak.model.job import UNFINISHED, WAITING
from ojak.model.outcome import FailureReason, SentState, SettledOutcome
from ojak.store.database import Document, QueueDatabase
from ojak.store.give_up import end_waiting
from ojak.store.outbox_state import pending_of_batch

_AT_A_TIME: Final = 1000
_KEPT_BEYOND_S: Final = 86_400.0
_LOOKED_AT_S: Final = 3600.0
"""For how long after its deadline a batch is looked at."""
_WAITING: Final = {"state": {"$in": list(WAITING)}}
FAILED: Final = tuple(
    [outcome.value for outcome in SettledOutcome if outcome is not SettledOutcome.DELIVERED]
    + [reason.value for reason in FailureReason]
)
"""Every end but the good one."""


class UnknownBatch(InputError):
    """No batch with that tag is known; names it."""


async def put_batch(db: QueueDatabase, batch: Batch, *, kept_s: float) -> datetime | None:
    """Note that deliveries of a batch are queued; gives its deadline, which the first send with its tag decided."""
    deadline: Any = "$$REMOVE"
    if isinstance(batch.deadline, timedelta):
        deadline = db.now.plus(batch.deadline.total_seconds())
    elif batch.deadline is not None:
        deadline = batch.deadline
    while True:
        try:
            row = await db.batches.find_one_and_update(
                {"_id": batch.tag},
                [
                    {
                        "$set": {
                            "deadline": {"$cond": ["$made_at", {"$ifNull": ["$deadline", "$$REMOVE"]}, deadline]},
                            "made_at": {"$ifNull": ["$made_at", db.now.expr]},
                            "open": True,
                            "sends": {"$add": [{"$ifNull": ["$sends", 0]}, 1]},
                            "expire_at": {"$max": ["$expire_at", db.now.plus(kept_s + _KEPT_BEYOND_S)]},
                        }
                    }
                ],
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:
            # Two first sends at once: the second one finds it.
            continue
        found = (row or {}).get("deadline")
        return found if isinstance(found, datetime) else None


async def end_past_deadlines(db: QueueDatabase) -> int:
    """Give up on what waits beyond its batch's deadline, held or not, without an attempt; gives how many.

    What is leased ends by its worker, and is found by the next call if it comes back.
    """
    count = 0
    long_over = {"$lte": ["$deadline", db.now.plus(-_LOOKED_AT_S)]}
    over = await db.batches.find(
        {"open": True, **db.now.has_come("deadline")}, {"sends": 1, "long_over": long_over}
    ).to_list()
    for batch in over:
        waiting = {"batch": batch["_id"], **_WAITING, **db.now.has_come("give_up_at")}
        while rows := await db.jobs.find(waiting, {"order": 1}).limit(_AT_A_TIME).to_list():
            count += await end_waiting(db, rows, FailureReason.PAST_DEADLINE, reason="past-deadline")
        # Not at once: a send may have noted the batch and not yet inserted its rows. A later one opens it again.
        if batch["long_over"]:
            await db.batches.update_one({"_id": batch["_id"], "sends": batch["sends"]}, {"$set": {"open": False}})
    return count


async def progress_of(db: QueueDatabase, tag: str, *, failures: int) -> BatchProgress:
    """How far a batch is. What is in the outbox counts as pending.

    Raises:
        UnknownBatch: none has this tag, or it is not kept any more.
    """
    # The outbox first: what leaves it meanwhile is found in the queue.
    pending = await pending_of_batch(db, tag)
    batch = await db.batches.find_one({"_id": tag})
    groups = await db.jobs.aggregate(
        [
            {"$match": {"batch": tag}},
            {
                "$group": {
                    "_id": "$state",
                    "count": {"$sum": 1},
                    "first": {"$min": "$queued_at"},
                    "last": {"$max": "$run_at"},
                }
            },
        ]
    )
    counts: dict[str, int] = {}
    last_try: datetime | None = None
    began_at = pending.since
    async for group in groups:
        counts[str(group["_id"])] = group["count"]
        if group["_id"] == "queued" and isinstance(group["last"], datetime):
            last_try = group["last"]
        if isinstance(group["first"], datetime) and (began_at is None or group["first"] < began_at):
            began_at = group["first"]
    if pending.deliveries:
        counts[SentState.PENDING.value] = pending.deliveries
    if batch is not None:
        began_at = batch["made_at"]
    elif not counts:
        raise UnknownBatch(f"batch {tag!r} is not known; they are kept as long as their deliveries")
    now = await db.server_time()
    # Noted by the first send that is queued: until then what that one says holds.
    deadline = pending.deadline if batch is None else batch.get("deadline")
    rows = db.jobs.find({"batch": tag, "state": {"$in": FAILED}}).sort("finished_at", DESCENDING).limit(failures)
    failed = tuple([_failed(row) async for row in rows]) if failures else ()
    unfinished = sum(counts.get(state, 0) for state in UNFINISHED) + pending.deliveries
    return BatchProgress(
        tag=tag,
        counts=counts,
        began_at=began_at or now,
        deadline=deadline,
        ends_at=estimate_end(
            now=now,
            began_at=began_at or now,
            ended=sum(counts.values()) - unfinished,
            unfinished=unfinished,
            last_try=last_try,
            deadline=deadline,
        ),
        failures=failed,
    )


def _failed(row: Document) -> FailedDelivery:
    last = row.get("last") or {}
    return FailedDelivery(
        activity_id=str(row.get("activity", "")),
        inbox=str(row.get("inbox", "")),
        outcome=row["state"],
        status=last.get("status"),
        reason=str(last.get("reason") or ""),
    )
