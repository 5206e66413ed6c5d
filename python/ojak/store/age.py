# SPDX-License-Identifier: Apache-2.0
"""Age: what was handed over too long ago is given up on, whatever it waits for (SPEC section 2).

A claim finds what it meets. What nobody meets, since its host, sender or order is held, is found by its activity: a
body says since when deliveries of it may wait, and is looked at once that is long enough ago. So this reads the
deliveries of old activities, and never the queue.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pymongo import UpdateOne

from ojak.model.job import UNFINISHED, WAITING
from ojak.model.outcome import FailureReason
from ojak.store.database import Document, QueueDatabase
from ojak.store.give_up import end_waiting
from ojak.store.now import EPOCH

_BODIES_AT_A_TIME: Final = 100
_ROWS_AT_A_TIME: Final = 1000


async def end_too_old(db: QueueDatabase, *, max_age_s: float) -> int:
    """Give up on what waits and was handed over longer ago than `max_age_s`, without an attempt; gives how many.

    What is leased ends by its worker, and is found by the next call if it comes back.
    """
    count = 0
    bodies: list[Document] = []
    long_ago = {"$lte": ["$waits_since", db.now.plus(-max_age_s)]}
    fields = {"put_at": 1, "stays": {"$gt": ["$put_at", db.now.plus(-max_age_s)]}}
    async for body in db.bodies.find({"waits_since": {"$gte": EPOCH}, "$expr": long_ago}, fields):
        bodies.append(body)
        if len(bodies) == _BODIES_AT_A_TIME:
            count += await _end_of(db, bodies, max_age_s=max_age_s)
            bodies = []
    return count + await _end_of(db, bodies, max_age_s=max_age_s)


async def _end_of(db: QueueDatabase, bodies: Sequence[Document], *, max_age_s: float) -> int:
    if not bodies:
        return 0
    keys = [body["_id"] for body in bodies]
    too_old = {
        "body": {"$in": keys},
        "state": {"$in": list(WAITING)},
        "queued_at": {"$gte": EPOCH},
        "$expr": {"$lte": ["$queued_at", db.now.plus(-max_age_s)]},
    }
    count = 0
    page: list[Document] = []
    async for row in db.jobs.find(too_old, {"order": 1}):
        page.append(row)
        if len(page) == _ROWS_AT_A_TIME:
            count += await end_waiting(db, page, FailureReason.TOO_OLD, reason="too-old")
            page = []
    if page:
        count += await end_waiting(db, page, FailureReason.TOO_OLD, reason="too-old")
    groups = await db.jobs.aggregate(
        [
            {"$match": {"body": {"$in": keys}, "state": {"$in": list(UNFINISHED)}}},
            {"$group": {"_id": "$body", "since": {"$min": "$queued_at"}}},
        ]
    )
    left = {row["_id"]: row["since"] async for row in groups if isinstance(row["since"], datetime)}
    # If it was handed over again meanwhile, it is looked at again.
    updates = [UpdateOne({"_id": body["_id"], "put_at": body["put_at"]}, _looked_at(body, left)) for body in bodies]
    await db.bodies.bulk_write(updates, ordered=False)
    return count


def _looked_at(body: Document, left: dict[bytes, datetime]) -> Document:
    since = left.get(body["_id"])
    if since is None and body["stays"]:
        # It was handed over again, and its rows may not be there yet.
        since = body["put_at"]
    return {"$unset": {"waits_since": ""}} if since is None else {"$set": {"waits_since": since}}
