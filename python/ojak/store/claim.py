# SPDX-License-Identifier: Apache-2.0
"""Claim: ready hosts, then a few jobs of each, leased in one statement (DESIGN section 3, rules B and D).

1. Read the ready hosts of own shards, with their `asks`.
2. Raise `due` by one lease, guarded by `ready` ≤ now: whoever dies from here on has hidden the host for one lease.
3. Read the first rows of each lane, and what is leased there; lease the rows under a fresh stamp.
4. Write when each host is due next: as it is if nobody lowered `due` since (1), else the earlier of both.
5. Confirm that the shards are still owned under the epochs that were picked under; else give everything back.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ojak.model.job import Job, Priority
from ojak.store.database import Document, QueueDatabase
from ojak.store.hosts import IDLE_KEPT_S, READY, Due, dues_of, look_again, lower_due
from ojak.store.now import EPOCH, NEVER
from ojak.store.row import MalformedRow, job_of, park_malformed

_BATCH: Final = 5000
FULL_RECHECK_MS: Final = 500
"""A lane whose slots are all held, by a former owner's requests for example, is looked at again so soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyHost:
    """A host that has work now.

    Attributes:
        authority: the host.
        shard: its shard.
        asks: how often `due` was lowered, as read.
        proven: whether its last attempt came through; None if it never answered.
        answer_ms: how long its answers take, smoothed.
        scheme: the scheme it is known to accept, or None.
    """

    authority: str
    shard: int
    asks: int
    proven: bool | None
    answer_ms: float | None
    scheme: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedHost:
    """A host with the jobs of it that were leased.

    Attributes:
        host: the host as read.
        jobs: the leased jobs, oldest first.
        foreign: requests to this host that a former owner of the shard may still have open.
    """

    host: ReadyHost
    jobs: Sequence[Job]
    foreign: int


async def ready_hosts(
    db: QueueDatabase,
    *,
    shards: Sequence[int],
    priority: Priority,
    busy: Sequence[str],
    only_quicker_ms: float | None,
    limit: int,
) -> list[ReadyHost]:
    """The hosts that have work now, the one waiting for longest first.

    Args:
        db: the queue.
        shards: of these shards only.
        priority: work of this line.
        busy: hosts to leave out.
        only_quicker_ms: only hosts whose last attempt came through and that answer within this; None for all.
        limit: so many at most.
    """
    field = f"ready.{priority.value}"
    standing: Document = {}
    if only_quicker_ms is not None:
        standing = {"proven": True, "answer_ms": {"$not": {"$gt": only_quicker_ms}}}
    cursor = (
        db.hosts.find(
            {"shard": {"$in": list(shards)}, "_id": {"$nin": list(busy)}, **db.now.has_come(field), **standing},
            {"shard": 1, "asks": 1, "proven": 1, "answer_ms": 1, "scheme": 1},
        )
        .sort(field, 1)
        .limit(limit)
    )
    return [_host_of(row) async for row in cursor]


def _host_of(row: Document) -> ReadyHost:
    scheme = row.get("scheme") or {}
    return ReadyHost(
        authority=row["_id"],
        shard=row["shard"],
        asks=row["asks"],
        proven=row.get("proven"),
        answer_ms=row.get("answer_ms"),
        scheme=scheme.get("name"),
    )


async def claim(
    db: QueueDatabase,
    hosts: Sequence[ReadyHost],
    *,
    owner: bytes,
    epochs: Mapping[int, int],
    priority: Priority,
    share: Callable[[ReadyHost, int], int],
    lease_s: float,
    max_age_s: float,
) -> list[ClaimedHost]:
    """Lease the first jobs of each host.

    Args:
        db: the queue.
        hosts: from `ready_hosts`.
        owner: the stamp of this `run()`.
        epochs: the epoch of each owned shard, as it was when `hosts` were read.
        priority: the line to take from.
        share: how many jobs a host may have leased here, given the requests a former owner may still have open.
        lease_s: how long the lease lasts.
        max_age_s: how long a delivery may wait; older ones are marked so.

    Returns:
        Hosts with at least one leased job. Empty if a shard changed hands meanwhile: then all was given back.
    """
    names = [host.authority for host in hosts]
    await _hide(db, names, priority=priority, lease_s=lease_s)
    held = await _leased(db, names, owner=owner)
    room = {host.authority: share(host, held.foreign.get(host.authority, 0)) for host in hosts}
    lanes = await _first_rows(db, room, priority=priority, max_age_s=max_age_s)
    jobs, stamp = await _lease(db, lanes.values(), owner=owner, lease_s=lease_s)
    await _show(db, hosts, _next_dues(hosts, lanes, held, room), priority=priority, lease_s=lease_s)
    if not jobs:
        return []
    if not await _still_owned(db, {host.shard for host in hosts}, owner=owner, epochs=epochs):
        await hand_back(db, {stamp: [job.id for job in jobs]})
        return []
    by_host: dict[str, list[Job]] = {}
    for job in jobs:
        by_host.setdefault(job.lane, []).append(job)
    return [
        ClaimedHost(host=host, jobs=by_host[host.authority], foreign=held.foreign.get(host.authority, 0))
        for host in hosts
        if host.authority in by_host
    ]


