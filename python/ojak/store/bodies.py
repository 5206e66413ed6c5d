# SPDX-License-Identifier: Apache-2.0
"""Bodies: an activity's bytes, stored once and shared by all its deliveries."""

from collections.abc import Sequence
from typing import Final

from bson import Timestamp
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from ojak.config import DAY_S
from ojak.errors import InputError
from ojak.model.activity import Activity
from ojak.model.job import UNFINISHED
from ojak.store.database import QueueDatabase

_BEING_QUEUED_S: Final = 60.0
KEPT_BEYOND_S: Final = DAY_S
"""How much longer than its last delivery a body is kept, so that no row outlives what it points to."""


class ConflictingActivity(InputError):
    """The same activity id was handed over with other bytes, and deliveries of the first still wait."""


async def put_body(db: QueueDatabase, activity: Activity, *, sender: str, kept_s: float) -> Timestamp:
    """Store an activity's bytes, or put off the expiry of those that are there, before jobs need them.

    Args:
        db: the queue.
        activity: what to store.
        sender: who sends it.
        kept_s: how long a delivery queued now can need it.

    Returns:
        When it was handed over, by the database's rising timestamp: later than any row that stood before.

    Raises:
        ConflictingActivity: its id belongs to other bytes that are still being delivered.
    """
    # Left out where there is none: the indexes over them hold only what is there.
    named = {
        field: {"$literal": value}
        for field, value in (("object", activity.object_id), ("about", activity.order_key))
        if value is not None
    }
    while True:
        try:
            row = await db.bodies.find_one_and_update(
                {"_id": activity.key},
                [
                    {
                        "$set": {
                            "bytes": {"$ifNull": ["$bytes", {"$literal": activity.body}]},
                            "activity": {"$literal": activity.identity},
                            "type": {"$literal": activity.type},
                            # An application may relay the same bytes for several of its senders.
                            "senders": {"$setUnion": [{"$ifNull": ["$senders", []]}, {"$literal": [sender]}]},
                            "seq": "$$CLUSTER_TIME",
                            "unended": True,
                            "put_at": db.now.expr,
                            "waits_since": {"$ifNull": ["$waits_since", db.now.expr]},
                            "expire_at": {"$max": ["$expire_at", db.now.plus(kept_s + KEPT_BEYOND_S)]},
                            **named,
                        }
                    }
                ],
                {"seq": 1},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError as error:
            # Two upserts of one body at the same time collide on _id; only the other index tells of a conflict.
            if "activity" in (error.details or {}).get("keyPattern", {}):
                await _give_way(db, activity)
        else:
            seq = (row or {}).get("seq")
            assert isinstance(seq, Timestamp)
            return seq


async def is_alone(db: QueueDatabase, activity: Activity) -> bool:
    """Whether no other activity is known that is about the same: then nothing can be queued before this one."""
    other = {"about": activity.order_key, "_id": {"$ne": activity.key}}
    return activity.order_key is None or await db.bodies.find_one(other, {"_id": 1}) is None


async def _give_way(db: QueueDatabase, activity: Activity) -> None:
    """Let new bytes have an id whose earlier bytes are no longer being delivered anywhere."""
    earlier = await _earlier(db, activity)
    if earlier is None:
        return
    waiting = await db.jobs.find_one({"body": earlier, "state": {"$in": UNFINISHED}}, {"_id": 1})
    known = waiting or await db.jobs.find_one({"body": earlier}, {"_id": 1})
    just_put = await db.bodies.find_one(
        {"_id": earlier, "$expr": {"$gt": ["$put_at", db.now.plus(-_BEING_QUEUED_S)]}}, {"_id": 1}
    )
    # Without a row it may still be on its way into the queue: its sender stores the bytes first.
    if waiting is not None or (known is None and just_put is not None):
        raise _conflict(activity)
    await db.bodies.update_one({"_id": earlier}, {"$set": {"unended": False}})


async def check_conflict(db: QueueDatabase, activity: Activity) -> None:
    """See, without changing anything, that no other bytes of an activity's id are being delivered.

    Raises:
        ConflictingActivity: there are.
    """
    earlier = await _earlier(db, activity)
    if earlier is not None and await db.jobs.find_one({"body": earlier, "state": {"$in": UNFINISHED}}, {"_id": 1}):
        raise _conflict(activity)


async def _earlier(db: QueueDatabase, activity: Activity) -> bytes | None:
    """The key of the other bytes that have an activity's id now."""
    row = await db.bodies.find_one({"activity": activity.identity, "unended": True}, {"_id": 1})
    return None if row is None or row["_id"] == activity.key else bytes(row["_id"])


def _conflict(activity: Activity) -> ConflictingActivity:
    return ConflictingActivity(
        f"activity id {activity.identity!r} was handed over before with other bytes that are still being delivered;"
        " allowed is the same bytes, another id, or waiting until the first has ended everywhere"
    )


async def get_bodies(db: QueueDatabase, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """The bytes of bodies, by key; a key that is not there is left out."""
    found: dict[bytes, bytes] = {}
    async for row in db.bodies.find({"_id": {"$in": list(keys)}}, {"bytes": 1}):
        found[bytes(row["_id"])] = bytes(row["bytes"])
    return found


NEW_SEQ: Final = Timestamp(0, 0)
"""The server replaces it by its own rising timestamp when a row is inserted."""
