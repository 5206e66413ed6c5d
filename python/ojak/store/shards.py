# SPDX-License-Identifier: Apache-2.0
"""Shards: which `run()` owns which, through leases with a fencing epoch that counts the owners (rule D)."""

import random
from collections.abc import Iterable
from typing import Final

from pymongo import UpdateOne

from ojak.shard import SHARDS
from ojak.store.breakers import release_probes
from ojak.store.database import QueueDatabase
from ojak.store.hosts import look_again
from ojak.store.kind_lanes import look_again_in
from ojak.store.now import EPOCH

DEAD_KEPT_S: Final = 7 * 86_400.0
"""How long the obituary of a worker can be read."""


async def seed_shards(db: QueueDatabase) -> None:
    """Make the rows of all shards, owned by nobody, where they are not there yet."""
    if await db.shards.count_documents({}) == SHARDS:
        return
    unowned = {"$setOnInsert": {"owner": None, "epoch": 0, "until": EPOCH}}
    await db.shards.bulk_write(
        [UpdateOne({"_id": shard}, unowned, upsert=True) for shard in range(SHARDS)], ordered=False
    )


async def join(db: QueueDatabase, owner: bytes, *, kept_s: float, about: str, kinds: Iterable[str] = ()) -> None:
    """Say that a `run()` lives, or that it still does; `about` names machine and process for people.

    `kinds` are the other kinds of job that it has handlers for.
    """
    await db.workers.update_one(
        {"_id": owner},
        [
            {
                "$set": {
                    "until": db.now.plus(kept_s),
                    "about": {"$literal": about},
                    "kinds": {"$literal": sorted(kinds)},
                    "since": {"$ifNull": ["$since", db.now.expr]},
                    "expire_at": db.now.plus(DEAD_KEPT_S),
                }
            }
        ],
        upsert=True,
    )


async def leave(db: QueueDatabase, owner: bytes) -> None:
    """Take back `join`, and let go of every shard."""
    await db.workers.delete_one({"_id": owner})
    await release(db, owner, range(SHARDS))


async def count_living(db: QueueDatabase) -> int:
    """How many `run()`s share the queue."""
    return await db.workers.count_documents(
        {"until": {"$gte": EPOCH}, "$expr": {"$gt": ["$until", db.now.expr]}, "dead": {"$ne": True}}
    )


async def owned(db: QueueDatabase, owner: bytes) -> dict[int, int]:
    """The epochs of the shards that `owner` holds."""
    rows = db.shards.find({"owner": owner}, {"epoch": 1})
    return {row["_id"]: row["epoch"] async for row in rows}


async def take(db: QueueDatabase, owner: bytes, *, count: int, lease_s: float) -> bool:
    """Take up to `count` shards whose lease has run out, each under its next epoch; `owned` tells which it were.

    Gives whether any were free: somebody else may have been faster, and there may be more.
    """
    free = [row["_id"] async for row in db.shards.find(db.now.has_come("until"), {"_id": 1})]
    if free:
        # Those that start together must not all reach for the same ones.
        wanted = random.sample(free, min(count, len(free)))
        await db.shards.update_many(
            {"_id": {"$in": wanted}, **db.now.has_come("until")},
            [
                {
                    "$set": {
                        "owner": owner,
                        "epoch": {"$add": ["$epoch", 1]},
                        "until": db.now.plus(lease_s),
                    }
                }
            ],
        )
    return bool(free)


async def release(db: QueueDatabase, owner: bytes, shards: Iterable[int]) -> None:
    """Let go of shards, for whoever takes them next."""
    await db.shards.update_many(
        {"_id": {"$in": list(shards)}, "owner": owner}, {"$set": {"owner": None, "until": EPOCH}}
    )


async def bury_owner(db: QueueDatabase, owner: bytes, *, begun: int, lease_s: float) -> None:
    """Write the obituary of a `run()`: its shards are free, and it had begun so many deliveries."""
    shards = list(await owned(db, owner))
    await look_again(db, {"shard": {"$in": shards}}, within_s=lease_s)
    await release_probes(db, {"shard": {"$in": shards}}, holder=owner)
    await look_again_in(db, {"taken_by": owner}, lease_s=lease_s)
    await release(db, owner, shards)
    await db.workers.update_one(
        {"_id": owner},
        [
            {
                "$set": {
                    "dead": True,
                    "died_at": db.now.expr,
                    "begun": begun,
                    "until": EPOCH,
                    "expire_at": db.now.plus(DEAD_KEPT_S),
                }
            }
        ],
        upsert=True,
    )


async def obituaries(db: QueueDatabase) -> list[int]:
    """How many deliveries each dead `run()` had begun and not yet stored."""
    return [row.get("begun", 0) async for row in db.workers.find({"dead": True}, {"begun": 1})]
