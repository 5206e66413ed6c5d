# SPDX-License-Identifier: Apache-2.0
"""Ends that somebody wants to be told of (rule E): each is told at least once, also when a worker dies in between."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo import UpdateOne

from ojak.model.outcome import DeliveryFailure, FailureReason, Settled, SettledOutcome
from ojak.store.database import Document, QueueDatabase
from ojak.store.row import OF_DELIVERIES

End = Settled | DeliveryFailure

_TELLING: Final = "telling"


async def wants_telling(db: QueueDatabase) -> bool:
    """Whether ends are kept until they were told. A setting of the queue, not of a process."""
    row = await db.settings.find_one({"_id": _TELLING})
    return bool(row and row.get("on"))


async def set_telling(db: QueueDatabase, *, on: bool) -> None:
    """Set whether ends are kept until they were told. A `run()` with callbacks turns it on; `ojak config` off."""
    await db.settings.update_one({"_id": _TELLING}, {"$set": {"on": on}}, upsert=True)


async def tell_nobody(db: QueueDatabase, *, kept_s: float) -> None:
    """Let ends expire that wait to be told though nobody wants to be: those of parked rows, or from before."""
    await db.jobs.update_many(
        {"told": False, **OF_DELIVERIES}, [{"$set": {"told": True, "expire_at": db.now.plus(kept_s)}}]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UntoldEnd:
    """An end that nobody was told of yet, and where it stands: in the row, or among what a revived row owes."""

    end: End
    row_id: bytes
    owed: bool


async def untold(
    db: QueueDatabase, *, older_s: float, without: Sequence[bytes] = (), limit: int = 200
) -> list[UntoldEnd]:
    """Ends that are untold for longer than `older_s`, whoever wrote them, but not those of the rows `without`."""
    found: list[UntoldEnd] = []
    long_ago = db.now.plus(-older_s)
    rows = db.jobs.find(
        {"told": False, "_id": {"$nin": list(without)}, **OF_DELIVERIES, "$expr": {"$lte": ["$finished_at", long_ago]}}
    ).limit(limit)
    async for row in rows:
        end = _end_of(row, row)
        if end is not None:
            found.append(UntoldEnd(end=end, row_id=bytes(row["_id"]), owed=False))
    owing = {"owed": {"$exists": True, "$ne": []}, "_id": {"$nin": list(without)}, **OF_DELIVERIES}
    async for row in db.jobs.find(owing).limit(limit):
        for owed in row["owed"]:
            end = _end_of(row, owed)
            if end is not None:
                found.append(UntoldEnd(end=end, row_id=bytes(row["_id"]), owed=True))
    return found


async def mark_told(db: QueueDatabase, ends: Sequence[UntoldEnd], *, kept_s: float) -> None:
    """Write that ends were told; from then on their rows may expire."""
    updates = [
        UpdateOne({"_id": end.row_id}, {"$pull": {"owed": {"end": end.end.end}}})
        if end.owed
        else UpdateOne(
            {"_id": end.row_id, "end": end.end.end, "told": False},
            [{"$set": {"told": True, "expire_at": db.now.plus(kept_s)}}],
        )
        for end in ends
    ]
    if updates:
        await db.jobs.bulk_write(updates, ordered=False)


async def mark_rows_told(db: QueueDatabase, ids_by_end: Mapping[int, Sequence[bytes]], *, kept_s: float) -> None:
    """Write that ends just written to rows were told, given by their number: a row revived meanwhile has another."""
    for number, ids in ids_by_end.items():
        await db.jobs.update_many(
            {"_id": {"$in": list(ids)}, "end": number, "told": False},
            [{"$set": {"told": True, "expire_at": db.now.plus(kept_s)}}],
        )


def _end_of(row: Document, end: Document) -> End | None:
    """Read an end; None if the row cannot be read as one, which leaves it to people."""
    last: Any = end.get("last")
    last = last if isinstance(last, dict) else {}
    finished_at = end.get("finished_at")
    number = end.get("end")
    if not isinstance(finished_at, datetime) or not isinstance(number, int):
        return None
    told = {
        "delivery_id": bytes(row["_id"]).hex(),
        "end": number,
        "activity_id": str(row.get("activity", "")),
        "inbox": str(row.get("inbox", "")),
        "ref": row.get("ref"),
        "sender": str(row.get("sender", "")),
        "attempts": end["tries"] if isinstance(end.get("tries"), int) else 0,
        "status": last.get("status"),
        "reason": str(last.get("reason") or ""),
        "finished_at": finished_at,
    }
    state = end.get("state")
    if state in set(SettledOutcome):
        return Settled(outcome=SettledOutcome(state), **told)
    if state in set(FailureReason):
        return DeliveryFailure(outcome=FailureReason(state), **told)
    return None