async def _hide(db: QueueDatabase, names: Sequence[str], *, priority: Priority, lease_s: float) -> None:
    await db.hosts.update_many(
        {"_id": {"$in": list(names)}, **db.now.has_come(f"ready.{priority.value}")},
        [{"$set": {f"due.{priority.value}": db.now.plus(lease_s)}}, {"$set": {"ready": READY}}],
    )


@dataclass(slots=True)
class _Held:
    """What is leased in lanes: until when at the earliest, and how much of it by others than the claimer."""

    until: dict[str, datetime]
    foreign: dict[str, int]


async def _leased(db: QueueDatabase, names: Sequence[str], *, owner: bytes) -> _Held:
    held = _Held({}, {})
    async for row in db.jobs.find(
        {"state": "leased", "lane": {"$in": list(names)}}, {"_id": 0, "lane": 1, "lease.until": 1, "lease.by": 1}
    ):
        lane, lease = row["lane"], row.get("lease") or {}
        until = lease.get("until")
        if isinstance(until, datetime):
            held.until[lane] = min(until, held.until.get(lane, until))
        if lease.get("by") != owner:
            held.foreign[lane] = held.foreign.get(lane, 0) + 1
    return held


@dataclass(slots=True)
class _Lane:
    """The head of a lane: the rows that can be leased now, and when the first after them can."""

    picked: list[Document]
    next_at: datetime | None


async def _first_rows(
    db: QueueDatabase, room: Mapping[str, int], *, priority: Priority, max_age_s: float
) -> dict[str, _Lane]:
    """The head of each lane, as far as there is room.

    One branch a lane, so that every lane has its own limit and is read by the index alone. One read a lane would cost
    the client five times as much.
    """

    def branch(lane: str, limit: int) -> list[Document]:
        # The row beyond the room tells when the lane is due next.
        return [
            {"$match": {"state": "queued", "lane": lane, "priority": priority.value, "run_at": {"$gte": EPOCH}}},
            {"$sort": {"run_at": 1, "seq": 1}},
            {"$limit": limit + 1},
        ]

    (first, first_room), *others = room.items()
    pipeline = branch(first, first_room)
    pipeline += [{"$unionWith": {"coll": db.jobs.name, "pipeline": branch(lane, limit)}} for lane, limit in others]
    pipeline.append(
        {
            "$set": {
                "has_come": {"$lte": ["$run_at", db.now.expr]},
                "too_old": {"$lte": ["$queued_at", db.now.plus(-max_age_s)]},
            }
        }
    )
    lanes = {name: _Lane([], None) for name in room}
    # All at once: an awaited step for each row would cost more than reading it.
    for row in await (await db.jobs.aggregate(pipeline, batchSize=_BATCH)).to_list():
        lane = lanes[row["lane"]]
        if row["has_come"] and len(lane.picked) < room[row["lane"]]:
            lane.picked.append(row)
        elif lane.next_at is None:
            lane.next_at = row["run_at"]
    return lanes


async def _lease(db: QueueDatabase, lanes: Iterable[_Lane], *, owner: bytes, lease_s: float) -> tuple[list[Job], bytes]:
    stamp = secrets.token_bytes(16)
    picked: dict[bytes, Job] = {}
    malformed: list[tuple[Any, str]] = []
    for lane in lanes:
        for row in lane.picked:
            try:
                job = job_of(row, stamp=stamp)
            except MalformedRow as error:
                malformed.append((row["_id"], str(error)))
            else:
                picked[job.id] = job
    if malformed:
        await park_malformed(db, malformed)
    if not picked:
        return [], stamp
    ids = list(picked)
    result = await db.jobs.update_many(
        {"_id": {"$in": ids}, "state": "queued"},
        [
            {
                "$set": {
                    "state": "leased",
                    "leases": {"$add": ["$leases", 1]},
                    "lease": {
                        "stamp": stamp,
                        "by": owner,
                        "until": db.now.plus(lease_s),
                    },
                }
            }
        ],
    )
    if result.modified_count == len(ids):
        return list(picked.values()), stamp
    # Some rows moved meanwhile: only what carries the stamp is ours.
    mine = db.jobs.find({"_id": {"$in": ids}, "state": "leased", "lease.stamp": stamp}, {"_id": 1})
    return [picked[bytes(row["_id"])] async for row in mine], stamp


