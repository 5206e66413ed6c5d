# SPDX-License-Identifier: Apache-2.0
"""Counts: how many deliveries are in which state, and what still waits and for when."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ojak.model.job import UNFINISHED
from ojak.model.selection import Selection
from ojak.store.database import Document, QueueDatabase
from ojak.store.outbox_state import WAITING
from ojak.store.row import OF_DELIVERIES
from ojak.store.select import selected

_AT_A_TIME: Final = 1000


async def count_by_state(db: QueueDatabase) -> dict[str, int]:
    """How many deliveries are in each state, ended ones included; not jobs of other kinds."""
    groups = await db.jobs.aggregate([{"$match": OF_DELIVERIES}, {"$group": {"_id": "$state", "count": {"$sum": 1}}}])
    return {str(group["_id"]): group["count"] async for group in groups}


async def count_waiting_of(db: QueueDatabase, selection: Selection) -> int:
    """How many deliveries of a sender are unfinished, and how many of its sends wait in the outbox."""
    # The outbox first: what leaves it meanwhile is found among the deliveries.
    count = await db.outbox.count_documents({"state": WAITING, "sender": selection.sender})
    async for rows in selected(db, selection, {"state": {"$in": list(UNFINISHED)}}, at_a_time=_AT_A_TIME):
        count += len(rows)
    return count


async def held_hosts(db: QueueDatabase) -> dict[str, datetime]:
    """Until when nothing goes to hosts that are held now, by authority. Meant for accounts, as `deliveries` is."""
    rows = db.hosts.find({"$expr": {"$gt": ["$hold_until", db.now.expr]}}, {"hold_until": 1})
    return {row["_id"]: row["hold_until"] async for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """One delivery as the queue has it, for accounts and lists.

    Attributes:
        activity_id, inbox, lane: what goes where.
        state: queued, blocked, leased, or how it ended.
        tries: attempts spent.
        deaths: workers that died while it ran.
        maybe_delivered: attempts that failed after the body was out.
        status, reason, scheme: of the last attempt.
        run_at: when its own time comes, if it waits; its host may be held for longer.
    """

    activity_id: str
    inbox: str
    lane: str
    state: str
    tries: int
    deaths: int
    maybe_delivered: int
    status: int | None
    reason: str
    scheme: str | None
    run_at: datetime | None


async def deliveries(db: QueueDatabase, *, bodies: Sequence[bytes] | None = None) -> list[DeliveryRow]:
    """Every delivery of the queue, or of some bodies. Meant for accounts over a test's or a demo's queue."""
    where: Document = OF_DELIVERIES if bodies is None else {"body": {"$in": list(bodies)}}
    found: list[DeliveryRow] = []
    async for row in db.jobs.find(where):
        last = row.get("last") or {}
        found.append(
            DeliveryRow(
                activity_id=row["activity"],
                inbox=row["inbox"],
                lane=row["lane"],
                state=row["state"],
                tries=row["tries"],
                deaths=row["deaths"],
                maybe_delivered=row.get("maybe", 0),
                status=last.get("status"),
                reason=last.get("reason") or "",
                scheme=last.get("scheme"),
                run_at=row.get("run_at"),
            )
        )
    return found
