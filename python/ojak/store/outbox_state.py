# SPDX-License-Identifier: Apache-2.0
"""What the rows of the outbox are in, and what of a batch or an activity still waits there."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bson import Timestamp

from ojak.store.database import Document, QueueDatabase

WAITING: Final = "waiting"
"""It is still to be queued."""
PARKED: Final = "parked"
"""It never can be; its reason stands beside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StillPending:
    """What of a batch or an activity is committed and not queued yet.

    Attributes:
        deliveries: how many.
        since: when the first of them was handed over, to the second.
        deadline: of the batch of that, or None.
    """

    deliveries: int
    since: datetime | None
    deadline: datetime | None


async def pending_of_batch(db: QueueDatabase, tag: str) -> StillPending:
    """What of a batch is in the outbox."""
    return await _pending_of(db, {"batch.tag": tag})


async def pending_of_activity(db: QueueDatabase, activity_id: str) -> StillPending:
    """What of an activity is in the outbox."""
    return await _pending_of(db, {"activity_id": activity_id})


async def _pending_of(db: QueueDatabase, where: Document) -> StillPending:
    # Rows of before the count was written have only the inboxes themselves.
    listed = {"$cond": [{"$isArray": "$inboxes"}, {"$size": "$inboxes"}, 0]}
    groups = await db.outbox.aggregate(
        [
            {"$match": {"state": WAITING, **where}},
            {"$sort": {"seq": 1}},
            {
                "$group": {
                    "_id": None,
                    "count": {"$sum": {"$cond": [{"$isNumber": "$count"}, "$count", listed]}},
                    "seq": {"$first": "$seq"},
                    "deadline": {"$first": "$batch.deadline"},
                }
            },
        ]
    )
    group: Document = next(iter(await groups.to_list()), {"count": 0})
    seq, deadline = group.get("seq"), group.get("deadline")
    return StillPending(
        deliveries=int(group["count"]),
        since=seq.as_datetime() if isinstance(seq, Timestamp) else None,
        deadline=deadline if isinstance(deadline, datetime) else None,
    )


async def parked_rows(db: QueueDatabase, activity_id: str) -> list[bytes]:
    """The rows of an activity that are parked: its deliveries that ended so are found by these."""
    rows = db.outbox.find({"state": PARKED, "activity_id": activity_id}, {"_id": 1})
    return [row["_id"] async for row in rows if isinstance(row["_id"], bytes)]
