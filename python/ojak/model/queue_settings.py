# SPDX-License-Identifier: Apache-2.0
"""`QueueSettings`: what a queue has set for all processes that share it."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """What the queue itself has set, in its database.

    Attributes:
        callbacks: whether ends are kept until somebody was told of them; running with callbacks sets that.
        callbacks_since: when that was last set or cleared, or None if never.
        outbox: whether anything was ever sent in a transaction of an application's own.
        outbox_waiting: how many such sends are still to be queued.
        outbox_newer: how many of them were written by a later version, whose workers queue them.
        outbox_parked: how many never can be queued.
        schema: the number of the database's schema.
    """

    callbacks: bool
    callbacks_since: datetime | None
    outbox: bool
    outbox_waiting: int
    outbox_newer: int
    outbox_parked: int
    schema: int
