# SPDX-License-Identifier: Apache-2.0
"""Gateways of portable inboxes in the database: whether their hosts are held, and how far an attempt at them is."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ojak.model.failover import OPEN, Came, Hold, Tried
from ojak.model.inbox import InvalidInbox, canonical_inbox
from ojak.store.database import Document, QueueDatabase
from ojak.store.now import EPOCH

PORTABLE_INDEX: Final = "portable"

_CAME: Final = {came.value: came for came in Came}


async def holds_of(db: QueueDatabase, authorities: Iterable[str]) -> dict[str, Hold]:
    """Of each of some hosts whether it is held; one read."""
    holds = dict.fromkeys(authorities, OPEN)
    held = db.hosts.find(
        {
            "_id": {"$in": list(holds)},
            "hold_until": {"$gte": EPOCH},
            "$expr": {"$gt": ["$hold_until", db.now.expr]},
        },
        {
            "left_ms": {"$subtract": ["$hold_until", db.now.expr]},
            "unavailable": {
                "$and": [
                    {"$eq": ["$breaker.open", True]},
                    {"$gt": ["$breaker.unavailable_at", None]},
                    {"$lte": ["$breaker.unavailable_at", db.now.expr]},
                    # What is paused waits, and is not given up on.
                    {"$not": [{"$gt": ["$settings.pause.until", db.now.expr]}]},
                ]
            },
        },
    )
    async for row in held:
        holds[row["_id"]] = Hold(left_s=row["left_ms"] / 1000, unavailable=row["unavailable"] is True)
    return holds


def lanes_of(gateways: Any) -> list[str]:
    """The lanes of a row's gateways, in order; none if they cannot be read."""
    try:
        return [canonical_inbox(origin).authority for origin in gateways]
    except (InvalidInbox, TypeError):
        return []


def tried_documents(tried: Sequence[Tried]) -> list[Document]:
    """What was tried, as rows keep it."""
    return [
        {
            "at": one.place,
            "came": one.came.value,
            "status": one.status,
            "reason": one.reason,
            "scheme": one.scheme,
            "free": one.free,
            "hold_s": one.hold_s,
        }
        for one in tried
    ]


def tried_of(value: Any, gateways: int) -> tuple[Tried, ...]:
    """Read what was tried. What cannot be read of it was not: that gateway is asked once more."""
    if not isinstance(value, list):
        return ()
    found: dict[int, Tried] = {}
    for one in value:
        if not isinstance(one, dict):
            continue
        place, came = one.get("at"), one.get("came")
        if isinstance(place, int) and 0 <= place < gateways and came in _CAME:
            status, scheme, hold_s = one.get("status"), one.get("scheme"), one.get("hold_s")
            found[place] = Tried(
                place=place,
                came=_CAME[came],
                status=status if isinstance(status, int) else None,
                reason=str(one.get("reason") or ""),
                scheme=scheme if isinstance(scheme, str) else None,
                free=one.get("free") is True,
                hold_s=float(hold_s) if isinstance(hold_s, int | float) else 0.0,
            )
    return tuple(found.values())
