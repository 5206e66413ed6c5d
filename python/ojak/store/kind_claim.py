# SPDX-License-Identifier: Apache-2.0
"""Claim of other kinds: ready lanes of kinds that have a handler here, then jobs of each, leased in one statement.

As with hosts (`claim`), but that no shard is owned: a claim takes its lanes by hiding them under its stamp. Should it
be slower than a lease, another may claim beside it; then the rows decide, each of which is leased once.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pymongo import UpdateOne

from ojak.model.job import Priority
from ojak.model.kind import kind_of, lanes_of
from ojak.model.kind_job import KindJob
from ojak.store.database import Document, QueueDatabase
from ojak.store.hand_back import hand_back
from ojak.store.kind_lanes import look_again_in, ready_lanes, showing, take_lanes
from ojak.store.kind_row import MalformedJob, kind_job_of, park_leased
from ojak.store.lane import HeldInLanes, LaneHead, LastLook, head_branch, last_look, leased_in
from ojak.store.now import NEVER
from ojak.store.order import promote_idle

_BATCH: Final = 5000
_PICKED_FROM: Final = 2
"""Lanes are drawn from twice as many as are wanted, so that workers that look at once do not want the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindClaim:
    """What a claim came to.

    Attributes:
        jobs: what was leased.
        missed: whether lanes had work that others were faster with, or that was not looked at: look again soon.
    """

    jobs: Sequence[KindJob] = ()
    missed: bool = False


@dataclass(slots=True)
class _Lane:
    """A lane in a claim: how many jobs of it, and the heads of its two lines."""

    asks: int
    room: int
    heads: dict[Priority, LaneHead] = field(default_factory=dict)


async def claim_jobs(
    db: QueueDatabase, want: Mapping[str, int], *, owner: bytes, stamp: bytes, lease_s: float
) -> KindClaim:
    """Lease the first jobs of kinds.

    Args:
        db: the queue.
        want: how many jobs of each kind at most; only kinds that have a handler here.
        owner: the stamp of this `run()`.
        stamp: a fresh stamp for the leases, random and used once, so that a claim that an error cut off can be undone.
        lease_s: how long the lease lasts.
    """
    ready = await ready_lanes(db, [lane for kind, count in want.items() if count > 0 for lane in lanes_of(kind)])
    chosen = _choose(list(ready), want)
    if not chosen:
        return KindClaim()
    taken = await take_lanes(db, chosen, owner=owner, stamp=stamp, lease_s=lease_s)
    missed = len(taken) < len(ready)
    if not taken:
        return KindClaim(missed=missed)
    lanes = {lane: _Lane(asks, room) for (lane, asks), room in zip(taken.items(), _share(taken, want), strict=True)}
    held = await leased_in(db, list(lanes), owner=owner)
    await _read_heads(db, lanes)
    jobs = await _lease(
        db,
        [row["_id"] for lane in lanes.values() for head in lane.heads.values() for row in head.picked],
        owner=owner,
        stamp=stamp,
        lease_s=lease_s,
    )
    # Whoever ended what these lanes' blocked rows wait for may have died before he promoted them.
    idle = [name for name, lane in lanes.items() if all(head.is_idle_for(lease_s) for head in lane.heads.values())]
    used = await promote_idle(db, idle)
    look = await last_look(db, [name for name in idle if name not in held.until], priorities=tuple(Priority))
    # Whoever has the jobs of a lane may die: it is looked at again when a lease would end. Both lines of it, since what
    # moved in the other meanwhile may not have been seen.
    used |= set(look.leased) | (lanes.keys() - set(idle))
    await _show(db, lanes, held, look, used=used, stamp=stamp, lease_s=lease_s)
    return KindClaim(jobs=jobs, missed=missed)


def _choose(ready: Sequence[str], want: Mapping[str, int]) -> list[str]:
    """No more lanes of a kind than jobs are wanted, among those that have waited for longest."""
    by_kind: dict[str, list[str]] = {}
    for lane in ready:
        by_kind.setdefault(kind_of(lane), []).append(lane)
    chosen: list[str] = []
    for kind, lanes in by_kind.items():
        oldest = lanes[: want[kind] * _PICKED_FROM]
        chosen += random.sample(oldest, min(want[kind], len(oldest)))
    return chosen


