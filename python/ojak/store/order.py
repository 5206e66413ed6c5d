# SPDX-License-Identifier: Apache-2.0
"""Order: deliveries that share an order go one after another (DESIGN section 3, rule A).

At most one row of an order is queued, leased or set aside: a unique partial index holds that. The others are blocked.
Whoever writes an end promotes: the first unfinished row of the order, only if it is blocked, becomes queued, and its
host due. What is set aside for its sender or inbox is in that index too: so it keeps its place however often it comes
and goes, and nothing of its order gets past it.
A row that is inserted blocked is looked at after the insert, so that either its sender or the one who ended what it
waited for sees the other.

Every reader reads the blocked rows before the others. A row only moves from the first to the second,
so that it is seen at least once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from ojak.model.job import JobState, Priority
from ojak.store.database import Document, QueueDatabase
from ojak.store.hosts import Due, lower_due

LIVE: Final = (JobState.QUEUED.value, JobState.LEASED.value, JobState.ASIDE.value)
_BLOCKED: Final = JobState.BLOCKED.value
_AT_A_TIME: Final = 1000
_DUPLICATE_KEY: Final = 11000

LIVE_INDEX: Final = "order"
BLOCKED_INDEX: Final = "blocked"


async def orders_in_use(db: QueueDatabase, orders: Sequence[bytes]) -> set[bytes]:
    """Which of some orders have unfinished rows."""
    blocked = await _firsts(db, orders)
    return {*blocked, *await _live(db, [order for order in orders if order not in blocked])}


async def promote(db: QueueDatabase, orders: Iterable[bytes]) -> int:
    """Queue the first unfinished row of each order if it is blocked, and make its host due; gives how many.

    Callable by anybody at any time, as often as he likes: it changes nothing where something is queued or leased.
    """
    wanted = list(dict.fromkeys(orders))
    count = 0
    for start in range(0, len(wanted), _AT_A_TIME):
        count += await _promote(db, wanted[start : start + _AT_A_TIME])
    return count


async def _promote(db: QueueDatabase, orders: Sequence[bytes]) -> int:
    firsts = await _firsts(db, orders)
    if not firsts:
        return 0
    live = await _live(db, list(firsts))
    heads = [{"order": order, "seq": seq, "state": _BLOCKED} for order, seq in firsts.items() if order not in live]
    if not heads:
        return 0
    rows = await db.jobs.find({"$or": heads}, {"seq": 1, "lane": 1, "priority": 1}).to_list()
    count = await _make_queued(db, rows)
    # Also for those that somebody else promoted meanwhile: he may die before he has said so.
    await lower_due(db, [Due(authority=row["lane"], priority=Priority(row["priority"])) for row in rows])
    return count


async def _make_queued(db: QueueDatabase, rows: Sequence[Document]) -> int:
    if not rows:
        return 0
    # The seq too: a row that ended and was queued again since it was read stands behind others now.
    updates = [
        UpdateOne({"_id": row["_id"], "seq": row["seq"], "state": _BLOCKED}, {"$set": {"state": "queued"}})
        for row in rows
    ]
    try:
        result = await db.jobs.bulk_write(updates, ordered=False)
    except BulkWriteError as error:
        details: Mapping[str, Any] = error.details or {}
        if details.get("writeConcernErrors") or any(
            failure.get("code") != _DUPLICATE_KEY for failure in details.get("writeErrors", [])
        ):
            raise
        # Another of its order was queued at the same moment. That one's end promotes it.
        return int(details.get("nModified", 0))
    return result.modified_count


async def promote_idle(db: QueueDatabase, lanes: Sequence[str]) -> set[str]:
    """Promote in lanes where nothing is queued for now: whoever wrote an end may have died before he promoted.

    Gives the lanes where something waits behind another, promoted or not; all of them if there is too much to tell.
    """
    if not lanes:
        return set()
    blocked = (
        await db.jobs.find({"state": _BLOCKED, "lane": {"$in": list(lanes)}}, {"_id": 0, "lane": 1, "order": 1})
        .limit(_AT_A_TIME)
        .to_list()
    )
    await promote(db, [row["order"] for row in blocked if isinstance(row.get("order"), bytes)])
    return set(lanes) if len(blocked) == _AT_A_TIME else {row["lane"] for row in blocked}


async def mend_order(db: QueueDatabase) -> int:
    """Promote every blocked row that nothing stands before (the sweep); gives how many there were."""
    orders = await db.jobs.aggregate(
        [
            {"$match": {"state": _BLOCKED, "order": {"$exists": True}}},
            {"$group": {"_id": "$order"}},
        ],
        hint=BLOCKED_INDEX,
    )
    count = 0
    batch: list[bytes] = []
    async for row in orders:
        batch.append(row["_id"])
        if len(batch) == _AT_A_TIME:
            count += await promote(db, batch)
            batch.clear()
    return count + await promote(db, batch)


async def _firsts(db: QueueDatabase, orders: Sequence[bytes]) -> dict[bytes, Any]:
    """The seq of the first blocked row of each order that has one; read from the index alone."""
    if not orders:
        return {}
    groups = await db.jobs.aggregate(
        [
            {"$match": {"state": _BLOCKED, "order": {"$in": list(orders)}}},
            {"$group": {"_id": "$order", "seq": {"$min": "$seq"}}},
        ],
        hint=BLOCKED_INDEX,
    )
    return {row["_id"]: row["seq"] for row in await groups.to_list()}


async def _live(db: QueueDatabase, orders: Sequence[bytes]) -> set[bytes]:
    if not orders:
        return set()
    rows = db.jobs.find({"state": {"$in": LIVE}, "order": {"$in": list(orders)}}, {"_id": 0, "order": 1}).hint(
        LIVE_INDEX
    )
    return {row["order"] for row in await rows.to_list()}
