# SPDX-License-Identifier: Apache-2.0
"""Set aside, and let go again: what waits for a sender or an inbox that is held, one write each way.

A row that is set aside says behind which hold. It stays in the index that keeps one row of an order from another
(`order`), so that nothing gets past it. The hold stands before the row is written, and is looked at after it: had it
ended in between, whoever ended it may not have seen the row.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from ojak.model.hold import Hold
from ojak.model.job import Job, JobState, Priority
from ojak.model.outcome import SettledOutcome
from ojak.shard import shard_of
from ojak.store.database import Document, QueueDatabase
from ojak.store.give_up import end_waiting
from ojak.store.holds import holds_of, look_now, put_holds
from ojak.store.hosts import Due, lower_due
from ojak.store.leaving import leaving_for
from ojak.store.order import promote
from ojak.store.wakeups import wake

PAGE: Final = 1000
_ASIDE: Final = JobState.ASIDE.value


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A leased job that is to be set aside.

    Attributes:
        job: as it was leased.
        hold: what it waits for.
        stands: the hold stands already; else it is put first.
        spent: whether an attempt counts that it was found out by.
        status, reason, scheme: of that attempt.
    """

    job: Job
    hold: Hold
    stands: bool
    spent: bool = False
    status: int | None = None
    reason: str = ""
    scheme: str | None = None

    @property
    def maybe_delivered(self) -> bool:
        """Whether the inbox may have it although the attempt failed."""
        return False


async def write_asides(db: QueueDatabase, asides: Sequence[SetAside]) -> set[bytes]:
    """Set leased jobs aside; gives the ids of those that were stored. What was cancelled meanwhile ends instead."""
    if holds := {item.hold.id: item.hold for item in asides if not item.stands}:
        await put_holds(db, list(holds.values()))
    stored: set[bytes] = set()
    for _, group in groupby(sorted(asides, key=_likeness), key=_likeness):
        stored |= await _write_alike(db, list(group))
    await promote(db, [item.job.order for item in asides if item.job.order is not None and item.job.id in stored])
    await check_holds(db, {item.hold.id for item in asides})
    return stored


def _likeness(item: SetAside) -> tuple[bytes, bytes, bool, int, str, str]:
    return (item.hold.id, item.job.stamp, item.spent, item.status or 0, item.reason, item.scheme or "")


async def _write_alike(db: QueueDatabase, items: Sequence[SetAside]) -> set[bytes]:
    first = items[0]
    ids = [item.job.id for item in items]
    last = {"status": first.status, "reason": first.reason, "scheme": first.scheme, "stamp": first.job.stamp}
    fields: Document = {
        "behind": first.hold.id,
        "scout": "$$REMOVE",
        "tries": {"$add": ["$tries", int(first.spent)]},
        "last": {"$literal": last},
    }
    result = await db.jobs.update_many(
        {"_id": {"$in": ids}, "state": "leased", "lease.stamp": first.job.stamp}, leaving_for(db, _ASIDE, fields)
    )
    if result.matched_count == len(ids):
        return set(ids)
    shows = {"state": {"$in": [_ASIDE, SettledOutcome.CANCELLED.value]}, "last.stamp": first.job.stamp}
    return {row["_id"] async for row in db.jobs.find({"_id": {"$in": ids}, **shows}, {"_id": 1})}


async def set_aside_queued(db: QueueDatabase, rows: Mapping[bytes, Sequence[bytes]]) -> int:
    """Set queued rows aside that a claim met, given by their hold; gives how many. The holds stand."""
    count = 0
    for hold, ids in rows.items():
        result = await db.jobs.update_many(
            {"_id": {"$in": list(ids)}, "state": "queued"},
            [{"$set": {"state": _ASIDE, "behind": hold}}, {"$unset": "scout"}],
        )
        count += result.modified_count
    await check_holds(db, list(rows))
    return count


async def check_holds(db: QueueDatabase, ids: Collection[bytes]) -> None:
    """After rows were set aside behind holds: let go again what waits behind one that has ended meanwhile."""
    standing = await holds_of(db, ids)
    for hold in ids:
        row = standing.get(hold)
        if row is None or row.over:
            await let_go_all(db, hold)
    # What comes to an inbox that is gone ends: the releaser sees to it. Others may have had nothing behind them.
    if gone := [hold for hold, row in standing.items() if row.gone]:
        await look_now(db, gone)


async def let_go_all(db: QueueDatabase, hold: bytes) -> int:
    """Let go whatever waits behind a hold, page by page; gives how many rows."""
    count = 0
    while page := await let_go(db, hold, limit=PAGE):
        count += page
    return count


async def let_go(db: QueueDatabase, hold: bytes, *, limit: int, scout: bytes | None = None) -> int:
    """Queue again the first of what waits behind a hold, and make their hosts due; gives how many.

    Args:
        db: the queue.
        hold: the hold's id.
        limit: so many at most.
        scout: the mark of the hold, if they are to try whether it still holds.
    """
    behind = {"state": _ASIDE, "behind": hold}
    rows = await db.jobs.find(behind, {"lane": 1, "priority": 1}).sort("seq", 1).limit(limit).to_list()
    if not rows:
        return 0
    marked: Document = {} if scout is None else {"scout": scout}
    await db.jobs.update_many(
        {"_id": {"$in": [row["_id"] for row in rows]}, **behind},
        [{"$set": {"state": "queued", **marked}}, {"$unset": "behind"}],
    )
    await lower_due(db, [Due(authority=row["lane"], priority=Priority(row["priority"])) for row in rows])
    for priority in {row["priority"] for row in rows}:
        shards = {shard_of(row["lane"]) for row in rows if row["priority"] == priority}
        await wake(db, shards, small=priority == Priority.SMALL)
    return len(rows)


async def waits_behind(db: QueueDatabase, hold: bytes) -> bool:
    """Whether anything waits behind a hold."""
    return await db.jobs.find_one({"state": _ASIDE, "behind": hold}, {"_id": 1}) is not None


async def end_behind(db: QueueDatabase, hold: bytes, outcome: SettledOutcome) -> int:
    """End whatever waits behind a hold, page by page; gives how many."""
    behind = {"state": _ASIDE, "behind": hold}
    count = 0
    while rows := await db.jobs.find(behind, {"order": 1}).limit(PAGE).to_list():
        count += await end_waiting(db, rows, outcome, reason="inbox-gone", where=behind)
    return count


async def stray_holds(db: QueueDatabase) -> list[bytes]:
    """Holds that rows wait behind and that are over, gone or not there: what crashes left. Reads an entry a hold."""
    found = await db.jobs.distinct("behind", {"state": _ASIDE})
    # What is no id was written by somebody else, and is in nobody's way.
    behind = [hold for hold in found if isinstance(hold, bytes)]
    standing = await holds_of(db, behind)
    return [hold for hold in behind if (row := standing.get(hold)) is None or row.over or row.gone]