def _share(lanes: Iterable[str], want: Mapping[str, int]) -> list[int]:
    """How many jobs of each lane: those of a kind share evenly, the first ones get what is left over."""
    names = list(lanes)
    left = dict(want)
    remaining: dict[str, int] = {}
    for name in names:
        remaining[kind_of(name)] = remaining.get(kind_of(name), 0) + 1
    shares: list[int] = []
    for name in names:
        kind = kind_of(name)
        share = -(-left[kind] // remaining[kind])
        shares.append(share)
        left[kind] -= share
        remaining[kind] -= 1
    return shares


async def _read_heads(db: QueueDatabase, lanes: Mapping[str, _Lane]) -> None:
    """Read the heads of both lines of each lane, as far as there is room: small sends first."""
    first, *others = [head_branch(name, priority, lane.room) for name, lane in lanes.items() for priority in Priority]
    pipeline = [
        *first,
        *({"$unionWith": {"coll": db.jobs.name, "pipeline": other}} for other in others),
        {
            # Not the payload: of the row beyond the room it is not needed, and the others are read when leased.
            "$project": {
                "lane": 1,
                "priority": 1,
                "run_at": 1,
                "read_at": db.now.expr,
                "has_come": {"$lte": ["$run_at", db.now.expr]},
            }
        },
    ]
    rows: dict[tuple[str, int], list[Document]] = {}
    for row in await (await db.jobs.aggregate(pipeline, batchSize=_BATCH)).to_list():
        rows.setdefault((row["lane"], row["priority"]), []).append(row)
    for name, lane in lanes.items():
        room = lane.room
        for priority in Priority:
            head = lane.heads[priority] = LaneHead([], None)
            for row in rows.get((name, priority.value), ()):
                if row["has_come"] and len(head.picked) < room:
                    head.picked.append(row)
                elif head.next_at is None:
                    head.next_at, head.read_at = row["run_at"], row["read_at"]
            room -= len(head.picked)


async def _lease(
    db: QueueDatabase, ids: Sequence[bytes], *, owner: bytes, stamp: bytes, lease_s: float
) -> list[KindJob]:
    if not ids:
        return []
    await db.jobs.update_many(
        # Only what is still due: since it was read it may have been leased, and put off.
        {"_id": {"$in": list(ids)}, "state": "queued", **db.now.has_come("run_at")},
        [
            {
                "$set": {
                    "state": "leased",
                    "leases": {"$add": ["$leases", 1]},
                    "lease": {"stamp": stamp, "by": owner, "until": db.now.plus(lease_s)},
                }
            }
        ],
    )
    mine = {"_id": {"$in": list(ids)}, "state": "leased", "lease.stamp": stamp}
    jobs: list[KindJob] = []
    malformed: list[tuple[Document, str]] = []
    for row in await db.jobs.find(mine).sort([("run_at", 1), ("seq", 1)]).to_list():
        try:
            jobs.append(kind_job_of(row, stamp=stamp))
        except MalformedJob as error:
            malformed.append((row, str(error)))
    if malformed:
        await park_leased(db, malformed, stamp=stamp)
    return jobs


async def _show(
    db: QueueDatabase,
    lanes: Mapping[str, _Lane],
    held: HeldInLanes,
    look: LastLook,
    *,
    used: set[str],
    stamp: bytes,
    lease_s: float,
) -> None:
    """Write when the lanes are due next. A time that has come is written as now, so that lanes take turns."""

    def next_due(name: str, head: LaneHead) -> Any:
        known = (head.next_at, held.until.get(name), look.queued.get(name))
        times: list[datetime] = [at for at in known if at is not None]
        at = {"$max": [db.now.expr, min(times, default=NEVER)]}
        return {"$min": [at, db.now.plus(lease_s)]} if name in used else at

    await db.lanes.bulk_write(
        [
            UpdateOne(
                {"_id": name},
                showing(
                    asks=lane.asks,
                    stamp=stamp,
                    dues={priority: next_due(name, head) for priority, head in lane.heads.items()},
                ),
            )
            for name, lane in lanes.items()
        ],
        ordered=False,
    )


async def undo_kind_claim(db: QueueDatabase, kinds: Iterable[str], *, stamp: bytes, lease_s: float) -> int:
    """Undo a claim that ended in an error: what it leased all the same goes back, and its lanes are due again.

    Gives how many rows were leased.
    """
    lanes = [lane for kind in kinds for lane in lanes_of(kind)]
    strays = {"state": "leased", "lane": {"$in": lanes}, "lease.stamp": stamp}
    ids = [row["_id"] async for row in db.jobs.find(strays, {"_id": 1})]
    await hand_back(db, {stamp: ids})
    await look_again_in(db, {"_id": {"$in": lanes}, "taken": stamp}, lease_s=lease_s)
    return len(ids)
