# SPDX-License-Identifier: Apache-2.0
"""Enqueue of other kinds: one job becomes a row, once under its key, and its lane becomes due."""

import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from ojak.model.job import UNFINISHED, JobState, Priority
from ojak.model.kind import lane_of
from ojak.model.kind_job import STANDING, JobOutcome, QueuedJob, delay_of, kind_job_id
from ojak.model.order import order_of
from ojak.model.outcome import SentState
from ojak.store.bodies import NEW_SEQ
from ojak.store.database import Document, QueueDatabase
from ojak.store.hosts import Due, lower_due
from ojak.store.insert import insert_new
from ojak.store.order import orders_in_use, promote
from ojak.store.revival import revival

_BLOCKED: Final = JobState.BLOCKED.value
_SAID_ANEW: Final = ("payload", "key")
_UNCONFIRMED: Final = (
    "MongoDB did not confirm the job by a majority; whether it was queued is unknown: hand it over again,"
    " which queues nothing twice if it has a key"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKindJob:
    """A job to queue, checked.

    Attributes:
        kind: its kind.
        payload: its bytes.
        key: what it is deduplicated by; None: by nothing.
        priority: the line it stands in.
        run_at, delay_s: when it may run; one of them at most.
        order_key: what it is ordered by, or None.
    """

    kind: str
    payload: bytes
    key: str | None
    priority: Priority
    run_at: Any
    delay_s: Any
    order_key: str | None


async def enqueue_job(db: QueueDatabase, job: NewKindJob) -> QueuedJob:
    """Queue a job. A repetition after an error is safe if it has a key.

    Raises:
        InputError: `run_at` or `delay_s` is not usable.
        QueueUnavailable: the majority did not confirm. Whether it was written is unknown.
    """
    row, delay_s = await _row(db, job)
    found = await _insert(db, row)
    answer = QueuedJob(id=row["_id"].hex(), kind=job.kind, state=SentState.NEW)
    if found is not None:
        state = found["state"]
        if state in STANDING:
            return QueuedJob(id=answer.id, kind=job.kind, state=SentState.ENDED, outcome=JobOutcome(state))
        answer = QueuedJob(id=answer.id, kind=job.kind, state=SentState.DUPLICATE)
        # As it stands: whoever queued it may have died before he said so.
        row = {**row, **found}
        delay_s = 0.0
    if row["state"] != _BLOCKED:
        await lower_due(db, [Due(authority=row["lane"], priority=Priority(row["priority"]), delay_s=delay_s)])
    elif "order" in row:
        await promote(db, [row["order"]])
    return answer


async def _row(db: QueueDatabase, job: NewKindJob) -> tuple[Document, float]:
    now = await db.server_time()
    delay_s = delay_of(run_at=job.run_at, delay_s=job.delay_s, now=now)
    row_id = secrets.token_bytes(16) if job.key is None else kind_job_id(job.kind, job.key)
    # Jobs of an order share a lane, as deliveries of an order share a host.
    order = order_of(job.order_key, f"\0{job.kind}") if job.order_key is not None else None
    lane = lane_of(job.kind, order or row_id)
    row: Document = {
        "_id": row_id,
        "seq": NEW_SEQ,
        "kind": job.kind,
        "dest": lane,
        "lane": lane,
        "priority": job.priority.value,
        "run_at": now + timedelta(seconds=delay_s),
        "queued_at": now,
        "state": "queued",
        "tries": 0,
        "deaths": 0,
        "leases": 0,
        "payload": job.payload,
    }
    if job.key is not None:
        row["key"] = job.key
    if order is not None:
        row["order"] = order
        if await orders_in_use(db, [order]):
            row["state"] = _BLOCKED
    return row, delay_s


async def _insert(db: QueueDatabase, row: Document) -> Document | None:
    """Insert a row, blocked if another of its order is queued or leased; gives what stands under its id instead."""
    while True:
        taken = await _insert_new(db, row)
        if taken is None:
            return None
        if taken == "order":
            row["state"] = _BLOCKED
            continue
        found = await db.jobs.find_one({"_id": row["_id"]}, {"state": 1, "order": 1, "lane": 1, "priority": 1})
        if found is None:
            # It had ended and expired between the two statements: there is nothing to be a duplicate of.
            continue
        if found["state"] in UNFINISHED or found["state"] in STANDING:
            return found
        if await _revive(db, row, found["state"]):
            if "order" in row:
                row["state"] = _BLOCKED
            return None


async def _insert_new(db: QueueDatabase, row: Document) -> str | None:
    """Insert a row; gives what was taken if it could not be: its `_id`, or its `order`."""
    taken, behind = await insert_new(db, [row], unconfirmed=_UNCONFIRMED)
    return "_id" if taken else "order" if behind else None


async def _revive(db: QueueDatabase, row: Document, state: str) -> bool:
    """Queue a row again that ended in a way after which its key counts anew; False if it is not as it was read."""
    update, unset = revival(db, row)
    # Nobody is told of ends of these kinds.
    del update["$set"]["owed"]
    update["$set"] |= {name: {"$literal": row[name]} for name in _SAID_ANEW if name in row}
    update["$set"] |= {"run_at": {"$literal": row["run_at"]}, "lane": row["lane"], "dest": row["lane"]}
    result = await db.jobs.update_one({"_id": row["_id"], "state": state}, [update, unset])
    return result.modified_count == 1
