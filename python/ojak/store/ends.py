# SPDX-License-Identifier: Apache-2.0
"""Ends that somebody wants to be told of (rule E): each is told at least once, also when a worker dies in between."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo import UpdateOne

from ojak.model.outcome import DeliveryFailure, FailureReason, Settled, SettledOutcome
from ojak.store.database import Document, QueueDatabase
from ojak.store.row import OF_DELIVERIES

End = Settled | DeliveryFailure

_PAGE: Final = 200
_OWING: Final[Document] = {"owed": {"$exists": True, "$ne": []}, **OF_DELIVERIES}
_OWES: Final[Document] = {"$and": [{"$isArray": "$owed"}, {"$ne": ["$owed", []]}]}


def expiry_unless_owing(db: QueueDatabase, *, kept_s: float) -> Document:
    """When a row that has ended expires: not as long as it owes an end of its earlier life."""
    return {"$cond": [_OWES, "$$REMOVE", db.now.plus(kept_s)]}


@dataclass(frozen=True, slots=True, kw_only=True)
class UntoldEnd:
    """An end that nobody was told of yet, and where it stands: in the row, or among what a revived row owes."""

    end: End
    row_id: bytes
    owed: bool


async def untold_ids(
    db: QueueDatabase, *, older_s: float, without: Container[bytes] = (), limit: int = 10_000
) -> list[bytes]:
    """The rows with ends that are untold for longer than `older_s`, whoever wrote them, but not those `without`."""
    found: dict[bytes, None] = {}
    for where in (_untold_for(db, older_s), _OWING):
        async for row in db.jobs.find(where, {"_id": 1}):
            if row["_id"] not in without:
                found[row["_id"]] = None
            if len(found) >= limit:
                return list(found)
    return list(found)


async def untold(db: QueueDatabase, *, older_s: float, ids: Sequence[bytes] | None = None) -> list[UntoldEnd]:
    """Ends that are untold for longer than `older_s`, whoever wrote them; of some rows, or 200 of all."""
    among: Document = {"_id": {"$in": list(ids)}} if ids is not None else {}
    found: list[UntoldEnd] = []
    async for row in db.jobs.find({**_untold_for(db, older_s), **among}).limit(_PAGE):
        end = _end_of(row, row)
        if end is not None:
            found.append(UntoldEnd(end=end, row_id=bytes(row["_id"]), owed=False))
    async for row in db.jobs.find({**_OWING, **among}).limit(_PAGE):
        for owed in row["owed"]:
            end = _end_of(row, owed)
            if end is not None:
                found.append(UntoldEnd(end=end, row_id=bytes(row["_id"]), owed=True))
    return found


def _untold_for(db: QueueDatabase, older_s: float) -> Document:
    return {"told": False, **OF_DELIVERIES, "$expr": {"$lte": ["$finished_at", db.now.plus(-older_s)]}}


async def mark_told(db: QueueDatabase, ends: Sequence[UntoldEnd], *, kept_s: float) -> None:
    """Write that ends were told; from then on their rows may expire, unless they owe another."""
    updates = [
        UpdateOne({"_id": end.row_id, "owed.end": end.end.end}, _without_owed(db, end.end.end, kept_s))
        if end.owed
        else UpdateOne({"_id": end.row_id, "end": end.end.end, "told": False}, _told(db, kept_s))
        for end in ends
    ]
    if updates:
        await db.jobs.bulk_write(updates, ordered=False)


async def mark_rows_told(db: QueueDatabase, ids_by_end: Mapping[int, Sequence[bytes]], *, kept_s: float) -> None:
    """Write that ends just written to rows were told, given by their number: a row revived meanwhile has another."""
    for number, ids in ids_by_end.items():
        await db.jobs.update_many({"_id": {"$in": list(ids)}, "end": number, "told": False}, _told(db, kept_s))


def _told(db: QueueDatabase, kept_s: float) -> list[Document]:
    return [{"$set": {"told": True, "told_at": db.now.expr, "expire_at": expiry_unless_owing(db, kept_s=kept_s)}}]


def _without_owed(db: QueueDatabase, number: int, kept_s: float) -> list[Document]:
    """Pull an owed end. With the last of them the row may expire, if it has ended again and that was told."""
    is_empty = {"$eq": ["$owed", []]}
    may_expire = {"$and": [is_empty, {"$eq": ["$told", True]}, {"$gt": ["$finished_at", None]}]}
    return [
        {"$set": {"owed": {"$filter": {"input": "$owed", "cond": {"$ne": ["$$this.end", number]}}}}},
        {
            "$set": {
                "owed": {"$cond": [is_empty, "$$REMOVE", "$owed"]},
                "expire_at": {"$cond": [may_expire, db.now.plus(kept_s), {"$ifNull": ["$expire_at", "$$REMOVE"]}]},
            }
        },
    ]


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
