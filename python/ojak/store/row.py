# SPDX-License-Identifier: Apache-2.0
"""Rows of the jobs collection read as jobs; what cannot be read is parked (SPEC section 2)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from ojak.errors import StoreError
from ojak.model.job import Job, Priority
from ojak.model.outcome import FailureReason
from ojak.store.database import Document, QueueDatabase

T = TypeVar("T")


class MalformedRow(StoreError):
    """A row that this program cannot read; names the field."""


def job_of(row: Document, *, stamp: bytes) -> Job:
    """Read a row as the job that a lease with `stamp` holds.

    Raises:
        MalformedRow: a field is missing or of the wrong type.
    """
    last = row.get("last")
    return Job(
        id=bytes(_field(row, "_id", bytes)),
        lane=_field(row, "lane", str),
        inbox=_field(row, "inbox", str),
        shared=_field(row, "shared", bool),
        ref=row.get("ref") if isinstance(row.get("ref"), str) else None,
        sender=_field(row, "sender", str),
        activity_id=_field(row, "activity", str),
        body=bytes(_field(row, "body", bytes)),
        priority=Priority(_field(row, "priority", int)),
        tries=_field(row, "tries", int),
        deaths=_field(row, "deaths", int),
        ends=row["end"] if isinstance(row.get("end"), int) else 0,
        queued_at=_field(row, "queued_at", datetime),
        gone_before=isinstance(last, dict) and last.get("status") == 410,
        too_old=row.get("too_old") is True,
        stamp=stamp,
    )


def _field(row: Document, name: str, kind: type[T]) -> T:
    value = row.get(name)
    if not isinstance(value, kind):
        raise MalformedRow(f"{name} is a {type(value).__name__}; allowed is {kind.__name__}")
    return value


async def park_malformed(db: QueueDatabase, rows: Sequence[tuple[Any, str]]) -> None:
    """Set rows aside that cannot be read, with the reason, so that no claim meets them again."""
    for row_id, reason in rows:
        await db.jobs.update_one(
            {"_id": row_id, "state": "queued"},
            [
                {
                    "$set": {
                        "state": FailureReason.PARKED.value,
                        "end": {"$add": [{"$ifNull": ["$end", 0]}, 1]},
                        "told": False,
                        "finished_at": db.now.expr,
                        "last": {"reason": "unreadable", "detail": {"$literal": reason[:200]}},
                    }
                }
            ],
        )