@dataclass(frozen=True, slots=True)
class _NextDue:
    """When a lane is due next: at `at`, not before `after_ms` from now, at the latest in one lease if `leased`."""

    at: datetime
    leased: bool
    after_ms: int


def _next_dues(
    hosts: Sequence[ReadyHost], lanes: Mapping[str, _Lane], held: _Held, room: Mapping[str, int]
) -> list[_NextDue]:
    """When each lane is due next; NEVER if nothing of it waits or is leased.

    What was picked is due again when its lease would end, whether or not leasing it succeeded: whoever took it may die.
    """
    dues: list[_NextDue] = []
    for host in hosts:
        name = host.authority
        times = [at for at in (lanes[name].next_at, held.until.get(name)) if at is not None]
        dues.append(
            _NextDue(
                at=min(times, default=NEVER),
                leased=bool(lanes[name].picked),
                # Without room the lane would be due at once, and be found full at once, for as long as it is.
                after_ms=0 if room[name] else FULL_RECHECK_MS,
            )
        )
    return dues


async def _show(
    db: QueueDatabase,
    hosts: Sequence[ReadyHost],
    dues: Sequence[_NextDue],
    *,
    priority: Priority,
    lease_s: float,
) -> None:
    """Write when the hosts are due next, in one statement: the values of each by its place in a list.

    A time that has come is written as now, not as it is: so a host that had its turn stands behind those that had none.
    """
    names = [host.authority for host in hosts]
    due = f"due.{priority.value}"
    place = {"$indexOfArray": [names, "$_id"]}

    def own(values: Sequence[Any]) -> Document:
        return {"$arrayElemAt": [list(values), place]}

    next_due = {
        "$min": [
            {"$max": [{"$add": [db.now.expr, own([due.after_ms for due in dues])]}, own([due.at for due in dues])]},
            {"$cond": [own([due.leased for due in dues]), db.now.plus(lease_s), NEVER]},
        ]
    }
    await db.hosts.update_many(
        {"_id": {"$in": names}},
        [
            {
                "$set": {
                    due: {
                        "$cond": [
                            {"$eq": ["$asks", own([host.asks for host in hosts])]},
                            next_due,
                            {"$min": [f"${due}", next_due]},
                        ]
                    }
                }
            },
            {
                "$set": {
                    "ready": READY,
                    "expire_at": {
                        "$cond": [
                            {"$and": [{"$gte": ["$due.0", NEVER]}, {"$gte": ["$due.1", NEVER]}]},
                            db.now.plus(IDLE_KEPT_S),
                            "$$REMOVE",
                        ]
                    },
                }
            },
        ],
    )


async def _still_owned(db: QueueDatabase, shards: set[int], *, owner: bytes, epochs: Mapping[int, int]) -> bool:
    """Whether the shards are owned under the epochs they were claimed under.

    The lease was confirmed by a majority, so this primary's history holds any change of owner that came before it: a
    plain read of it is enough. A later owner sees our leased rows and counts them (rule D).
    """
    async for row in db.shards.find({"_id": {"$in": list(shards)}}, {"owner": 1, "epoch": 1}):
        if row.get("owner") == owner and row.get("epoch") == epochs.get(row["_id"]):
            shards = shards - {row["_id"]}
    return not shards


async def hand_back(db: QueueDatabase, leases: Mapping[bytes, Sequence[bytes]]) -> None:
    """Give back what was leased and not begun, unspent: queued as before, and its hosts due.

    Args:
        db: the queue.
        leases: job ids by the stamp of their lease.
    """
    dues: list[Due] = []
    for stamp, ids in leases.items():
        mine = {"_id": {"$in": list(ids)}, "state": "leased", "lease.stamp": stamp}
        dues += await dues_of(db, mine)
        await db.jobs.update_many(mine, [{"$set": {"state": "queued"}}, {"$unset": "lease"}])
    await lower_due(db, dues)


async def hand_back_strays(
    db: QueueDatabase, hosts: Sequence[ReadyHost], *, owner: bytes, held: Iterable[bytes], lease_s: float
) -> int:
    """Undo a claim that ended in an error: what it leased all the same goes back, and its hosts are due again.

    Whether a write was applied is not known after an error, and without this nobody would touch the rows until their
    leases run out. Gives how many rows were leased.

    Args:
        db: the queue.
        hosts: those of the claim.
        owner: the stamp of this `run()`.
        held: the ids of all jobs that it knows that it holds.
        lease_s: the length of a lease.
    """
    strays = {"state": "leased", "lease.by": owner, "_id": {"$nin": list(held)}}
    dues = await dues_of(db, strays)
    await db.jobs.update_many(strays, [{"$set": {"state": "queued"}}, {"$unset": "lease"}])
    await lower_due(db, dues)
    await look_again(db, {"_id": {"$in": [host.authority for host in hosts]}}, within_s=lease_s)
    return len(dues)
