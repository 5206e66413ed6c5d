# SPDX-License-Identifier: Apache-2.0
"""Turns: work that one process at a time does for all, by a lease that ends by itself."""

from pymongo.errors import DuplicateKeyError

from ojak.store.database import QueueDatabase
from ojak.store.now import EPOCH


async def take_turn(db: QueueDatabase, name: str, *, holder: bytes, lease_s: float) -> bool:
    """Take a turn, or go on with it; False while somebody else has it.

    Args:
        db: the queue.
        name: of what; a row of the settings.
        holder: who asks.
        lease_s: how long it is his from now on, unless he asks again.
    """
    free = db.now.has_come("until")
    turn = [{"$set": {"holder": holder, "until": db.now.plus(lease_s)}}]
    for _ in range(2):
        result = await db.settings.update_one({"_id": name, "$or": [{"holder": holder}, free]}, turn)
        if result.matched_count:
            return True
        try:
            made = await db.settings.update_one({"_id": name}, {"$setOnInsert": {"until": EPOCH}}, upsert=True)
        except DuplicateKeyError:
            continue
        if made.upserted_id is None:
            return False
    return False


async def leave_turn(db: QueueDatabase, name: str, *, holder: bytes) -> None:
    """Give a turn back, if it is his."""
    await db.settings.update_one({"_id": name, "holder": holder}, {"$set": {"holder": None, "until": EPOCH}})
