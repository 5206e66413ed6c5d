# SPDX-License-Identifier: Apache-2.0
"""The job that a probe is made with: the oldest of its host, of both lines, whatever its `run_at` (rule F)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ojak.model.job import Priority
from ojak.store.database import Document, QueueDatabase
from ojak.store.lane import how_late
from ojak.store.met import Behind, behind_of
from ojak.store.now import EPOCH
from ojak.store.row import JOB_FIELDS

_LOOKED_AT: Final = 64
_BATCH: Final = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Oldest:
    """What is to be leased of a held host.

    Attributes:
        rows: the job to probe with, and those before it whose time is over: they end without a request.
        met: jobs before it whose sender or inbox is held: they are set aside.
        probe: the id of the job to probe with, or None if there is none.
    """

    rows: Sequence[Document]
    met: Sequence[Document]
    probe: object


async def oldest_jobs(
    db: QueueDatabase, lanes: Sequence[str], *, max_age_s: float, behind: Behind | None
) -> dict[str, Oldest]:
    """The job to probe each lane with; not one whose sender or inbox is held, which would never be sent."""
    if not lanes:
        return {}

    def branch(lane: str, priority: Priority) -> list[Document]:
        return [
            {"$match": {"state": "queued", "lane": lane, "priority": priority.value, "run_at": {"$gte": EPOCH}}},
            {"$sort": {"run_at": 1, "seq": 1}},
            {"$limit": _LOOKED_AT},
        ]

    first, *others = [branch(lane, priority) for lane in lanes for priority in Priority]
    pipeline = [
        *first,
        *({"$unionWith": {"coll": db.jobs.name, "pipeline": other}} for other in others),
        {
            "$project": {
                **dict.fromkeys(JOB_FIELDS, 1),
                "run_at": 1,
                "seq": 1,
                **how_late(db, max_age_s),
            }
        },
        {"$sort": {"run_at": 1, "seq": 1}},
    ]
    found: dict[str, list[Document]] = {lane: [] for lane in lanes}
    for row in await (await db.jobs.aggregate(pipeline, batchSize=_BATCH)).to_list():
        found[row["lane"]].append(row)
    return {lane: _pick(rows, behind) for lane, rows in found.items()}


def _pick(rows: Sequence[Document], behind: Behind | None) -> Oldest:
    picked: list[Document] = []
    met: list[Document] = []
    for row in rows:
        if row["too_old"] or row["past_deadline"]:
            picked.append(row)
        elif behind is not None and behind_of(row, behind) is not None:
            met.append(row)
        else:
            return Oldest(rows=[*picked, row], met=met, probe=row["_id"])
    return Oldest(rows=picked, met=met, probe=None)
