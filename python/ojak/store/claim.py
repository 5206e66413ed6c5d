# SPDX-License-Identifier: Apache-2.0
"""Claim: ready hosts, then a few jobs of each, leased in one statement (DESIGN section 3, rules B and D).

1. Read the ready hosts of own shards, with their `asks`.
2. Raise `due` by one lease, guarded by `ready` ≤ now: whoever dies from here on has hidden the host for one lease.
3. Read the first rows of each lane, and what is leased there; lease the rows under a fresh stamp.
4. Write when each host is due next: as it is if nobody lowered `due` since (1), else the earlier of both.
5. Confirm that the shards are still owned under the epochs that were picked under; else give everything back.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from pymongo.write_concern import WriteConcern

from ojak.model.host import NO_OVERRIDES, HostOverrides
from ojak.model.job import Job, Priority
from ojak.store.database import Document, QueueDatabase
from ojak.store.hand_back import hand_back
from ojak.store.host_settings import overrides_of
from ojak.store.hosts import READY, expiry
from ojak.store.lane import NextDue, lane_heads, last_look, leased_in, next_dues
from ojak.store.met import Behind, set_aside_met
from ojak.store.now import NEVER
from ojak.store.oldest import Oldest, oldest_jobs
from ojak.store.order import promote_idle
from ojak.store.row import MalformedRow, job_of, park_malformed
from ojak.store.together import together


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyHost:
    """A host that has work now.

    Attributes:
        authority: the host.
        shard: its shard.
        asks: how often `due` was lowered, as read.
        proven: whether its last attempt came through; None if it never answered.
        quick: whether its record counts it among those that answer, and quickly.
        answer_ms: how long its answers take, smoothed.
        scheme: the scheme it is known to accept, or None.
        scheme_firm: a pair of knocks showed that within a day.
        narrowed_to: how many requests it may have open while that is fewer than it is allowed, or None.
        troubled: something stands against it: its record has a breaker, open or not.
        is_open: its breaker is open. It is ready for a probe, or because it is unavailable.
        recovering: it was open a short while ago: one delivery at a time.
        asked: an operator wished to probe it, though its breaker is only shown in its record.
        overrides: what an operator has set of how requests go there.
        lately: it answered within `lately_s`.
    """

    authority: str
    shard: int
    asks: int
    quick: bool
    proven: bool | None
    answer_ms: float | None
    scheme: str | None
    scheme_firm: bool = False
    narrowed_to: int | None = None
    troubled: bool = False
    is_open: bool = False
    recovering: bool = False
    asked: bool = False
    overrides: HostOverrides = NO_OVERRIDES
    lately: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedHost:
    """A host with the jobs of it that were leased.

    Attributes:
        host: the host as read.
        jobs: the leased jobs, oldest first.
        foreign: requests to this host that a former owner of the shard may still have open.
        probe: the id of the job to probe with, or None.
    """

    host: ReadyHost
    jobs: Sequence[Job]
    foreign: int
    probe: bytes | None = None


_SHARDS_AT_ONCE: Final = 128
"""MongoDB merges so many ranges of an index in order; of more than 200 it reads everything, and sorts."""


async def ready_hosts(
    db: QueueDatabase,
    *,
    shards: Sequence[int],
    priority: Priority,
    busy: Sequence[str],
    quick: int,
    others: int,
    lately_s: float = 0.0,
) -> list[ReadyHost]:
    """The hosts that have work now, the one waiting for longest first.

    Those that answer and those of which that is not known are read apart, each by the index alone: a flood of names
    that answer nobody must not stand before the others.

    Args:
        db: the queue.
        shards: of these shards only.
        priority: work of this line.
        busy: hosts to leave out.
        quick: so many at most whose last attempt came through and that answer quickly.
        others: so many at most of the rest.
        lately_s: how long ago an answer counts as one of lately.
    """
    field = f"ready.{priority.value}"
    branches: list[list[Document]] = [
        [
            {
                "$match": {
                    "shard": {"$in": list(shards[start : start + _SHARDS_AT_ONCE])},
                    "quick": standing,
                    "_id": {"$nin": list(busy)},
                    **db.now.has_come(field),
                }
            },
            {"$sort": {field: 1}},
            {"$limit": limit},
        ]
        for standing, limit in ((True, quick), (False, others))
        if limit > 0
        for start in range(0, len(shards), _SHARDS_AT_ONCE)
    ]
    if not branches:
        return []
    first, *more = branches
    pipeline: list[Document] = [
        *first,
        *({"$unionWith": {"coll": db.hosts.name, "pipeline": branch}} for branch in more),
        {
            "$project": {
                "shard": 1,
                "asks": 1,
                "quick": 1,
                "proven": 1,
                "answer_ms": 1,
                "scheme": {"$cond": [{"$gt": ["$scheme.until", db.now.expr]}, "$scheme.name", None]},
                "scheme_firm": {"$gt": ["$scheme.firm_until", db.now.expr]},
                "narrowed_to": 1,
                "lately": {"$gt": ["$last_success", db.now.plus(-lately_s)]},
                "breaker.open": 1,
                "breaker.to_go": 1,
                "breaker.asked": 1,
                "settings": 1,
                "since": f"${field}",
            }
        },
    ]
    rows = await (await db.hosts.aggregate(pipeline)).to_list()
    rows.sort(key=itemgetter("since"))
    room = {True: quick, False: others}
    hosts: list[ReadyHost] = []
    for row in rows:
        if room[row["quick"]]:
            room[row["quick"]] -= 1
            hosts.append(_host_of(row))
    return hosts


def _host_of(row: Document) -> ReadyHost:
    breaker = row.get("breaker")
    troubled = isinstance(breaker, dict)
    breaker = breaker if isinstance(breaker, dict) else {}
    return ReadyHost(
        authority=row["_id"],
        shard=row["shard"],
        asks=row["asks"],
        quick=row["quick"],
        proven=row.get("proven"),
        answer_ms=row.get("answer_ms"),
        scheme=row.get("scheme"),
        scheme_firm=row.get("scheme_firm") is True,
        narrowed_to=row.get("narrowed_to"),
        troubled=troubled,
        is_open=breaker.get("open") is True,
        recovering=bool(breaker.get("to_go")),
        asked=breaker.get("asked") is True,
        overrides=overrides_of(row.get("settings")),
        lately=row.get("lately") is True,
    )


async def claim(
    db: QueueDatabase,
    hosts: Sequence[ReadyHost],
    *,
    owner: bytes,
    stamp: bytes,
    epochs: Mapping[int, int],
    priority: Priority,
    share: Callable[[ReadyHost, int], int],
    lease_s: float,
    max_age_s: float,
    probed: Collection[str] = (),
    behind: Behind | None = None,
) -> list[ClaimedHost]:
    """Lease the first jobs of each host.

    Args:
        db: the queue.
        hosts: from `ready_hosts`.
        owner: the stamp of this `run()`.
        stamp: a fresh stamp for the leases, random and used once, so that a claim that an error cut off can be undone.
        epochs: the epoch of each owned shard, as it was when `hosts` were read.
        priority: the line to take from.
        share: how many jobs a host may have leased here, given the requests a former owner may still have open.
        lease_s: how long the lease lasts.
        max_age_s: how long a delivery may wait; older ones are marked so.
        probed: hosts that this claimer holds the probe of: of each only the oldest job, of whatever line, is leased,
            and what is too old before it.
        behind: tells what is held and is to be set aside; None where nothing is.

    Returns:
        Hosts with at least one leased job. Empty if a shard changed hands meanwhile: then all was given back.
    """
    names = [host.authority for host in hosts]
    await _hide(db, names, priority=priority, lease_s=lease_s)
    held = await leased_in(db, names, owner=owner)
    room = {host.authority: share(host, held.foreign.get(host.authority, 0)) for host in hosts}
    oldest = await oldest_jobs(db, [name for name in probed if room[name] > 0], max_age_s=max_age_s, behind=behind)
    room |= dict.fromkeys(probed, 0)
    lanes = await lane_heads(db, room, priority=priority, max_age_s=max_age_s)
    if behind is not None:
        met = [row for jobs_of in oldest.values() for row in jobs_of.met]
        await set_aside_met(db, lanes, met, priority=priority, behind=behind)
    picked = [row for lane in lanes.values() for row in lane.picked]
    picked += [row for jobs_of in oldest.values() for row in jobs_of.rows]
    early = [probe.probe for probe in oldest.values()]
    jobs = await _lease(db, picked, early=early, owner=owner, stamp=stamp, lease_s=lease_s)
    # What hides a probed host is its breaker: once that lets go, the lane is due as it stands.
    looked_at = room | dict.fromkeys(probed, 1)
    idle = [name for name in names if looked_at[name] and lanes[name].is_idle_for(lease_s)]
    # Whoever ended what these lanes' blocked rows wait for may have died before he promoted them.
    blocked = await promote_idle(db, idle)
    look = await last_look(db, [name for name in idle if name not in held.until], priorities=[priority])
    dues = next_dues(names, lanes=lanes, held=held, room=looked_at, look=look, blocked=blocked)
    show = _show(db, hosts, dues, priority=priority, lease_s=lease_s)
    if not jobs:
        await show
        return []
    shards = {host.shard for host in hosts}
    _, owned = await together(show, _still_owned(db, shards, owner=owner, epochs=epochs))
    if not owned:
        await hand_back(db, {stamp: [job.id for job in jobs]})
        return []
    by_host: dict[str, list[Job]] = {}
    for job in jobs:
        by_host.setdefault(job.lane, []).append(job)
    return [
        ClaimedHost(
            host=host,
            jobs=by_host[host.authority],
            foreign=held.foreign.get(host.authority, 0),
            probe=_probe_among(by_host[host.authority], oldest.get(host.authority)),
        )
        for host in hosts
        if host.authority in by_host
    ]


def _probe_among(jobs: Sequence[Job], oldest: Oldest | None) -> bytes | None:
    """The id of the job to probe with, if it was leased."""
    return next((job.id for job in jobs if oldest is not None and job.id == oldest.probe), None)


async def _hide(db: QueueDatabase, names: Sequence[str], *, priority: Priority, lease_s: float) -> None:
    # Without the majority: if a new primary does not have it, the claim died in this step, as any claim may (rule B).
    # The lease after it does wait, and this is then held too.
    hosts = db.hosts.with_options(write_concern=WriteConcern(w=1))
    await hosts.update_many(
        {"_id": {"$in": list(names)}, **db.now.has_come(f"ready.{priority.value}")},
        [{"$set": {f"due.{priority.value}": db.now.plus(lease_s)}}, {"$set": {"ready": READY}}],
    )


async def _lease(
    db: QueueDatabase,
    rows: Iterable[Document],
    *,
    early: Collection[object],
    owner: bytes,
    stamp: bytes,
    lease_s: float,
) -> list[Job]:
    picked: dict[bytes, Job] = {}
    malformed: list[tuple[Document, str]] = []
    for row in rows:
        try:
            job = job_of(row, stamp=stamp)
        except MalformedRow as error:
            malformed.append((row, str(error)))
        else:
            picked[job.id] = job
    if malformed:
        await park_malformed(db, malformed)
    if not picked:
        return []
    ids = list(picked)
    # Somebody may have leased it since it was read, and put it off: it is not due any more. A probe goes all the same.
    due: Document = db.now.has_come("run_at")
    if early:
        due = {"$or": [due, {"_id": {"$in": list(early)}}]}
    result = await db.jobs.update_many(
        {"_id": {"$in": ids}, "state": "queued", **due},
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
        return list(picked.values())
    # Some rows moved meanwhile: only what carries the stamp is ours.
    mine = db.jobs.find({"_id": {"$in": ids}, "state": "leased", "lease.stamp": stamp}, {"_id": 1})
    return [picked[row["_id"]] async for row in mine]


async def _show(
    db: QueueDatabase,
    hosts: Sequence[ReadyHost],
    dues: Sequence[NextDue],
    *,
    priority: Priority,
    lease_s: float,
) -> None:
    """Write when the hosts are due next, in one statement: the values of each by its place in a list.

    A time that has come is written as now, not as it is: so a host that had its turn stands behind those that had none.

    This waits for the majority: lost with a primary after it was answered, it would leave the hosts hidden for a whole
    lease (what hid them is held, since the lease after that was), and nobody would know that anything is to be undone.
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
            {"$set": {"ready": READY, "expire_at": expiry(db)}},
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
