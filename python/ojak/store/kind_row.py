# SPDX-License-Identifier: Apache-2.0
"""Rows of jobs of other kinds, read as jobs; what cannot be read is parked (SPEC section 2)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from ojak.errors import StoreError
from ojak.model.job import Priority
from ojak.model.kind import kind_of
from ojak.model.kind_job import JobInfo, JobOutcome, KindJob
from ojak.store.database import Document, QueueDatabase
from ojak.store.order import promote

_FIELDS: Final = (
    ("_id", bytes),
    ("kind", str),
    ("lane", str),
    ("payload", bytes),
    ("priority", int),
    ("tries", int),
    ("deaths", int),
    ("leases", int),
    ("queued_at", datetime),
)


class MalformedJob(StoreError):
    """A row that this program cannot read; names the field."""


def kind_job_of(row: Document, *, stamp: bytes) -> KindJob:
    """Read a row as the job that a lease with `stamp` holds.

    Raises:
        MalformedJob: a field is missing or of the wrong type.
    """
    for name, kind in _FIELDS:
        if not isinstance(row.get(name), kind):
            raise MalformedJob(f"{name} is a {type(row.get(name)).__name__}; allowed is {kind.__name__}")
    if row["kind"] != kind_of(row["lane"]):
        raise MalformedJob(f"kind is {row['kind']!r}; allowed in this lane is {kind_of(row['lane'])!r}")
    if not isinstance(row.get("end", 0), int):
        # Every later write counts on with it.
        raise MalformedJob(f"end is a {type(row['end']).__name__}; allowed is int")
    key, order = row.get("key"), row.get("order")
    return KindJob(
        id=row["_id"],
        kind=row["kind"],
        lane=row["lane"],
        priority=Priority(row["priority"]),
        key=key if isinstance(key, str) else None,
        payload=row["payload"],
        tries=row["tries"],
        deaths=row["deaths"],
        order=order if isinstance(order, bytes) else None,
        queued_at=row["queued_at"],
        stamp=stamp,
    )


async def park_leased(db: QueueDatabase, rows: Sequence[tuple[Document, str]], *, stamp: bytes) -> None:
    """Set leased rows aside that cannot be read, with the reason, so that no claim meets them again."""
    for row, reason in rows:
        await db.jobs.update_one(
            {"_id": row["_id"], "state": "leased", "lease.stamp": stamp},
            [
                {
                    "$set": {
                        "state": JobOutcome.PARKED.value,
                        # Nothing of such a row can be counted on.
                        "end": {"$add": [{"$cond": [{"$isNumber": "$end"}, "$end", 0]}, 1]},
                        "told": False,
                        "finished_at": db.now.expr,
                        "last": {"reason": "unreadable", "detail": {"$literal": reason[:200]}},
                    }
                },
                {"$unset": "lease"},
            ],
        )
    await promote(db, [order for row, _ in rows if isinstance(order := row.get("order"), bytes)])


def job_info_of(row: Document) -> JobInfo:
    """Read a row for people, as far as it can be read."""
    last: Any = row.get("last")
    last = last if isinstance(last, dict) else {}
    key, state, run_at = row.get("key"), str(row.get("state", "")), row.get("run_at")
    return JobInfo(
        id=bytes(row["_id"]).hex(),
        kind=str(row.get("kind", "")),
        key=key if isinstance(key, str) else None,
        state=state,
        attempts=_count(row, "tries"),
        deaths=_count(row, "deaths"),
        reason=str(last.get("reason") or ""),
        detail=str(last.get("detail") or ""),
        next_try=run_at if state == "queued" and isinstance(run_at, datetime) else None,
        queued_at=_moment(row, "queued_at"),
        finished_at=_moment(row, "finished_at"),
    )


def _count(row: Document, name: str) -> int:
    value = row.get(name)
    return value if isinstance(value, int) else 0


def _moment(row: Document, name: str) -> datetime | None:
    value = row.get(name)
    return value if isinstance(value, datetime) else None
