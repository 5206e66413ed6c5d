# SPDX-License-Identifier: Apache-2.0
"""The outbox: what applications handed over inside their own transactions, still to be queued (SPEC section 1).

Queueing inside a transaction of the application would abort it at the first duplicate and hold up whoever writes the
same host records. So the transaction writes one row, and somebody queues it after the commit: a worker, or a send
about the same thing, which must not overtake it. Every row that is queued from here carries the id of its outbox row:
doing it again after a crash, or two at the same time, queues nothing twice and revives nothing that has ended since.
"""

import logging
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bson.errors import BSONError
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.client_session import ClientSession
from pymongo.errors import PyMongoError

from ojak.errors import InputError, OjakError
from ojak.model.activity import Activity, activity_of, check_text
from ojak.model.batch import Batch
from ojak.model.domains import BlockedDomains
from ojak.model.inbox import Inbox
from ojak.model.job import Priority
from ojak.model.portable import PortableInbox
from ojak.shard import shard_of
from ojak.store.bodies import NEW_SEQ
from ojak.store.database import CODEC, MAJORITY, OUTBOX, Document, QueueDatabase
from ojak.store.enqueue import NewJob, enqueue
from ojak.store.handover import hand_over
from ojak.store.recipients import new_job
from ojak.store.trouble import explained
from ojak.store.wakeups import wake

_log = logging.getLogger("ojak.store.outbox")

