# SPDX-License-Identifier: Apache-2.0
"""Leaving a lease without an outcome: a row waits again, or ends if it was cancelled meanwhile (rule C)."""

from collections.abc import Mapping
from typing import Any, Final

from ojak.model.outcome import SettledOutcome
from ojak.store.database import Document, QueueDatabase

FLAGGED: Final[Mapping[str, Any]] = {"$gt": ["$cancel", None]}
"""Whether a leased row is to end as cancelled as soon as its lease does."""


def end_number() -> Document:
    """The number of the end that is being written."""
    return {"$add": [{"$ifNull": ["$end", 0]}, 1]}


def to_queue(db: QueueDatabase, fields: Mapping[str, Any] | None = None) -> list[Document]:
    """The update that makes a leased row queued, with some fields set; cancelled if it is flagged."""
    return leaving_for(db, "queued", fields)


def leaving_for(db: QueueDatabase, state: str, fields: Mapping[str, Any] | None = None) -> list[Document]:
    """The update that takes a leased row to a state that is no end, with some fields set; cancelled if flagged."""

    def if_flagged(value: Any, otherwise: Any) -> Document:
        return {"$cond": [FLAGGED, value, otherwise]}

    return [
        {
            "$set": {
                **(fields or {}),
                "state": if_flagged(SettledOutcome.CANCELLED.value, state),
                "end": if_flagged(end_number(), {"$ifNull": ["$end", "$$REMOVE"]}),
                "told": if_flagged(False, "$$REMOVE"),
                "finished_at": if_flagged(db.now.expr, "$$REMOVE"),
            }
        },
        {"$unset": "lease"},
    ]


async def orders_freed(db: QueueDatabase, rows: Document) -> list[bytes]:
    """The orders of those rows that ended as cancelled: to promote in, after they have."""
    ended = {**rows, "state": SettledOutcome.CANCELLED.value, "order": {"$exists": True}}
    return [row["order"] async for row in db.jobs.find(ended, {"_id": 0, "order": 1})]
