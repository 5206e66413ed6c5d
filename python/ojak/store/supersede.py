# SPDX-License-Identifier: Apache-2.0
"""Supersede: what was not begun is dropped when what takes it back is queued after it (DESIGN section 3, rule G).

A Create is dropped by its Delete; a Follow, Like or Announce by its Undo. The sender of the Delete drops the rows that
stand already. What a fan-out still inserts after that is found by the worker that leases it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ojak.model.job import WAITING, Job, job_id
from ojak.model.order import TAKEN_BACK_BY
from ojak.model.outcome import SettledOutcome
from ojak.store.database import Document, QueueDatabase
from ojak.store.row import seq_number

REASON: Final = "taken-back"
_NOT_BEGUN: Final = {"state": {"$in": list(WAITING)}, "leases": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """An activity that is taken back: its id or hash, and the key of its body."""

    activity_identity: str
    body: bytes


async def taken_back(db: QueueDatabase, about: str, *, types: Sequence[str], sender: str) -> tuple[Taken, ...]:
    """What a Delete or an Undo takes back: activities of these types about the same, by the same sender."""
    rows = db.bodies.find({"about": about, "type": {"$in": list(types)}, "senders": sender}, {"activity": 1})
    return tuple([Taken(activity_identity=row["activity"], body=row["_id"]) async for row in rows])


async def drop_taken_back(
    db: QueueDatabase, taken: Sequence[Taken], *, sender: str, inboxes: Sequence[str]
) -> list[bytes]:
    """End as superseded what was taken back to these inboxes and never leased; gives the orders to `promote` in.

    Called after the rows of what takes them back are inserted and before these are looked at, so that whatever is
    promoted by it finds them.
    """
    ids = [job_id(item.activity_identity, inbox) for item in taken for inbox in inboxes]
    rows = await db.jobs.find({"_id": {"$in": ids}, "sender": sender, **_NOT_BEGUN}, {"order": 1}).to_list()
    if rows:
        await db.jobs.update_many(
            {"_id": {"$in": [row["_id"] for row in rows]}, **_NOT_BEGUN},
            [
                {
                    "$set": {
                        "state": SettledOutcome.SUPERSEDED.value,
                        "end": {"$add": [{"$ifNull": ["$end", 0]}, 1]},
                        "told": False,
                        "finished_at": db.now.expr,
                        "last": {"reason": REASON},
                    }
                }
            ],
        )
    return [row["order"] for row in rows if "order" in row]


async def superseded(db: QueueDatabase, jobs: Sequence[Job]) -> set[bytes]:
    """Which of the jobs just leased are taken back by what was queued after they were handed over.

    What takes them back may have ended already, and they may stand behind it: a fan-out inserts its rows in chunks,
    and the Delete can come in between. A post that was taken back and published again was handed over after that.
    """
    fresh = [job for job in jobs if job.since is not None and job.tries == 0 and not job.has_begun]
    if not fresh:
        return set()
    takers = await _takers(db, {job.body for job in fresh})
    rows: dict[bytes, list[Job]] = {}
    for job in fresh:
        for taker in takers.get(job.body, ()):
            if job.sender in taker.get("senders", ()):
                rows.setdefault(job_id(taker["activity"], job.inbox), []).append(job)
    if not rows:
        return set()
    found: set[bytes] = set()
    async for row in db.jobs.find({"_id": {"$in": list(rows)}}, {"seq": 1, "sender": 1}):
        number = seq_number(row["seq"])
        for job in rows[row["_id"]]:
            if row["sender"] == job.sender and job.since is not None and number > job.since:
                found.add(job.id)
    return found


async def _takers(db: QueueDatabase, bodies: set[bytes]) -> dict[bytes, list[Document]]:
    """What takes back each of some bodies, whoever sent it."""
    pairs = await db.bodies.aggregate(
        [
            {"$match": {"_id": {"$in": list(bodies)}, "about": {"$exists": True}}},
            {"$project": {"about": 1, "type": 1}},
            {
                "$lookup": {
                    "from": db.bodies.name,
                    "localField": "about",
                    "foreignField": "about",
                    "pipeline": [
                        {"$match": {"type": {"$in": sorted(set(TAKEN_BACK_BY.values()))}}},
                        {"$project": {"activity": 1, "type": 1, "senders": 1}},
                    ],
                    "as": "takers",
                }
            },
            {"$match": {"takers": {"$ne": []}}},
        ]
    )
    return {
        row["_id"]: [taker for taker in row["takers"] if taker["type"] == TAKEN_BACK_BY.get(row["type"])]
        for row in await pairs.to_list()
    }
