# SPDX-License-Identifier: Apache-2.0
"""Holds: senders and inboxes that nothing is sent for, or to (SPEC sections 3 and 4). One row each.

A hold stands before the first row is set aside behind it (`aside`). Whoever ends it marks it as over, and the releaser
lets go what waits behind it, in steps, before the row of the hold is deleted. So a crash between any two steps leaves
rows behind a hold that is over, or that is not there: both are found.
"""

import logging
import secrets
from collections.abc import AsyncIterable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from ojak.config import DAY_S
from ojak.model.hold import Hold, HoldKind, SenderPause, hold_id
from ojak.store.database import Document, QueueDatabase
from ojak.store.now import EPOCH, NEVER

_log = logging.getLogger("ojak.store.holds")

GONE_FIRST_S: Final = 3600.0
GONE_LATER_S: Final = 7 * DAY_S
"""A shared inbox that answered 410 is tried again after an hour; once it is known to be gone, once a week."""

_KEPT_S: Final = 30 * DAY_S
_KNOWN_MAX: Final = 100_000
_TRIES: Final = 5
_DUPLICATE_KEY: Final = 11000


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRow:
    """A hold as it stands.

    Attributes:
        id: its id.
        kind: what holds.
        of: the sender's id, or the canonical inbox.
        mark: random, another one for each time that it began: the delivery that tries it carries that.
        left_s: for how many seconds it still holds, 0 or less if its time has come.
        over: it was ended, and what waits behind it is to be let go.
        gone: the inbox answered 410 again after an hour: what comes ends at once.
        reason: the word with which deliveries are set aside.
    """

    id: bytes
    kind: HoldKind
    of: str
    mark: bytes
    left_s: float
    over: bool
    gone: bool
    reason: str


async def _read(rows: AsyncIterable[Document]) -> list[HoldRow]:
    """Holds that can be read. One that somebody edited holds nothing, and is in no other's way."""
    found: list[HoldRow] = []
    async for row in rows:
        try:
            hold = HoldRow(
                id=bytes(row["_id"]),
                kind=HoldKind(row["kind"]),
                of=row["of"],
                mark=bytes(row["mark"]),
                left_s=float(row["left_ms"]) / 1000,
                over=row.get("over") is True,
                gone=row.get("gone") is True,
                reason=str(row.get("reason", "")),
            )
        except (KeyError, TypeError, ValueError):
            _log.error("a hold cannot be read, and holds nothing", extra={"hold": ascii(row["_id"])[:80]})
            continue
        if isinstance(hold.of, str):
            found.append(hold)
    return found


def _fields(db: QueueDatabase) -> Document:
    fields: Document = dict.fromkeys(("kind", "of", "mark", "over", "gone", "reason"), 1)
    is_date = {"$eq": [{"$type": "$until"}, "date"]}
    # A difference to anything else would fail the whole read.
    return fields | {"left_ms": {"$cond": [is_date, {"$subtract": ["$until", db.now.expr]}, None]}}


async def put_holds(db: QueueDatabase, holds: Collection[Hold]) -> None:
    """Let holds stand. One that stands already goes on as it is, but a pause and a quarantine are as long as is said.

    Args:
        db: the queue.
        holds: what is held from now on.
    """
    updates = [UpdateOne({"_id": hold.id}, _standing(db, hold), upsert=True) for hold in holds]
    for left in range(_TRIES - 1, -1, -1):
        try:
            await db.holds.bulk_write(updates, ordered=False)
        except BulkWriteError as error:
            # Two first ones at once: the second finds the row of the other.
            failures = (error.details or {}).get("writeErrors", [])
            if not left or not failures or any(failure.get("code") != _DUPLICATE_KEY for failure in failures):
                raise
        else:
            return


def _standing(db: QueueDatabase, hold: Hold) -> list[Document]:
    until = NEVER if hold.for_s is None else db.now.plus(hold.for_s)
    fresh = {"$or": [{"$ne": [{"$type": "$of"}, "string"]}, {"$eq": ["$over", True]}]}
    renewed = hold.kind in (HoldKind.PAUSE, HoldKind.QUARANTINE)

    def if_fresh(value: Any, otherwise: Any) -> Document:
        return {"$cond": [fresh, value, otherwise]}

    fields: Document = {
        "kind": hold.kind.value,
        "of": {"$literal": hold.of},
        "reason": {"$literal": hold.reason},
        "since": if_fresh(db.now.expr, "$since"),
        "mark": if_fresh(secrets.token_bytes(8), "$mark"),
        "until": until if renewed else if_fresh(until, "$until"),
        "look_at": until if renewed else if_fresh(until, {"$min": ["$look_at", {"$max": ["$until", db.now.expr]}]}),
        "gone": if_fresh(False, "$gone"),
        "over": False,
    }
    if hold.by is not None:
        fields["by"] = {"$literal": hold.by}
    if hold.kind is not HoldKind.PAUSE:
        fields["expire_at"] = db.now.plus(_KEPT_S)
    return [{"$set": fields}]


