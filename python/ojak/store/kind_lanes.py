# SPDX-License-Identifier: Apache-2.0
"""Records of the lanes of other kinds of job: when each is due, and who is claiming from it (rule B).

They stand apart from the hosts: nothing holds them, no view of hosts shows them, and no claim of deliveries reads them.
Nor has a lane an owner: whoever owns a shard may have no handler for the kind (docs/jobs.md, "How they wait"). Instead
a claim takes a lane for as long as it hides it.
"""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ojak.model.job import Priority
from ojak.store.database import Document, QueueDatabase
from ojak.store.now import EPOCH, NEVER

_ASKS_START = 1 << 40


def lowering(db: QueueDatabase, delays_s: Mapping[Priority, float]) -> list[Document]:
    """The update that says that a lane has work of some priorities in so many seconds, if not earlier."""
    due: Document = {}
    for priority in Priority:
        held = {"$ifNull": [f"$due.{priority.value}", NEVER]}
        if priority in delays_s:
            due[str(priority.value)] = {"$min": [held, db.now.plus(delays_s[priority])]}
        else:
            due[str(priority.value)] = held
    asks = {"$add": [{"$ifNull": ["$asks", secrets.randbelow(_ASKS_START)]}, 1]}
    return [{"$set": {"due": due, "asks": asks}}]


async def ready_lanes(db: QueueDatabase, lanes: Sequence[str]) -> dict[str, datetime]:
    """Which of some lanes have work now, the one waiting for longest first, each with since when."""
    cursor = db.lanes.find({"_id": {"$in": list(lanes)}, "$expr": {"$or": _come(db)}}, {"due": 1})
    since = {row["_id"]: _earliest(row.get("due")) async for row in cursor}
    return dict(sorted(since.items(), key=lambda item: item[1]))


def _earliest(dues: object) -> datetime:
    # A record that somebody edited may hold anything beside the time by which it was found.
    moments = dues.values() if isinstance(dues, dict) else ()
    return min((moment for moment in moments if isinstance(moment, datetime)), default=EPOCH)


def _come(db: QueueDatabase) -> list[Document]:
    return [_has_come(db, priority) for priority in Priority]


def _has_come(db: QueueDatabase, priority: Priority) -> Document:
    due = f"$due.{priority.value}"
    return {"$and": [{"$gte": [due, EPOCH]}, {"$lte": [due, db.now.expr]}]}


async def take_lanes(
    db: QueueDatabase, lanes: Sequence[str], *, owner: bytes, stamp: bytes, lease_s: float
) -> dict[str, int]:
    """Hide lanes for one lease; gives those that this call hid, each with its `asks`.

    The count is read after the lane was hidden: whoever is in it has written his row, which is read after that.
    """
    hidden = {
        str(priority.value): {"$cond": [_has_come(db, priority), db.now.plus(lease_s), f"$due.{priority.value}"]}
        for priority in Priority
    }
    await db.lanes.update_many(
        {"_id": {"$in": list(lanes)}, "$expr": {"$or": _come(db)}},
        [{"$set": {"due": hidden, "taken": stamp, "taken_by": owner}}],
    )
    return {
        row["_id"]: row.get("asks", 0) async for row in db.lanes.find({"taken": stamp, "_id": {"$in": list(lanes)}})
    }


def showing(*, asks: int, stamp: bytes, dues: Mapping[Priority, Any]) -> list[Document]:
    """The update that writes when a claimed lane is due next, an expression a priority, and lets go of it.

    If somebody lowered `due` since the lane was read, the earlier of both stands.
    """
    due = {
        str(priority.value): {
            "$cond": [{"$eq": ["$asks", asks]}, expression, {"$min": [f"$due.{priority.value}", expression]}]
        }
        for priority, expression in dues.items()
    }
    return [
        {"$set": {"due": due, "taken": {"$cond": [{"$eq": ["$taken", stamp]}, None, "$taken"]}}},
    ]


async def look_again_in(db: QueueDatabase, lanes: Document, *, lease_s: float) -> None:
    """Make lanes due now that are due within a lease: a claim that died has hidden them for that long."""
    soonest = {
        str(priority.value): {
            "$cond": [
                {"$lte": [f"$due.{priority.value}", db.now.plus(lease_s)]},
                {"$min": [f"$due.{priority.value}", db.now.expr]},
                f"$due.{priority.value}",
            ]
        }
        for priority in Priority
    }
    await db.lanes.update_many(
        lanes, [{"$set": {"due": soonest, "asks": {"$add": ["$asks", 1]}, "taken": None, "taken_by": None}}]
    )


async def known_lanes(db: QueueDatabase) -> list[str]:
    """Every lane that ever had work: sixteen a kind at most."""
    return [row["_id"] async for row in db.lanes.find({}, {"_id": 1})]


async def dues_in(db: QueueDatabase, lanes: Sequence[str]) -> dict[str, Document]:
    """When each of some lanes is due, by priority."""
    rows = db.lanes.find({"_id": {"$in": list(lanes)}}, {"due": 1})
    return {row["_id"]: due async for row in rows if isinstance(due := row.get("due"), dict)}