_FORM: Final = 1
_ROW_MAX_BYTES: Final = 15_000_000
_ROW_OF_INBOX_BYTES: Final = 64
_BODY_MAX_BYTES: Final = 16_000_000
_PARKED_KEPT_S: Final = 30 * 86_400.0
_WAITING: Final = "waiting"
_PARKED: Final = "parked"
MARK: Final = "outbox"
"""The setting of the queue that says that its outbox is used, and what the queue is told from others by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A send that waits in the outbox: everything that was handed over.

    Attributes:
        row_id: the id of its row, 16 bytes.
        activity, sender, jobs, priority, order_key, batch: as for `hand_over` and `enqueue`.
    """

    row_id: bytes
    activity: Activity
    sender: str
    jobs: tuple[NewJob, ...]
    priority: Priority
    order_key: str | None
    batch: Batch | None

    @property
    def about(self) -> frozenset[str]:
        """What it is about: the keys that it must not overtake others of, or be overtaken by."""
        return keys_of(self.activity, self.order_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A row of the outbox that this program cannot read, and why."""

    row_id: Any
    reason: str


def keys_of(activity: Activity, order_key: str | None) -> frozenset[str]:
    """The keys by which activities go before or after each other, or take each other back."""
    return frozenset(key for key in (order_key, activity.order_key) if key is not None)


def pending(
    activity: Activity,
    *,
    sender: str,
    jobs: Sequence[NewJob],
    priority: Priority,
    order_key: str | None,
    batch: Batch | None,
) -> Pending:
    """Put together what is to wait in the outbox.

    Raises:
        InputError: it is too large for one row.
    """
    size = len(activity.body) + sum(
        _ROW_OF_INBOX_BYTES
        + len(job.inbox)
        + len((job.ref or "").encode())
        + sum(_ROW_OF_INBOX_BYTES + len(gateway.origin) for gateway in job.gateways)
        for job in jobs
    )
    if size > _ROW_MAX_BYTES:
        raise InputError(
            f"the activity and its {len(jobs)} inboxes take {size} bytes; allowed with a session are {_ROW_MAX_BYTES}:"
            " send to fewer inboxes at a time"
        )
    return Pending(
        row_id=secrets.token_bytes(16),
        activity=activity,
        sender=sender,
        jobs=tuple(jobs),
        priority=priority,
        order_key=order_key,
        batch=batch,
    )


async def mark_outbox(db: QueueDatabase) -> bytes:
    """Say that the queue has an outbox that is used; gives what this queue is told from others by."""
    while True:
        mark = mark_in(await db.settings.find_one(MARK))
        if mark is not None:
            return mark
        await db.settings.update_one({"_id": MARK}, {"$set": {"mark": secrets.token_bytes(16)}}, upsert=True)


def mark_in(row: Document | None) -> bytes | None:
    """The mark in the row of the setting `MARK`, if there is one."""
    mark = (row or {}).get("mark")
    return bytes(mark) if isinstance(mark, bytes) else None


async def outbox_used(db: QueueDatabase) -> bool:
    """Whether anything was ever written to the outbox."""
    return mark_in(await db.settings.find_one(MARK)) is not None


async def write_in(session: AsyncClientSession, database: str, send: Pending) -> None:
    """Write a send to the outbox, in the transaction of a session. Raises what the driver does."""
    # The session's own client, and the concerns that its transaction has. The one said here is for a session without.
    outbox = session.client.get_database(database).get_collection(OUTBOX, codec_options=CODEC, write_concern=MAJORITY)
    await outbox.insert_one(_row_of(send), session=session)


def write_blocking(session: ClientSession, database: str, send: Pending) -> None:
    """Do as `write_in`, for a session of a blocking client."""
    outbox = session.client.get_database(database).get_collection(OUTBOX, codec_options=CODEC, write_concern=MAJORITY)
    outbox.insert_one(_row_of(send), session=session)


def _row_of(send: Pending) -> Document:
    batch = send.batch
    return {
        "_id": send.row_id,
        "seq": NEW_SEQ,
        "form": _FORM,
        "state": _WAITING,
        "activity": send.activity.body,
        # To be found by.
        "activity_id": send.activity.identity,
        "object": send.activity.object_id,
        "sender": send.sender,
        "priority": send.priority.value,
        "order_key": send.order_key,
        "about": sorted(send.about),
        "inboxes": [_inbox_of(job) for job in send.jobs],
        "batch": batch and {"tag": batch.tag, "deadline": batch.deadline, "order_key": batch.order_key},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A send that waits in the outbox, without what was handed over: which row it is, and what it is about."""

    row_id: Any
    about: frozenset[str]


async def waiting_heads(db: QueueDatabase, *, limit: int = 0, where: Document | None = None) -> list[Head]:
    """What waits in the outbox, in the order it was handed over. Reads no more of it: a row may have many megabytes.

    Args:
        db: the queue.
        limit: so much at most; 0: all of it.
        where: what must be true of the rows; None: nothing.
    """
    rows = db.outbox.find({"state": _WAITING, **(where or {})}, {"about": 1}).sort("seq").limit(limit)
    return [Head(row_id=row["_id"], about=_texts(row.get("about"))) async for row in rows]


def _texts(value: object) -> frozenset[str]:
    return frozenset(text for text in value if isinstance(text, str)) if isinstance(value, list) else frozenset()


async def queue_head(db: QueueDatabase, head: Head, *, kept_s: float) -> None:
    """Queue a send that waits, if it still does; what can never be queued is parked.

    Raises what `queue_pending` raises.
    """
    row = await db.outbox.find_one({"_id": head.row_id, "state": _WAITING})
    if row is not None:
        await _queue_or_park(db, _read(row), kept_s=kept_s)


async def _queue_or_park(db: QueueDatabase, item: Pending | Unreadable, *, kept_s: float) -> None:
    if isinstance(item, Unreadable):
        await park(db, item)
    else:
        await queue_pending(db, item, kept_s=kept_s)


async def waiting(db: QueueDatabase, *, limit: int, about: Iterable[str] | None = None) -> list[Pending | Unreadable]:
    """What waits in the outbox, whole, in the order it was handed over.

    Args:
        db: the queue.
        limit: so much at most.
        about: only what has one of these keys; None: everything.
    """
    where: Document = {"state": _WAITING}
    if about is not None:
        where["about"] = {"$in": list(about)}
    return [_read(row) async for row in db.outbox.find(where).sort("seq").limit(limit)]


def _read(row: Document) -> Pending | Unreadable:
    try:
        if row["form"] != _FORM:
            return Unreadable(row_id=row["_id"], reason=f"its form is {row['form']!r:.40}, not {_FORM}")
        check_text("sender", row["sender"])
        batch = row["batch"]
        return Pending(
            row_id=bytes(row["_id"]),
            activity=activity_of(bytes(row["activity"]), max_bytes=_BODY_MAX_BYTES),
            sender=row["sender"],
            jobs=tuple(_job_of(inbox) for inbox in row["inboxes"]),
            priority=Priority(row["priority"]),
            order_key=row["order_key"],
            batch=Batch(**batch) if batch is not None else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError, InputError) as error:
        return Unreadable(row_id=row["_id"], reason=f"{type(error).__name__}: {error}")


def _inbox_of(job: NewJob) -> Document:
    inbox: Document = {"url": job.inbox, "shared": job.shared, "ref": job.ref}
    if job.gateways:
        inbox["gateways"] = [gateway.origin for gateway in job.gateways]
    return inbox


def _job_of(inbox: Document) -> NewJob:
    # Checked as when it was handed over. What is blocked by now is found when it is met.
    if "gateways" in inbox:
        return new_job(PortableInbox(inbox["url"], inbox["gateways"], ref=inbox["ref"]), BlockedDomains())
    return new_job(Inbox(inbox["url"], shared=inbox["shared"], ref=inbox["ref"]), BlockedDomains())


async def queue_pending(db: QueueDatabase, send: Pending, *, kept_s: float) -> bool:
    """Queue a send that waits, wake the workers, and take it out of the outbox; whether that was possible.

    What can never be queued is parked with its reason, so that it is in nobody's way. What the database refuses is not
    that: a right that is missing or a disk that is full today is none tomorrow, and the send was promised.

    Raises:
        StoreError: the database refused it, or did not answer (QueueUnavailable); it still waits.
    """
    try:
        await _queue(db, send, kept_s=kept_s)
    except (OjakError, PyMongoError, BSONError) as error:
        told = error if isinstance(error, OjakError) else explained(error)
        if told is error and not isinstance(told, InputError):
            raise
        if not isinstance(told, InputError):
            raise told from error
        await park(db, Unreadable(row_id=send.row_id, reason=str(told)))
        return False
    except Exception as error:  # noqa: BLE001
        # A fault of this program, or a row that nobody foresaw: others wait behind it.
        _log.exception("a row of the outbox cannot be queued")
        await park(db, Unreadable(row_id=send.row_id, reason=f"internal-error: {type(error).__name__}"))
        return False
    return True


async def _queue(db: QueueDatabase, send: Pending, *, kept_s: float) -> None:
    handover = await hand_over(
        db,
        send.activity,
        sender=send.sender,
        priority=send.priority,
        kept_s=kept_s,
        order_key=send.order_key,
        batch=send.batch,
        outbox_row=send.row_id,
    )
    async for chunk, _ in enqueue(db, send.jobs, handover):
        shards = {shard_of(job.authority) for job in chunk}
        await wake(db, shards, small=send.priority is Priority.SMALL)
    await db.outbox.delete_one({"_id": send.row_id})


async def queue_what_is_about(db: QueueDatabase, about: Iterable[str], *, kept_s: float) -> None:
    """Queue everything that waits and is about one of these: what is sent next must come after it."""
    keys = list(about)
    while found := await waiting(db, limit=1, about=keys):
        await _queue_or_park(db, found[0], kept_s=kept_s)


async def park(db: QueueDatabase, row: Unreadable) -> None:
    """Set a row aside that cannot be queued, with its reason. It is kept for 30 days."""
    _log.error("a row of the outbox is parked", extra={"row": str(row.row_id)[:80], "reason": row.reason[:200]})
    await db.outbox.update_one(
        {"_id": row.row_id},
        [
            {
                "$set": {
                    "state": _PARKED,
                    "reason": {"$literal": row.reason[:200]},
                    "parked_at": db.now.expr,
                    "expire_at": db.now.plus(_PARKED_KEPT_S),
                }
            }
        ],
    )


async def count_outbox(db: QueueDatabase) -> tuple[int, int]:
    """How many sends wait in the outbox, and how many are parked there."""
    return (
        await db.outbox.count_documents({"state": _WAITING}),
        await db.outbox.count_documents({"state": _PARKED}),
    )


def absolute(batch: Batch | None, now: datetime) -> Batch | None:
    """A batch whose deadline is a moment: one that is counted from the send must not move while it waits."""
    if batch is None or batch.deadline is None or isinstance(batch.deadline, datetime):
        return batch
    return Batch(tag=batch.tag, deadline=now + batch.deadline, order_key=batch.order_key)
