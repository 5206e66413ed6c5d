# SPDX-License-Identifier: Apache-2.0
"""Queueing what waits in the outbox: by a worker, or by a send or a cancel that must not overtake it.

Every row that is queued from here carries the id of its outbox row: doing it again after a crash, or two at the same
time, queues nothing twice and revives nothing that has ended since.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final

from ojak.errors import InputError, OjakError, StoreError
from ojak.model.job import Priority
from ojak.shard import shard_of
from ojak.store.bodies import ConflictingActivity
from ojak.store.database import QueueDatabase
from ojak.store.enqueue import enqueue
from ojak.store.handover import hand_over
from ojak.store.outbox import Pending
from ojak.store.outbox_parked import park, park_send
from ojak.store.outbox_rows import Head, Unreadable, read_waiting, waiting_heads
from ojak.store.trouble import DRIVER_ERRORS, explained
from ojak.store.wakeups import wake

_log = logging.getLogger("ojak.store.outbox_queue")

_CONFLICT: Final = "conflict"
_NOT_STORABLE: Final = "not-storable"
_INTERNAL_ERROR: Final = "internal-error"


async def queue_row(db: QueueDatabase, row_id: Any, *, kept_s: float) -> None:
    """Queue a send that waits, if it still does; what can never be queued is parked.

    Args:
        db: the queue.
        row_id: the id of its row.
        kept_s: how long a delivery queued now can need its activity.

    Raises:
        StoreError: the database refused it, or did not answer (QueueUnavailable); it still waits. So it does after
            whatever else the driver raises.
    """
    try:
        item = await read_waiting(db, row_id)
    except (MemoryError, OSError) as error:
        raise _not_now(error) from error
    if isinstance(item, Unreadable):
        await park(db, item)
    elif item is not None:
        await queue_pending(db, item, kept_s=kept_s)


async def queue_pending(db: QueueDatabase, send: Pending, *, kept_s: float) -> bool:
    """Queue a send that waits, wake the workers, and take it out of the outbox; whether that was possible.

    What can never be queued is parked with its reason, so that it is in nobody's way, and its deliveries end. What the
    database refuses is not that: a right that is missing or a disk that is full today is none tomorrow, and the send
    was promised. Nor is what this process lacks: memory, descriptors.

    Raises:
        StoreError: the database refused it, or did not answer (QueueUnavailable); it still waits.
    """
    try:
        await _queue(db, send, kept_s=kept_s)
    except (OjakError, *DRIVER_ERRORS) as error:
        told = error if isinstance(error, OjakError) else explained(error)
        if told is error and not isinstance(told, InputError):
            raise
        if not isinstance(told, InputError):
            raise told from error
        reason = _CONFLICT if isinstance(told, ConflictingActivity) else _NOT_STORABLE
        await park_send(db, send, reason=reason, detail=str(told))
        return False
    except (MemoryError, OSError) as error:
        raise _not_now(error) from error
    except Exception as error:  # noqa: BLE001
        # A fault of this program, or a row that nobody foresaw: others wait behind it.
        _log.exception("a row of the outbox cannot be queued")
        await park_send(db, send, reason=_INTERNAL_ERROR, detail=f"{_INTERNAL_ERROR}: {type(error).__name__}")
        return False
    return True


def _not_now(error: MemoryError | OSError) -> StoreError:
    return StoreError(f"this process cannot queue a row of the outbox now ({type(error).__name__}); it still waits")


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
    """Queue everything that waits and is about one of these: what is sent next must come after it.

    And before each of them what was handed over before it about the same, be it by another of its keys.

    Raises what `queue_row` raises.
    """
    keys = frozenset(about)
    while heads := await _heads_about(db, keys):
        for head in heads:
            await queue_row(db, head.row_id, kept_s=kept_s)


async def _heads_about(db: QueueDatabase, keys: frozenset[str]) -> list[Head]:
    """What waits about some keys, and what goes before that, in the order in which it was handed over."""
    found: dict[str, Head] = {}
    known: frozenset[str] = frozenset()
    wanted = keys
    while wanted - known:
        # Not by the ids themselves: one that somebody else wrote may be anything.
        new = {
            repr(head.row_id): head
            async for head in waiting_heads(db, where={"about": {"$in": sorted(wanted - known)}})
        }
        found |= new
        known = wanted
        wanted = known.union(*(head.about for head in new.values()))
    heads = sorted(found.values(), key=lambda head: head.seq)
    while heads and keys.isdisjoint(heads[-1].about):
        # It comes after all of them.
        heads.pop()
    return heads
