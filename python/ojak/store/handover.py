# SPDX-License-Identifier: Apache-2.0
"""Handover: an activity is stored, and what its deliveries have in common is known before the first is a row."""

from dataclasses import dataclass
from datetime import datetime

from bson import Timestamp

from ojak.model.activity import Activity
from ojak.model.batch import Batch
from ojak.model.job import Priority
from ojak.model.order import TAKEN_BACK_BY, TAKES_BACK
from ojak.store.batches import put_batch
from ojak.store.bodies import is_alone, put_body
from ojak.store.database import Document, QueueDatabase
from ojak.store.supersede import Taken, taken_back


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """What the deliveries of one `send` share.

    Attributes:
        activity_identity: the activity's id, or its hash.
        body: the key of its bytes.
        sender: who sends it.
        priority: the line its deliveries stand in.
        order_key: what they are ordered by, or None.
        alone: nothing else with that key is known, so that nothing can go before them.
        since: when it was handed over, if another can take it back; else None.
        takes_back: what this one takes back where it was not begun.
        batch: the tag of their batch, or None.
        give_up_at: its deadline, or None.
        outbox_row: the row of the outbox that it was queued from, or None.
    """

    activity_identity: str
    body: bytes
    sender: str
    priority: Priority
    order_key: str | None
    alone: bool
    since: Timestamp | None
    takes_back: tuple[Taken, ...]
    batch: str | None = None
    give_up_at: datetime | None = None
    outbox_row: bytes | None = None

    def row_fields(self) -> Document:
        """The fields that every row of it has."""
        fields: Document = {
            "activity": self.activity_identity,
            "body": self.body,
            "sender": self.sender,
            "priority": self.priority.value,
        }
        if self.since is not None:
            fields["since"] = self.since
        if self.batch is not None:
            fields["batch"] = self.batch
        if self.give_up_at is not None:
            fields["give_up_at"] = self.give_up_at
        if self.outbox_row is not None:
            fields["outbox_row"] = self.outbox_row
        return fields


async def hand_over(
    db: QueueDatabase,
    activity: Activity,
    *,
    sender: str,
    priority: Priority,
    kept_s: float,
    order_key: str | None = None,
    batch: Batch | None = None,
    outbox_row: bytes | None = None,
) -> Handover:
    """Store an activity, and find what goes before it and what it takes back.

    Args:
        db: the queue.
        activity: what is sent.
        sender: who sends it.
        priority: the line its deliveries stand in.
        kept_s: how long a delivery queued now can need its bytes.
        order_key: the application's key; None: what the activity is about (SPEC section 2, "Order").
        batch: what they belong to, if to anything.
        outbox_row: the row of the outbox that it is queued from, if it is.

    Raises:
        ConflictingActivity: its id belongs to other bytes that are still being delivered.
    """
    seq = await put_body(db, activity, sender=sender, kept_s=kept_s)
    # After its own body stands: of two that are handed over at once, at least one sees the other.
    alone = await is_alone(db, activity)
    takes_back: tuple[Taken, ...] = ()
    if not alone and activity.type in TAKES_BACK and activity.order_key is not None:
        takes_back = await taken_back(db, activity.order_key, types=TAKES_BACK[activity.type], sender=sender)
    give_up_at = await put_batch(db, batch, kept_s=kept_s) if batch is not None else None
    return Handover(
        activity_identity=activity.identity,
        body=activity.key,
        sender=sender,
        priority=priority,
        order_key=order_key if order_key is not None else activity.order_key,
        alone=alone and order_key is None,
        since=seq if activity.type in TAKEN_BACK_BY and activity.order_key is not None else None,
        takes_back=takes_back,
        batch=batch.tag if batch is not None else None,
        give_up_at=give_up_at,
        outbox_row=outbox_row,
    )