async def end_hold(db: QueueDatabase, hold: bytes) -> bool:
    """Mark a hold as over: what waits behind it is let go. Gives whether it stood."""
    result = await db.holds.update_one(
        {"_id": hold, "over": {"$ne": True}}, {"$set": {"over": True, "look_at": EPOCH, "until": EPOCH}}
    )
    return result.modified_count == 1


async def standing_holds(db: QueueDatabase) -> list[HoldRow]:
    """The holds that are not over: pauses first, and a hundred thousand of the others at most."""
    found: list[HoldRow] = []
    for kinds in ({"kind": HoldKind.PAUSE.value}, {"kind": {"$ne": HoldKind.PAUSE.value}}):
        rows = db.holds.find({**kinds, "over": {"$ne": True}}, _fields(db)).limit(_KNOWN_MAX)
        found += await _read(rows)
    return found


async def holds_of(db: QueueDatabase, ids: Collection[bytes]) -> dict[bytes, HoldRow]:
    """Some holds, by id."""
    return {row.id: row for row in await _read(db.holds.find({"_id": {"$in": list(ids)}}, _fields(db)))}


async def holds_to_look_at(db: QueueDatabase, *, limit: int) -> list[HoldRow]:
    """The holds with which something is to be done now."""
    rows = db.holds.find(db.now.has_come("look_at"), _fields(db)).sort("look_at", 1).limit(limit)
    return await _read(rows)


async def take_turn(db: QueueDatabase, hold: HoldRow, *, for_s: float) -> bool:
    """Take the one try of a held inbox whose time has come: it is held for so long again. Gives whether it was ours."""
    until = db.now.plus(for_s)
    result = await db.holds.update_one(
        {"_id": hold.id, "mark": hold.mark, "over": {"$ne": True}, **db.now.has_come("until")},
        [{"$set": {"until": until, "look_at": until, "expire_at": db.now.plus(_KEPT_S)}}],
    )
    return result.modified_count == 1


async def note_gone(db: QueueDatabase, hold: bytes, mark: bytes) -> None:
    """A shared inbox answered 410 again: what waits for it ends, and it is tried once a week from now on."""
    await db.holds.update_one(
        {"_id": hold, "mark": mark, "over": {"$ne": True}},
        [
            {
                "$set": {
                    "gone": True,
                    "until": db.now.plus(GONE_LATER_S),
                    "look_at": EPOCH,
                    "expire_at": db.now.plus(_KEPT_S),
                }
            }
        ],
    )


async def look_later(db: QueueDatabase, hold: HoldRow, *, for_s: float | None) -> None:
    """Hold on for so long; None: as it stands, and nothing is to be done until somebody says so."""
    fields: Document = {"look_at": NEVER} if for_s is None else dict.fromkeys(("until", "look_at"), db.now.plus(for_s))
    await db.holds.update_one({"_id": hold.id, "mark": hold.mark, "over": {"$ne": True}}, [{"$set": fields}])


async def look_now(db: QueueDatabase, holds: Collection[bytes]) -> None:
    """Have something done with holds."""
    await db.holds.update_many({"_id": {"$in": list(holds)}}, {"$set": {"look_at": EPOCH}})


async def look_at_its_end(db: QueueDatabase, hold: HoldRow) -> None:
    """Have nothing done with a hold before its time has come."""
    await db.holds.update_one(
        {"_id": hold.id, "mark": hold.mark, "over": {"$ne": True}}, [{"$set": {"look_at": "$until"}}]
    )


async def forget_hold(db: QueueDatabase, hold: HoldRow) -> None:
    """Delete a hold that nothing waits behind. One that began again meanwhile stays."""
    await db.holds.delete_one({"_id": hold.id, "mark": hold.mark, "over": hold.over or {"$ne": True}})


async def sender_pauses(db: QueueDatabase, *, limit: int) -> list[SenderPause]:
    """Senders that nothing is sent for, those of operators first, the oldest first."""
    found: list[SenderPause] = []
    for kind in (HoldKind.PAUSE, HoldKind.KEY):
        rows = db.holds.find({"kind": kind.value, "over": {"$ne": True}}).sort("since", 1).limit(limit)
        async for row in rows:
            until = row["until"]
            found.append(
                SenderPause(
                    sender=row["of"],
                    reason=str(row["reason"]),
                    since=row["since"],
                    until=until if isinstance(until, datetime) and until < NEVER else None,
                    by=row.get("by"),
                    waiting=await db.jobs.count_documents({"state": "aside", "behind": row["_id"]}),
                )
            )
    return found[:limit]


async def count_paused_senders(db: QueueDatabase) -> int:
    """How many senders an operator paused."""
    return await db.holds.count_documents({"kind": HoldKind.PAUSE.value, "over": {"$ne": True}})


def holds_of_sender(sender: str) -> Sequence[bytes]:
    """The ids of the holds that a sender may have."""
    return [hold_id(kind, sender) for kind in HoldKind if kind.of_sender]
