# SPDX-License-Identifier: Apache-2.0
"""Rows of the outbox as they are read: in the order they were handed over, whole, and counted."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final

from bson import Timestamp
from bson.errors import BSONError

from ojak.errors import InputError
from ojak.model.activity import activity_of, check_text
from ojak.model.batch import Batch
from ojak.model.domains import BlockedDomains
from ojak.model.inbox import Inbox
from ojak.model.job import Priority
from ojak.model.portable import PortableInbox
from ojak.store.database import Document, QueueDatabase
from ojak.store.enqueue import NewJob
from ojak.store.outbox import FORM, Pending
from ojak.store.outbox_state import PARKED, WAITING
from ojak.store.recipients import new_job
from ojak.store.row import seq_number

_BODY_MAX_BYTES: Final = 16_000_000
_PAGE: Final = 100
_NEWER: Final[Document] = {"form": {"$gt": FORM}}
"""What a later version wrote: its workers queue it. During an upgrade both share the outbox."""
_OURS: Final[Document] = {"state": WAITING, "form": {"$not": {"$gt": FORM}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A send that waits in the outbox, without what was handed over.

    Attributes:
        row_id: the id of its row: bytes, unless somebody else wrote it.
        seq: when it was handed over, by the database's rising timestamp; 0 if that cannot be read.
        about: what it is about.
    """

    row_id: Any
    seq: int
    about: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A row of the outbox that this program cannot read, and why."""

    row_id: Any
    reason: str


async def waiting_heads(
    db: QueueDatabase, *, most: int = 0, where: Document | None = None
) -> AsyncGenerator[Head, None]:
    """What waits in the outbox, in the order it was handed over. Reads no more of it: a row may have many megabytes.

    What a later version wrote is left out, and waits for that. To be closed by whoever does not read to the end.

    Args:
        db: the queue.
        most: so much at most; 0: all of it.
        where: what must be true of the rows; None: nothing.
    """
    found = db.outbox.find({**_OURS, **(where or {})}, {"about": 1, "seq": 1}).sort("seq").limit(most)
    async with found.batch_size(_PAGE) as rows:
        async for row in rows:
            seq = row.get("seq")
            yield Head(
                row_id=row["_id"],
                seq=seq_number(seq) if isinstance(seq, Timestamp) else 0,
                about=_texts(row.get("about")),
            )


def _texts(value: object) -> frozenset[str]:
    return frozenset(text for text in value if isinstance(text, str)) if isinstance(value, list) else frozenset()


async def read_waiting(db: QueueDatabase, row_id: Any) -> Pending | Unreadable | None:
    """A send that waits, whole; None if it does not wait any more."""
    try:
        row = await db.outbox.find_one({"_id": {"$eq": row_id}, "state": WAITING})
    except BSONError as error:
        # Text that is none, a date that no calendar has: somebody edited it.
        return Unreadable(row_id=row_id, reason=f"{type(error).__name__}: {error}")
    return None if row is None else _read(row)


def _read(row: Document) -> Pending | Unreadable:
    try:
        if row["form"] != FORM:
            return Unreadable(row_id=row["_id"], reason=f"its form is {row['form']!r:.40}, not {FORM}")
        check_text("sender", row["sender"])
        batch = row["batch"]
        return Pending(
            row_id=_bytes(row["_id"]),
            activity=activity_of(_bytes(row["activity"]), max_bytes=_BODY_MAX_BYTES),
            sender=row["sender"],
            jobs=tuple(_job_of(inbox) for inbox in row["inboxes"]),
            priority=Priority(row["priority"]),
            order_key=row["order_key"],
            batch=Batch(**batch) if batch is not None else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError, InputError) as error:
        return Unreadable(row_id=row["_id"], reason=f"{type(error).__name__}: {error}")


def _bytes(value: object) -> bytes:
    # bytes() of a number makes so many zeros, of whatever size.
    if type(value) is not bytes:
        raise TypeError(f"{type(value).__name__} where bytes are allowed")
    return value


def _job_of(inbox: Document) -> NewJob:
    # Checked as when it was handed over. What is blocked by now is found when it is met.
    if "gateways" in inbox:
        return new_job(PortableInbox(inbox["url"], inbox["gateways"], ref=inbox["ref"]), BlockedDomains())
    return new_job(Inbox(inbox["url"], shared=inbox["shared"], ref=inbox["ref"]), BlockedDomains())


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxCounts:
    """How many sends wait in the outbox, how many of them for a later version, and how many never can be queued."""

    waiting: int
    newer: int
    parked: int


async def count_outbox(db: QueueDatabase) -> OutboxCounts:
    """How much is in the outbox."""
    return OutboxCounts(
        waiting=await db.outbox.count_documents({"state": WAITING}),
        newer=await count_newer(db),
        parked=await db.outbox.count_documents({"state": PARKED}),
    )


async def count_newer(db: QueueDatabase, *, where: Document | None = None) -> int:
    """How many sends wait that only a later version can queue; of those of which `where` is true."""
    return await db.outbox.count_documents({"state": WAITING, **_NEWER, **(where or {})})
