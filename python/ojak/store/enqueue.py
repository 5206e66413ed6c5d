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
_SAID_ANEW: Final = ("priority", "body", "sender", "ref", "shared", "tries", "deaths", "leases")
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
        answers = await _insert(db, rows)
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


async def _insert(db: QueueDatabase, rows: Sequence[Document]) -> list[Enqueued]:
    """Insert rows, and say of those whose id was taken what they are a duplicate of."""
    answers = [Enqueued(state=SentState.NEW)] * len(rows)
    places = await _insert_new(db, rows, range(len(rows)))
    while places:
        missing: list[int] = []
        ids = [rows[place]["_id"] for place in places]
        states = {row["_id"]: row["state"] async for row in db.jobs.find({"_id": {"$in": ids}}, {"state": 1})}
        revived = await _revive(db, [rows[place] for place in places], states)
        for place in places:
            state = states.get(rows[place]["_id"])
            if state is None:
                # It had ended and expired between the two statements: there is nothing to be a duplicate of.
                missing.append(place)
            elif state in _ENDS_THAT_STAND:
                answers[place] = Enqueued(state=SentState.ENDED, outcome=SettledOutcome(state))
            elif rows[place]["_id"] not in revived:
                answers[place] = Enqueued(state=SentState.DUPLICATE)
        places = await _insert_new(db, rows, missing)
    return answers


async def _insert_new(db: QueueDatabase, rows: Sequence[Document], places: Sequence[int]) -> list[int]:
    """Insert the rows at `places`; gives the places of those whose id was taken."""
    if not places:
        return []
    try:
        await db.jobs.bulk_write([InsertOne(rows[place]) for place in places], ordered=False)
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
        return [places[failure["index"]] for failure in failures]
    return []


async def _revive(db: QueueDatabase, rows: Sequence[Document], states: Mapping[bytes, str]) -> set[bytes]:
    """Queue rows again that ended in a way after which a new send counts; gives the ids that this call revived.

    They become what the new send says of them. An end that was not told yet moves to `owed`, so that it is told all the
    same (rule E).

    Args:
        db: the queue.
        rows: as the new send would have inserted them.
        states: what stands under their ids.
    """
    ended = {
        row["_id"]: row
        for row in rows
        if (state := states.get(row["_id"])) is not None and state not in UNFINISHED and state not in _ENDS_THAT_STAND
    }
    if not ended:
        return set()
    updates = [
        UpdateOne(
            {"_id": row_id, "state": states[row_id]},
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
                        "seq": "$$CLUSTER_TIME",
                        "run_at": db.now.expr,
                        "queued_at": db.now.expr,
                        **{name: {"$literal": row[name]} for name in _SAID_ANEW},
                    }
                },
                {"$unset": ["told", "finished_at", "expire_at", "lease", "last"]},
            ],
        )
        for row_id, row in ended.items()
    ]
    await db.jobs.bulk_write(updates, ordered=False)
    # A bulk answers only counts: whoever finds the row waiting reads it as a duplicate, which is as true.
    return {
        bytes(row["_id"])
        async for row in db.jobs.find({"_id": {"$in": list(ended)}, "state": {"$in": UNFINISHED}}, {"_id": 1})
    }
