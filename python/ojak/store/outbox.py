# SPDX-License-Identifier: Apache-2.0
"""The outbox: what applications hand over inside their own transactions, and how it is written (SPEC section 1).

Queueing inside a transaction of the application would abort it at the first duplicate and hold up whoever writes the
same host records. So the transaction writes one row, and somebody queues it after the commit (`outbox_queue`).
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.client_session import ClientSession

from ojak.errors import InputError
from ojak.model.activity import Activity
from ojak.model.batch import Batch
from ojak.model.job import Priority
from ojak.store.bodies import NEW_SEQ
from ojak.store.database import CODEC, MAJORITY, OUTBOX, Document, QueueDatabase
from ojak.store.enqueue import NewJob
from ojak.store.outbox_state import WAITING

FORM: Final = 1
"""The form of the rows that this version writes, and the last that it reads."""
_ROW_MAX_BYTES: Final = 15_000_000
_ROW_OF_INBOX_BYTES: Final = 64
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
        "form": FORM,
        "state": WAITING,
        "activity": send.activity.body,
        # To be found by.
        "activity_id": send.activity.identity,
        "object": send.activity.object_id,
        "sender": send.sender,
        "priority": send.priority.value,
        "order_key": send.order_key,
        "about": sorted(send.about),
        "inboxes": [_inbox_of(job) for job in send.jobs],
        # To be counted without reading them.
        "count": len(send.jobs),
        "batch": batch and {"tag": batch.tag, "deadline": batch.deadline, "order_key": batch.order_key},
    }


def _inbox_of(job: NewJob) -> Document:
    inbox: Document = {"url": job.inbox, "shared": job.shared, "ref": job.ref}
    if job.gateways:
        inbox["gateways"] = [gateway.origin for gateway in job.gateways]
    return inbox


def absolute(batch: Batch | None, now: datetime) -> Batch | None:
    """A batch whose deadline is a moment: one that is counted from the send must not move while it waits."""
    if batch is None or batch.deadline is None or isinstance(batch.deadline, datetime):
        return batch
    return Batch(tag=batch.tag, deadline=now + batch.deadline, order_key=batch.order_key)
