# SPDX-License-Identifier: Apache-2.0
"""Enqueue: one activity's deliveries become rows, each once, and their hosts become due."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymongo import InsertOne, UpdateOne
from pymongo.errors import BulkWriteError

from ojak.errors import QueueUnavailable
from ojak.model.job import UNFINISHED, Priority, job_id
from ojak.model.outcome import SentState, SettledOutcome
from ojak.store.bodies import NEW_SEQ
from ojak.store.database import Document, QueueDatabase
from ojak.store.hosts import Due, lower_due

FIRST_CHUNK: Final = 50
"""The first rows go in alone, so that sending starts while the rest is still being written."""
CHUNK: Final = 1000

_DUPLICATE_KEY: Final = 11000
_ENDS_THAT_STAND: Final = frozenset({SettledOutcome.DELIVERED, SettledOutcome.REFUSED})
"""Ends after which a new send queues nothing: the inbox has it, or refused it for good (SPEC section 2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A delivery to queue: a canonical inbox and what the application said of it."""

    authority: str
    inbox: str
    shared: bool
    ref: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """What became of one delivery: its state, and how it had ended if it had."""

    state: SentState
    outcome: SettledOutcome | None = None


async def enqueue(
    db: QueueDatabase,
    jobs: Sequence[NewJob],
    *,
    activity_identity: str,
    body: bytes,
    sender: str,
    priority: Priority,
) -> AsyncIterator[tuple[Sequence[NewJob], Sequence[Enqueued]]]:
    """Queue deliveries in chunks; after each yield the chunk's rows stand and their hosts are due.

    A repetition after an error is safe: every row's id comes from activity and inbox.

    Raises:
        QueueUnavailable: the majority did not confirm. What was written is unknown; repeat the call.
    """
    start = 0
    while start < len(jobs):
        chunk = jobs[start : start + (CHUNK if start else FIRST_CHUNK)]
        start += len(chunk)
        rows = await _rows(db, chunk, activity_identity=activity_identity, body=body, sender=sender, priority=priority)
        taken = await _insert(db, rows)
        answers = await _answers(db, rows, taken, body=body, priority=priority)
        # After the rows, and also for those that stood already: whoever queued them may have died before this step.
        await lower_due(
            db,
            [
                Due(authority=job.authority, priority=priority)
                for job, answer in zip(chunk, answers, strict=True)
                if answer.state is not SentState.ENDED
            ],
        )
        yield chunk, answers


async def _rows(
    db: QueueDatabase,
    chunk: Sequence[NewJob],
    *,
    activity_identity: str,
    body: bytes,
    sender: str,
    priority: Priority,
) -> list[Document]:
    now = await db.server_time()
    key = body
    return [
        {
            "_id": job_id(activity_identity, job.inbox),
            "seq": NEW_SEQ,
            "kind": "delivery",
            "dest": job.authority,
            "lane": job.authority,
            "priority": priority.value,
            "run_at": now,
            "queued_at": now,
            "state": "queued",
            "tries": 0,
            "deaths": 0,
            "leases": 0,
            "body": key,
            "activity": activity_identity,
            "inbox": job.inbox,
            "shared": job.shared,
            "ref": job.ref,
            "sender": sender,
        }
        for job in chunk
    ]


async def _insert(db: QueueDatabase, rows: Sequence[Document]) -> set[int]:
    """Insert rows; gives the places of those whose id was taken."""
    try:
        await db.jobs.bulk_write([InsertOne(row) for row in rows], ordered=False)
    except BulkWriteError as error:
        details: Mapping[str, Any] = error.details or {}
        failures = details.get("writeErrors", [])
        # insert_one would hide a majority that never confirmed behind "duplicate": here both show.
        if details.get("writeConcernErrors") or any(
            failure.get("code") != _DUPLICATE_KEY or "_id" not in failure.get("keyPattern", {}) for failure in failures
        ):
            raise QueueUnavailable(
                "MongoDB did not confirm the deliveries by a majority; what was queued is unknown: send again,"
                " which queues nothing twice"
            ) from error
        return {failure["index"] for failure in failures}
    return set()


async def _answers(
    db: QueueDatabase, rows: Sequence[Document], taken: set[int], *, body: bytes, priority: Priority
) -> list[Enqueued]:
    answers = [Enqueued(state=SentState.NEW)] * len(rows)
    if not taken:
        return answers
    ids = [rows[place]["_id"] for place in taken]
    states = {row["_id"]: row["state"] async for row in db.jobs.find({"_id": {"$in": ids}}, {"state": 1})}
    revived = await _revive(
        db,
        {
            row_id: state
            for row_id, state in states.items()
            if state not in UNFINISHED and state not in _ENDS_THAT_STAND
        },
        body=body,
        priority=priority,
    )
    for place in taken:
        row_id = rows[place]["_id"]
        state = states.get(row_id)
        if state in _ENDS_THAT_STAND:
            answers[place] = Enqueued(state=SentState.ENDED, outcome=SettledOutcome(state))
        elif row_id not in revived:
            answers[place] = Enqueued(state=SentState.DUPLICATE)
    return answers


async def _revive(db: QueueDatabase, ended: dict[bytes, str], *, body: bytes, priority: Priority) -> set[bytes]:
    """Queue rows again that ended in a way after which a new send counts; gives the ids that this call revived.

    An end that was not told yet moves to `owed`, so that it is told all the same (rule E).
    """
    if not ended:
        return set()
    updates = [
        UpdateOne(
            {"_id": row_id, "state": state},
            [
                {
                    "$set": {
                        "owed": {
                            "$cond": [
                                {"$eq": ["$told", False]},
                                {
                                    "$concatArrays": [
                                        {"$ifNull": ["$owed", []]},
                                        [
                                            {
                                                "end": "$end",
                                                "state": "$state",
                                                "finished_at": "$finished_at",
                                                "tries": "$tries",
                                                "last": "$last",
                                            }
                                        ],
                                    ]
                                },
                                {"$ifNull": ["$owed", "$$REMOVE"]},
                            ]
                        },
                        "state": "queued",
                        "priority": priority.value,
                        "seq": "$$CLUSTER_TIME",
                        "run_at": db.now.expr,
                        "queued_at": db.now.expr,
                        "body": body,
                        "tries": 0,
                        "deaths": 0,
                        "leases": 0,
                        "revived_from": "$end",
                    }
                },
                {"$unset": ["told", "finished_at", "expire_at", "lease", "gone_at"]},
            ],
        )
        for row_id, state in ended.items()
    ]
    await db.jobs.bulk_write(updates, ordered=False)
    # A bulk answers only counts: whoever finds the row waiting reads it as a duplicate, which is as true.
    return {
        bytes(row["_id"])
        async for row in db.jobs.find({"_id": {"$in": list(ended)}, "state": {"$in": UNFINISHED}}, {"_id": 1})
    }
