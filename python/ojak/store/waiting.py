# SPDX-License-Identifier: Apache-2.0
"""Portable deliveries that wait in the lane of one of their gateways: where they are, and taking hold of them."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final

from ojak.model.job import Job
from ojak.store.database import Document, QueueDatabase
from ojak.store.gateways import PORTABLE_INDEX
from ojak.store.row import JOB_FIELDS, MalformedRow, job_of

_WAITING: Final[Document] = {"portable": True, "state": "queued"}
LANES: Final[Sequence[Document]] = ({"$match": _WAITING}, {"$group": {"_id": "$lane"}})
"""The pipeline that finds their lanes. The database skips from one to the next: an entry of the index a lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A delivery that waits.

    Attributes:
        job: as the lease will hold it that is yet to be taken.
        wait_s: in how many seconds its own time comes; 0 if it has.
    """

    job: Job
    wait_s: float


async def waiting_lanes(db: QueueDatabase) -> list[str]:
    """The lanes where deliveries wait that have other gateways too. Reads the index alone, an entry a lane."""
    # Not `distinct`, whose answer is one document: names of gateways come from strangers, and so many do not fit.
    rows = await db.jobs.aggregate(list(LANES), hint=PORTABLE_INDEX)
    return [row["_id"] for row in await rows.to_list() if isinstance(row["_id"], str)]


async def waiting_in(db: QueueDatabase, lane: str, *, stamp: bytes, at_a_time: int) -> AsyncGenerator[list[Waiting]]:
    """What waits in a lane and has other gateways too, in pages. What cannot be read is left to a claim."""
    rows = db.jobs.find(
        {**_WAITING, "lane": lane},
        {**dict.fromkeys(JOB_FIELDS, 1), "wait_ms": {"$max": [0, {"$subtract": ["$run_at", db.now.expr]}]}},
    ).hint(PORTABLE_INDEX)
    page: list[Waiting] = []
    async for row in rows:
        try:
            page.append(Waiting(job=job_of(row, stamp=stamp), wait_s=(row.get("wait_ms") or 0) / 1000))
        except MalformedRow:
            continue
        if len(page) == at_a_time:
            yield page
            page = []
    if page:
        yield page


async def hold_waiting(
    db: QueueDatabase, jobs: Sequence[Job], *, lane: str, owner: bytes, stamp: bytes, lease_s: float
) -> list[Job]:
    """Lease what still waits in a lane, so that it can be moved; gives what was.

    Nothing is begun under such a lease, so it does not count among those that a delivery had: a Create that was only
    passed on is still dropped by its Delete.
    """
    ids = [job.id for job in jobs]
    result = await db.jobs.update_many(
        {"_id": {"$in": ids}, "state": "queued", "lane": lane},
        [{"$set": {"state": "leased", "lease": {"stamp": stamp, "by": owner, "until": db.now.plus(lease_s)}}}],
    )
    if result.modified_count == len(ids):
        return list(jobs)
    mine = db.jobs.find({"_id": {"$in": ids}, "state": "leased", "lease.stamp": stamp}, {"_id": 1})
    held = {row["_id"] async for row in mine}
    return [job for job in jobs if job.id in held]
