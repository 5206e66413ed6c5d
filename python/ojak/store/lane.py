# SPDX-License-Identifier: Apache-2.0
"""Lanes as a claim reads them: the head of each, what is leased in it, and when it is due next (rule B, 3 and 4)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ojak.model.job import Priority
from ojak.store.database import Document, QueueDatabase
from ojak.store.now import EPOCH, NEVER, later
from ojak.store.row import JOB_FIELDS

LANE_INDEX: Final = "lane"
"""Named in what is read at each claim: left to itself the server now and then tries the whole collection out."""
FULL_RECHECK_MS: Final = 500
"""A lane whose slots are all held, by a former owner's requests for example, is looked at again so soon."""
_BATCH: Final = 5000
_LOOKED_AT: Final = 1000
"""So many rows of idle lanes a last look reads: few enough that the database reads them without a pause."""


@dataclass(slots=True)
class HeldInLanes:
    """What is leased in lanes: until when at the earliest, and how much of it by others than the claimer."""

    until: dict[str, datetime]
    foreign: dict[str, int]


async def leased_in(db: QueueDatabase, names: Sequence[str], *, owner: bytes) -> HeldInLanes:
    """What is leased in lanes, by the asker and by others."""
    held = HeldInLanes({}, {})
    fields = {"_id": 0, "lane": 1, "lease.until": 1, "lease.by": 1}
    async for row in db.jobs.find({"state": "leased", "lane": {"$in": list(names)}}, fields).hint(LANE_INDEX):
        lane, lease = row["lane"], row.get("lease") or {}
        until = lease.get("until")
        if isinstance(until, datetime):
            held.until[lane] = min(until, held.until.get(lane, until))
        if lease.get("by") != owner:
            held.foreign[lane] = held.foreign.get(lane, 0) + 1
    return held


@dataclass(slots=True)
class LaneHead:
    """The head of a lane: the rows that can be leased now, and when the first after them can."""

    picked: list[Document]
    next_at: datetime | None
    read_at: datetime | None = None

    def is_idle_for(self, seconds: float) -> bool:
        """Whether nothing can be leased now, nor within so long."""
        if self.picked:
            return False
        if self.next_at is None or self.read_at is None:
            return self.next_at is None
        return self.next_at > later(self.read_at, seconds)


def head_branch(lane: str, priority: Priority, limit: int) -> list[Document]:
    """The pipeline that reads the head of one line of a lane: what is queued, in order, and one row more than wanted.

    The row beyond tells when the line is due next.
    """
    return [
        {"$match": {"state": "queued", "lane": lane, "priority": priority.value, "run_at": {"$gte": EPOCH}}},
        {"$sort": {"run_at": 1, "seq": 1}},
        {"$limit": limit + 1},
    ]


async def lane_heads(
    db: QueueDatabase, room: Mapping[str, int], *, priority: Priority, max_age_s: float
) -> dict[str, LaneHead]:
    """The head of each lane, as far as there is room.

    One branch a lane, so that every lane has its own limit and is read by the index alone. One read a lane would cost
    the client five times as much.
    """
    first, *others = [head_branch(lane, priority, limit) for lane, limit in room.items()]
    pipeline = [
        *first,
        *({"$unionWith": {"coll": db.jobs.name, "pipeline": other}} for other in others),
        {
            # No more than a job needs: decoding a row costs as much as all else that a claim does for it.
            "$project": {
                **dict.fromkeys(JOB_FIELDS, 1),
                "run_at": 1,
                "read_at": db.now.expr,
                **how_late(db, max_age_s),
            }
        },
    ]
    lanes = {name: LaneHead([], None) for name in room}
    # All at once: an awaited step for each row would cost more than reading it.
    for row in await (await db.jobs.aggregate(pipeline, batchSize=_BATCH)).to_list():
        lane = lanes[row["lane"]]
        if row["has_come"] and len(lane.picked) < room[row["lane"]]:
            lane.picked.append(row)
        elif lane.next_at is None:
            lane.next_at, lane.read_at = row["run_at"], row["read_at"]
    return lanes


def how_late(db: QueueDatabase, max_age_s: float) -> Document:
    """The fields that say whether a row's time has come, and whether it came too late."""
    return {
        "has_come": {"$lte": ["$run_at", db.now.expr]},
        "too_old": {"$and": [{"$gte": ["$queued_at", EPOCH]}, {"$lte": ["$queued_at", db.now.plus(-max_age_s)]}]},
        "past_deadline": {"$and": [{"$gt": ["$give_up_at", None]}, {"$lte": ["$give_up_at", db.now.expr]}]},
    }


@dataclass(frozen=True, slots=True)
class LastLook:
    """What a last look at idle lanes saw: when the first queued row of each is due, and where something is leased."""

    queued: Mapping[str, datetime]
    leased: Collection[str]


async def last_look(db: QueueDatabase, idle: Collection[str], *, priorities: Sequence[Priority]) -> LastLook:
    """Read all that is queued or leased of lanes that look idle, in one statement.

    What is leased and what is queued was read apart: a row that went from the one to the other in between was not seen,
    and a host that is written down as idle is not looked at again before somebody says so.
    """
    if not idle:
        return LastLook({}, frozenset())
    rows = (
        await db.jobs.find(
            {
                "state": {"$in": ["leased", "queued"]},
                "lane": {"$in": list(idle)},
                "priority": {"$in": [priority.value for priority in priorities]},
            },
            # The index alone has all of it.
            {"_id": 0, "state": 1, "lane": 1, "run_at": 1},
        )
        .sort({"state": 1, "lane": 1, "priority": 1, "run_at": 1})
        .limit(_LOOKED_AT)
        .hint(LANE_INDEX)
        .to_list()
    )
    # Of what was not read it is only known that it may be there.
    leased = set(idle) if len(rows) == _LOOKED_AT else {row["lane"] for row in rows if row["state"] == "leased"}
    queued: dict[str, datetime] = {}
    for row in rows:
        if row["state"] == "queued" and isinstance(row["run_at"], datetime):
            queued[row["lane"]] = min(row["run_at"], queued.get(row["lane"], row["run_at"]))
    return LastLook(queued, leased)


@dataclass(frozen=True, slots=True)
class NextDue:
    """When a lane is due next: at `at`, not before `after_ms` from now, at the latest in one lease if `leased`."""

    at: datetime
    leased: bool
    after_ms: int


def next_dues(
    authorities: Sequence[str],
    *,
    lanes: Mapping[str, LaneHead],
    held: HeldInLanes,
    room: Mapping[str, int],
    look: LastLook,
    blocked: Collection[str],
) -> list[NextDue]:
    """When each lane is due next; NEVER if nothing of it waits or is leased.

    What was picked is due again when its lease would end, whether or not leasing it succeeded: whoever took it may die.
    So may whoever queues what is blocked, before he says so.
    """
    dues: list[NextDue] = []
    for name in authorities:
        seen = (lanes[name].next_at, held.until.get(name), look.queued.get(name))
        times = [at for at in seen if at is not None]
        dues.append(
            NextDue(
                at=min(times, default=NEVER),
                leased=bool(lanes[name].picked) or name in look.leased or name in blocked,
                # Without room the lane would be due at once, and be found full at once, for as long as it is.
                after_ms=0 if room[name] else FULL_RECHECK_MS,
            )
        )
    return dues
