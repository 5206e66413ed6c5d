# SPDX-License-Identifier: Apache-2.0
"""Moving: a portable delivery goes to the lane of the gateway that it is tried at next, and is not lost on the way.

Rule B says: whoever makes a row queued lowers `due` after it, and a crash in between mends itself in one lease. In the
lane that a row leaves it does; nothing makes the lane due that it comes to. So it moves under its lease: first into the
other lane, still leased; then that host is due within a lease; only then is it queued, and the host due now. Wherever
its mover dies, a claim of the new lane sees the lease and the reaper ends it: it goes on at the gateway that it was to
try, or is still in the lane that it left. `tests/model/lane_change.py` tries all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pymongo import UpdateOne

from ojak.model.failover import Tried
from ojak.model.job import Job, Priority
from ojak.shard import shard_of
from ojak.store.database import QueueDatabase
from ojak.store.gateways import tried_documents
from ojak.store.hand_back import hand_back
from ojak.store.hosts import Due, lower_due
from ojak.store.settle import Retried, write_retries
from ojak.store.wakeups import wake


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A leased delivery that goes back to the queue at one of its gateways.

    Attributes:
        job: as it was leased.
        place: which gateway, by its place in the list.
        lane: that gateway's host.
        tried: what the attempt that goes on has tried; nothing if it is over.
        retry: what came of this lease; None if nothing was attempted under it.
    """

    job: Job
    place: int
    lane: str
    tried: tuple[Tried, ...]
    retry: Retried | None


async def write_moves(db: QueueDatabase, moves: Sequence[Moved], *, lease_s: float) -> set[bytes]:
    """Queue leased deliveries at their next gateways; gives the ids of those that were stored.

    What was cancelled meanwhile ends instead. May be repeated: each row is matched by its id and stamp.

    Args:
        db: the queue.
        moves: what goes where.
        lease_s: the length of a lease.
    """
    await move_rows(db, moves)
    await announce_rows(db, moves, lease_s=lease_s)
    return await queue_rows(db, moves)


async def move_rows(db: QueueDatabase, moves: Sequence[Moved]) -> None:
    """Put rows into their new lanes, under their leases."""
    updates = [
        UpdateOne(
            {"_id": move.job.id, "state": "leased", "lease.stamp": move.job.stamp},
            {"$set": {"lane": move.lane, "at": move.place, "tried": tried_documents(move.tried)}},
        )
        for move in moves
    ]
    await db.jobs.bulk_write(updates, ordered=False)


async def announce_rows(db: QueueDatabase, moves: Sequence[Moved], *, lease_s: float) -> None:
    """Have the hosts of the new lanes looked at within a lease, whatever becomes of the mover."""
    await lower_due(
        db,
        [
            Due(authority=move.lane, priority=move.job.priority, delay_s=lease_s)
            for move in moves
            if move.lane != move.job.lane
        ],
    )


async def queue_rows(db: QueueDatabase, moves: Sequence[Moved]) -> set[bytes]:
    """Queue the rows, then have their hosts due and their owners woken; gives the ids of those that were stored."""
    retries = [replace(move.retry, job=replace(move.job, lane=move.lane)) for move in moves if move.retry is not None]
    stored = await write_retries(db, retries) if retries else set()
    leases: dict[bytes, list[bytes]] = {}
    for move in moves:
        if move.retry is None:
            leases.setdefault(move.job.stamp, []).append(move.job.id)
            stored.add(move.job.id)
    if leases:
        await hand_back(db, leases)
    for priority in Priority:
        now = [
            move for move in moves if move.job.priority is priority and (move.retry is None or not move.retry.delay_s)
        ]
        if now:
            await wake(db, {shard_of(move.lane) for move in now}, small=priority is Priority.SMALL)
    return stored
