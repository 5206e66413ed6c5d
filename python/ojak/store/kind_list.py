# SPDX-License-Identifier: Apache-2.0
"""Looking at jobs of other kinds: one, some, and how each kind stands; and queueing ended ones again."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from pymongo import DESCENDING, UpdateOne

from ojak.errors import InputError
from ojak.model.job import UNFINISHED, JobState, Priority
from ojak.model.kind import DELIVERY, is_kind_lane, kind_of, lanes_of
from ojak.model.kind_job import JobInfo, JobOutcome, KindStatus
from ojak.store.batches import FAILED
from ojak.store.database import Document, QueueDatabase
from ojak.store.hosts import Due, lower_due
from ojak.store.kind_lanes import known_lanes
from ojak.store.kind_row import job_info_of
from ojak.store.now import EPOCH
from ojak.store.order import promote
from ojak.store.revival import revival

ALL_JOB_STATES: Final = (*UNFINISHED, *(outcome.value for outcome in JobOutcome))
_AT_A_TIME: Final = 500


class UnknownJob(InputError):
    """No job with that id is kept; names it."""


async def job_of_id(db: QueueDatabase, job_id: bytes) -> JobInfo:
    """One job as the queue has it.

    Raises:
        UnknownJob: none with this id is kept.
    """
    row = await db.jobs.find_one({"_id": job_id, "kind": {"$ne": DELIVERY}}, {"payload": 0})
    if row is None:
        raise UnknownJob(f"job {job_id.hex()!r} is not known; they are kept for some days after their end")
    return job_info_of(row)


async def list_jobs(db: QueueDatabase, kind: str | None, *, states: Collection[str], limit: int) -> list[JobInfo]:
    """Jobs of a kind, or of all kinds but deliveries, in some states: unfinished ones first, then the latest ends."""
    lanes = await known_lanes(db) if kind is None else list(lanes_of(kind))
    rows: list[Document] = []
    unfinished = sorted(set(states) & set(UNFINISHED))
    if unfinished:
        found = db.jobs.find({"lane": {"$in": lanes}, "state": {"$in": unfinished}}, {"payload": 0}).limit(limit)
        rows += await found.to_list()
    ended = sorted(set(states) - set(UNFINISHED))
    if ended and len(rows) < limit:
        where: Document = {"lane": {"$in": lanes}, "state": {"$in": ended}}
        if JobOutcome.DONE not in states:
            # The index is known to hold the rows only if its own filter stands in the query, word for word.
            where["$and"] = [{"state": {"$in": list(FAILED)}}]
        rows += (
            await db.jobs.find(where, {"payload": 0}).sort("finished_at", DESCENDING).limit(limit - len(rows)).to_list()
        )
    return [job_info_of(row) for row in rows]


async def kind_statuses(db: QueueDatabase) -> list[KindStatus]:
    """How each kind stands that has unfinished jobs or a worker. What it reads grows with those jobs, not the queue."""
    workers = await _workers_by_kind(db)
    lanes = await known_lanes(db)
    counts: dict[str, dict[str, int]] = {kind: {} for kind in workers}
    oldest: dict[str, datetime] = {}
    groups = await db.jobs.aggregate(
        [
            {"$match": {"state": {"$in": list(UNFINISHED)}, "lane": {"$in": lanes}}},
            {
                "$group": {
                    "_id": {"lane": "$lane", "state": "$state"},
                    "n": {"$sum": 1},
                    "oldest": {"$min": "$queued_at"},
                }
            },
        ]
    )
    for group in await groups.to_list():
        kind, state = kind_of(group["_id"]["lane"]), group["_id"]["state"]
        of_kind = counts.setdefault(kind, {})
        of_kind[state] = of_kind.get(state, 0) + group["n"]
        if state != JobState.LEASED and isinstance(group["oldest"], datetime):
            oldest[kind] = min(group["oldest"], oldest.get(kind, group["oldest"]))
    now = await db.server_time()
    return [
        KindStatus(
            kind=kind,
            counts=counts[kind],
            oldest_at=oldest.get(kind),
            oldest_s=max(0.0, (now - oldest[kind]).total_seconds()) if kind in oldest else 0.0,
            workers=workers.get(kind, 0),
        )
        for kind in sorted(counts)
    ]


async def _workers_by_kind(db: QueueDatabase) -> dict[str, int]:
    """How many living `run()`s have a handler for each kind: they say so once, when they join."""
    found: dict[str, int] = {}
    living = {"until": {"$gte": EPOCH}, "$expr": {"$gt": ["$until", db.now.expr]}, "dead": {"$ne": True}}
    async for row in db.workers.find(living, {"kinds": 1}):
        for kind in row.get("kinds", ()):
            found[kind] = found.get(kind, 0) + 1
    return found


async def replay_jobs(db: QueueDatabase, rows: Document, *, outcomes: Collection[str]) -> int:
    """Queue ended jobs again that a filter finds; gives how many. In bounded steps; can be repeated."""
    count = 0
    # Not what ends while this goes on: a job that fails at once would be queued again for ever.
    before = {"$lte": await db.server_time()}
    while True:
        where = {**rows, "state": {"$in": sorted(outcomes)}, "kind": {"$ne": DELIVERY}, "finished_at": before}
        found = (
            await db.jobs.find(where, {"state": 1, "order": 1, "lane": 1, "priority": 1}).limit(_AT_A_TIME).to_list()
        )
        found = [row for row in found if is_kind_lane(row["lane"])]
        if not found:
            return count
        updates = [UpdateOne({"_id": row["_id"], "state": row["state"]}, _again(db, row)) for row in found]
        count += (await db.jobs.bulk_write(updates, ordered=False)).modified_count
        await lower_due(db, _dues(found))
        await promote(db, [row["order"] for row in found if "order" in row])


def _dues(rows: Sequence[Document]) -> list[Due]:
    return [Due(authority=row["lane"], priority=Priority(row["priority"])) for row in rows if "order" not in row]


def _again(db: QueueDatabase, row: Document) -> list[Document]:
    """As a new call would revive it, with what it had."""
    update, unset = revival(db, {"order": row["order"]} if "order" in row else {})
    # Nobody is told of ends of these kinds.
    del update["$set"]["owed"]
    gone = {"told", "finished_at", "expire_at", "lease", "last", "cancel"}
    return [update, {"$unset": [name for name in unset["$unset"] if name in gone]}]
