# SPDX-License-Identifier: Apache-2.0
"""The sweep: hosts that have work and are not due for it become due, and how many there were is an alarm.

Only an enqueuer that died between writing rows and lowering `due` leaves anything to it (rule B).
"""

from datetime import datetime
from typing import Final

from ojak.model.job import Priority
from ojak.model.kind import is_kind_lane
from ojak.store.database import QueueDatabase
from ojak.store.hosts import Due, lower_due
from ojak.store.kind_lanes import dues_in
from ojak.store.now import later

_LANES: Final = 50_000


async def mend_dues(db: QueueDatabase, *, lease_s: float) -> int:
    """Make every lane due whose first row is due before its host is; gives how many were mended.

    A host that is being claimed is due in one lease at the latest, so those that are due later have been forgotten.
    """
    latest = later(await db.server_time(), lease_s)
    lanes = await db.jobs.aggregate(
        [
            {"$match": {"state": "queued", **db.now.has_come("run_at")}},
            {"$group": {"_id": {"lane": "$lane", "priority": "$priority"}}},
            {"$limit": _LANES},
            {
                "$lookup": {
                    "from": db.hosts.name,
                    "localField": "_id.lane",
                    "foreignField": "_id",
                    "pipeline": [{"$project": {"due": 1}}],
                    "as": "host",
                }
            },
        ]
    )
    idle: list[Due] = []
    kinds: list[Due] = []
    async for row in lanes:
        lane, number = row["_id"].get("lane"), row["_id"].get("priority")
        if not isinstance(lane, str) or not isinstance(number, int) or number not in set(Priority):
            continue
        if is_kind_lane(lane):
            kinds.append(Due(authority=lane, priority=Priority(number)))
            continue
        dues = row["host"][0].get("due") if row["host"] else None
        due = dues.get(str(number)) if isinstance(dues, dict) else None
        if not isinstance(due, datetime) or due > latest:
            idle.append(Due(authority=lane, priority=Priority(number)))
    known = await dues_in(db, [due.authority for due in kinds]) if kinds else {}
    for item in kinds:
        due = known.get(item.authority, {}).get(str(item.priority.value))
        if not isinstance(due, datetime) or due > latest:
            idle.append(item)
    await lower_due(db, idle)
    return len(idle)
