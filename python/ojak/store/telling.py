# SPDX-License-Identifier: Apache-2.0
"""Whether anybody wants to be told of ends: a setting of the queue, not of a process (rule E)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pymongo import ReturnDocument

from ojak.store.database import Document, QueueDatabase
from ojak.store.now import later
from ojak.store.row import OF_DELIVERIES

_TELLING: Final = "telling"
_CATCH_UP_S: Final = 600.0
"""For so long after telling was turned on, somebody may still write ends who had not heard of it when he leased."""
_SLACK_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TellingState:
    """Whether ends are kept until they were told, and since when."""

    on: bool
    since: datetime | None


async def telling_state(db: QueueDatabase) -> TellingState:
    """What the queue's setting says."""
    return _state(await db.settings.find_one({"_id": _TELLING}))


async def wants_telling(db: QueueDatabase) -> bool:
    """Whether ends are kept until they were told."""
    return (await telling_state(db)).on


async def set_telling(db: QueueDatabase, *, on: bool) -> bool:
    """Set whether ends are kept until they were told; whether that changed anything.

    A `run()` with callbacks turns it on; `ojak config clear` off.
    """
    since = {"$cond": [{"$eq": ["$on", on]}, {"$ifNull": ["$since", "$$REMOVE"]}, db.now.expr]}
    before = await db.settings.find_one_and_update(
        {"_id": _TELLING}, [{"$set": {"on": on, "since": since}}], upsert=True, return_document=ReturnDocument.BEFORE
    )
    return _state(before).on != on


def _state(row: Document | None) -> TellingState:
    since = (row or {}).get("since")
    return TellingState(on=bool(row and row.get("on")), since=since if isinstance(since, datetime) else None)


async def tell_nobody(db: QueueDatabase, *, kept_s: float) -> None:
    """Let ends expire that wait to be told though nobody wants to be: those of parked rows, or from before."""
    await db.jobs.update_many(
        {"told": False, **OF_DELIVERIES}, [{"$set": {"told": True, "expire_at": db.now.plus(kept_s)}}]
    )
    ended = {"$and": [{"$eq": ["$told", True]}, {"$gt": ["$finished_at", None]}]}
    await db.jobs.update_many(
        {"owed": {"$exists": True}, **OF_DELIVERIES},
        [
            {
                "$set": {
                    "owed": "$$REMOVE",
                    "expire_at": {"$cond": [ended, db.now.plus(kept_s), {"$ifNull": ["$expire_at", "$$REMOVE"]}]},
                }
            }
        ],
    )


async def catch_up(db: QueueDatabase, *, kept_s: float) -> int:
    """Have ends told that were written as if nobody wanted to know, after somebody had said that he does.

    Who writes an end may not have heard of it: he looks every few seconds, and may have been paused. What was told
    says when (`told_at`); what says nothing and ended since then was not. Looked for in the first ten minutes only.
    Gives how many there were.
    """
    since = (await telling_state(db)).since
    if since is None or (await db.server_time() - since).total_seconds() > _CATCH_UP_S:
        return 0
    result = await db.jobs.update_many(
        {
            # Nothing else is read than what ended about then: these are the ones that expire last.
            "expire_at": {"$gte": later(since, kept_s - _SLACK_S)},
            "finished_at": {"$gte": since},
            "told": True,
            "told_at": {"$exists": False},
            **OF_DELIVERIES,
        },
        [{"$set": {"told": False}}, {"$unset": "expire_at"}],
        hint="expiry",
    )
    return result.modified_count
