# SPDX-License-Identifier: Apache-2.0
"""Give up: what no worker has ends without an attempt, held or not (SPEC section 2)."""

from collections.abc import Sequence

from ojak.model.job import WAITING
from ojak.model.outcome import FailureReason, SettledOutcome
from ojak.store.database import Document, QueueDatabase
from ojak.store.leaving import end_number
from ojak.store.order import promote


async def end_waiting(
    db: QueueDatabase,
    rows: Sequence[Document],
    outcome: SettledOutcome | FailureReason,
    *,
    reason: str,
    where: Document | None = None,
) -> int:
    """End rows that wait; gives how many. One that a worker leased meanwhile is left to it.

    Args:
        db: the queue.
        rows: with `_id`, and `order` if they have one.
        outcome: how they end.
        reason: why, where nothing was ever answered; what was last answered stays.
        where: what must still be true of them.
    """
    result = await db.jobs.update_many(
        {"_id": {"$in": [row["_id"] for row in rows]}, "state": {"$in": list(WAITING)}, **(where or {})},
        [
            {
                "$set": {
                    "state": outcome.value,
                    "end": end_number(),
                    "told": False,
                    "finished_at": db.now.expr,
                    "last.reason": {"$ifNull": ["$last.reason", reason]},
                }
            }
        ],
    )
    await promote(db, [row["order"] for row in rows if "order" in row])
    return result.modified_count
