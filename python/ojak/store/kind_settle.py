# SPDX-License-Identifier: Apache-2.0
"""Settle of other kinds: outcomes become ends or retries, in batches, each matched by its id and its lease's stamp.

What no longer matches was taken by somebody else, and its outcome is dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymongo import UpdateOne

from ojak.model.kind_job import JobOutcome, KindJob
from ojak.store.database import Document, QueueDatabase
from ojak.store.hosts import Due, lower_due
from ojak.store.leaving import end_number, to_queue
from ojak.store.order import promote
from ojak.store.row import OF_DELIVERIES


@dataclass(frozen=True, slots=True, kw_only=True)
class KindEnded:
    """A job that is done with.

    Attributes:
        job: as it was leased.
        outcome: how it ended.
        spent: whether its last attempt counts.
        reason: why, or "".
        detail: what the handler said of it.
    """

    job: KindJob
    outcome: JobOutcome
    spent: bool
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRetried:
    """A job that goes back to the queue.

    Attributes:
        job: as it was leased.
        delay_s: when it may run again, from now.
        spent: whether the attempt counts.
        reason: why.
        detail: what the handler said of it.
    """

    job: KindJob
    delay_s: float
    spent: bool
    reason: str
    detail: str = ""


async def write_kind_outcomes(
    db: QueueDatabase, outcomes: Sequence[KindEnded | KindRetried], *, kept_s: float
) -> set[bytes]:
    """Write ends and retries in one statement, then say which lanes are due; gives the ids of those that were stored.

    A job that was cancelled meanwhile ends as cancelled instead of being retried.

    Args:
        db: the queue.
        outcomes: what came of leased jobs.
        kept_s: how long an ended row stays.
    """
    updates = [
        UpdateOne(
            {"_id": outcome.job.id, "state": "leased", "lease.stamp": outcome.job.stamp},
            _ending(db, outcome, kept_s) if isinstance(outcome, KindEnded) else _retrying(db, outcome),
        )
        for outcome in outcomes
    ]
    result = await db.jobs.bulk_write(updates, ordered=False)
    stored = {outcome.job.id for outcome in outcomes}
    if result.matched_count != len(stored):
        stored = await _showing(db, outcomes)
    written = [outcome for outcome in outcomes if outcome.job.id in stored]
    await lower_due(
        db,
        [
            Due(authority=outcome.job.lane, priority=outcome.job.priority, delay_s=outcome.delay_s)
            for outcome in written
            if isinstance(outcome, KindRetried)
        ],
    )
    # After the ends stand: whoever is queued behind one of them from now on sees it ended. Also of retries, which may
    # have ended as cancelled.
    await promote(db, [outcome.job.order for outcome in written if outcome.job.order is not None])
    return stored


def _ending(db: QueueDatabase, ended: KindEnded, kept_s: float) -> list[Document]:
    fields: Document = {
        "state": ended.outcome.value,
        "end": end_number(),
        "told": True,
        "finished_at": db.now.expr,
        "expire_at": db.now.plus(kept_s),
        "last": _last(ended),
        **_spending(ended),
    }
    return [{"$set": fields}, {"$unset": "lease"}]


def _retrying(db: QueueDatabase, retried: KindRetried) -> list[Document]:
    return to_queue(db, {"run_at": db.now.plus(retried.delay_s), "last": _last(retried), **_spending(retried)})


def _spending(outcome: KindEnded | KindRetried) -> Document:
    return {"tries": {"$add": ["$tries", 1]}} if outcome.spent else {}


def _last(outcome: KindEnded | KindRetried) -> Any:
    last: Document = {"reason": outcome.reason, "stamp": outcome.job.stamp}
    if outcome.detail:
        last["detail"] = outcome.detail
    # Taken as it is: a document that is set so replaces what stood there.
    return {"$literal": last}


UNTOLD_KINDS: Final[Document] = {"told": False, "kind": {"$nin": OF_DELIVERIES["kind"]["$in"]}}
"""What ended untold and is no delivery. By the index `untold_by_kind` that costs what it finds."""


async def let_ends_expire(db: QueueDatabase, *, kept_s: float) -> None:
    """Let ended jobs expire that were not ended by their worker: cancelled or parked ones. Nobody is to be told."""
    await db.jobs.update_many(UNTOLD_KINDS, [{"$set": {"told": True, "expire_at": db.now.plus(kept_s)}}])


async def _showing(db: QueueDatabase, outcomes: Sequence[KindEnded | KindRetried]) -> set[bytes]:
    """Which rows show a write made under their stamp; the others were taken before it."""
    branches = [
        {"_id": outcome.job.id, "last.stamp": outcome.job.stamp, "state": {"$ne": "leased"}} for outcome in outcomes
    ]
    return {row["_id"] async for row in db.jobs.find({"$or": branches}, {"_id": 1})}
