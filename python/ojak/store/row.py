# SPDX-License-Identifier: Apache-2.0
"""Rows of the jobs collection read as jobs; what cannot be read is parked (SPEC section 2)."""

from collections.abc import Sequence
from typing import Any, Final

from bson import Timestamp

from ojak.errors import StoreError
from ojak.model.failover import Route
from ojak.model.inbox import InvalidInbox, canonical_inbox
from ojak.model.job import Job, Priority
from ojak.model.kind import DELIVERY
from ojak.model.outcome import FailureReason
from ojak.store.database import Document, QueueDatabase
from ojak.store.gateways import tried_of
from ojak.store.order import promote

OF_DELIVERIES: Final[Document] = {"kind": {"$in": [DELIVERY, None]}}
"""A filter that leaves out jobs of other kinds, and nothing that cannot be read."""

_FIELDS: Final = (
    ("_id", bytes),
    ("lane", str),
    ("inbox", str),
    ("shared", bool),
    ("sender", str),
    ("activity", str),
    ("body", bytes),
    ("priority", int),
    ("tries", int),
    ("deaths", int),
    ("leases", int),
)
JOB_FIELDS: Final = (
    *(name for name, _ in _FIELDS),
    "ref",
    "end",
    "order",
    "since",
    "gateways",
    "at",
    "tried",
    "scout",
)
"""What a row is read for."""
_PRIORITIES: Final = {priority.value: priority for priority in Priority}


class MalformedRow(StoreError):
    """A row that this program cannot read; names the field."""


def job_of(row: Document, *, stamp: bytes) -> Job:
    """Read a row as the job that a lease with `stamp` holds.

    Raises:
        MalformedRow: a field is missing or of the wrong type.
    """
    for name, kind in _FIELDS:
        if not isinstance(row.get(name), kind):
            raise MalformedRow(f"{name} is a {type(row.get(name)).__name__}; allowed is {kind.__name__}")
    if not isinstance(row.get("end", 0), int):
        # Every later write counts on with it.
        raise MalformedRow(f"end is a {type(row['end']).__name__}; allowed is int")
    priority = row["priority"]
    if priority not in _PRIORITIES:
        raise MalformedRow(f"priority is {priority!r}; allowed is 0 or 1")
    ref, end, scout = row.get("ref"), row.get("end"), row.get("scout")
    order, since, gateways = row.get("order"), row.get("since"), row.get("gateways")
    return Job(
        id=row["_id"],
        lane=row["lane"],
        inbox=row["inbox"],
        shared=row["shared"],
        ref=ref if isinstance(ref, str) else None,
        sender=row["sender"],
        activity_id=row["activity"],
        body=row["body"],
        priority=_PRIORITIES[priority],
        tries=row["tries"],
        deaths=row["deaths"],
        ends=end or 0,
        too_old=row.get("too_old") is True,
        past_deadline=row.get("past_deadline") is True,
        stamp=stamp,
        order=order if isinstance(order, bytes) else None,
        since=seq_number(since) if isinstance(since, Timestamp) else None,
        route=_route_of(row, gateways) if gateways is not None else None,
        scout=scout if isinstance(scout, bytes) else None,
    )


def _route_of(row: Document, gateways: Any) -> Route:
    """Read the gateways of a portable row. What it is sent to must be in the lane that it is counted in."""
    at = row.get("at")
    if not isinstance(gateways, list) or not all(isinstance(one, str) for one in gateways):
        raise MalformedRow("gateways is no list of origins")
    if not isinstance(at, int) or not 0 <= at < len(gateways):
        raise MalformedRow(f"at is {at!r}; allowed is 0 to {len(gateways) - 1}")
    route = Route(origins=tuple(gateways), place=at, tried=tried_of(row.get("tried"), len(gateways)))
    try:
        lane = canonical_inbox(route.url(row["inbox"])).authority
    except InvalidInbox as error:
        raise MalformedRow(f"gateways[{at}] cannot be sent to: {error}") from error
    if lane != row["lane"]:
        raise MalformedRow(f"lane is {row['lane']!r}; allowed is that of its gateway, {lane!r}")
    return route


def seq_number(seq: Timestamp) -> int:
    """The database's rising timestamp as a number that leaves this package."""
    return seq.time << 32 | seq.inc


async def park_malformed(db: QueueDatabase, rows: Sequence[tuple[Document, str]]) -> None:
    """Set rows aside that cannot be read, with the reason, so that no claim meets them again."""
    for row, reason in rows:
        await db.jobs.update_one(
            {"_id": row["_id"], "state": "queued"},
            [
                {
                    "$set": {
                        "state": FailureReason.PARKED.value,
                        # Nothing of such a row can be counted on.
                        "end": {"$add": [{"$cond": [{"$isNumber": "$end"}, "$end", 0]}, 1]},
                        "told": False,
                        "finished_at": db.now.expr,
                        "last": {"reason": "unreadable", "detail": {"$literal": reason[:200]}},
                    }
                }
            ],
        )
    await promote(db, [order for row, _ in rows if isinstance(order := row.get("order"), bytes)])
