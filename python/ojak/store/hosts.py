# SPDX-License-Identifier: Apache-2.0
"""Host records: when the lanes of a host are due (DESIGN section 3, "Why lanes" and rule B).

`due` says per priority when a host's next job can go, `hold_until` before when nothing goes whatever is due (a gate, or
an open breaker), and `ready`, the later of both, is what workers look for. `asks` counts who lowered `due`, so that a
claim which read the lane before such a change does not undo it.

While a breaker is open, `ready` is the end of the hold whatever is due, as long as anything waits: the probe takes the
oldest job though its time has not come. Of an unavailable host it is `due`: what waits is given up on at once. An
operator's pause goes before all of it.
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pymongo import UpdateOne
from pymongo.errors import AutoReconnect, ServerSelectionTimeoutError, WriteConcernError

from ojak.model.job import Priority
from ojak.model.kind import is_kind_lane
from ojak.shard import shard_of
from ojak.store.database import Document, QueueDatabase
from ojak.store.kind_lanes import lowering
from ojak.store.now import EPOCH, NEVER

IDLE_KEPT_S: Final = 30 * 86_400.0
"""Records of hosts nobody sends to expire so long after they became idle (SPEC section 4)."""

_ASKS_START: Final = 1 << 40

_PAUSED_UNTIL: Final = "$settings.pause.until"

HOLD: Final[dict[str, Any]] = {"$max": ["$gate_until", "$breaker.until", _PAUSED_UNTIL, EPOCH]}
"""`hold_until`, computed from what stands beside it; what is not there does not count."""


def _ready(due: str) -> dict[str, Any]:
    waits = {"$lt": [due, NEVER]}
    given_up = {"$max": [due, {"$ifNull": ["$breaker.unavailable_at", NEVER]}]}
    ready = {
        "$cond": [
            {"$and": [{"$eq": ["$breaker.open", True]}, waits]},
            {"$min": ["$hold_until", given_up]},
            {"$max": [due, "$hold_until"]},
        ]
    }
    # A pause holds also what would be given up on.
    return {"$max": [ready, _PAUSED_UNTIL]}


READY: Final[dict[str, Any]] = {str(priority.value): _ready(f"$due.{priority.value}") for priority in Priority}
"""`ready` of both priorities, computed from what stands beside it."""

_BULK: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """That a host has work of a priority in `delay_s` seconds, if not earlier."""

    authority: str
    priority: Priority
    delay_s: float = 0.0


async def lower_due(db: QueueDatabase, dues: Iterable[Due]) -> None:
    """Say that hosts have work, after the rows that say so were written. Makes the records that are not there yet.

    Also of lanes of other kinds, whose records stand elsewhere (`kind_lanes`).
    """
    earliest: dict[str, dict[Priority, float]] = {}
    for due in dues:
        of_host = earliest.setdefault(due.authority, {})
        of_host[due.priority] = min(due.delay_s, of_host.get(due.priority, due.delay_s))
    lanes: list[UpdateOne] = []
    alike: dict[tuple[tuple[Priority, float], ...], list[str]] = {}
    for authority, of_host in earliest.items():
        if is_kind_lane(authority):
            lanes.append(UpdateOne({"_id": authority}, lowering(db, of_host), upsert=True))
        else:
            alike.setdefault(tuple(sorted(of_host.items())), []).append(authority)
    apart: list[UpdateOne] = []
    for delays_s, authorities in alike.items():
        for start in range(0, len(authorities), _BULK):
            left = await _lower_alike(db, authorities[start : start + _BULK], dict(delays_s))
            apart += [UpdateOne({"_id": name}, host_lowering(db, name, dict(delays_s)), upsert=True) for name in left]
    for rows, updates in ((db.hosts, apart), (db.lanes, lanes)):
        for start in range(0, len(updates), _BULK):
            await rows.bulk_write(updates[start : start + _BULK], ordered=False)


async def _lower_alike(db: QueueDatabase, authorities: list[str], delays_s: Mapping[Priority, float]) -> list[str]:
    """Make hosts due at the same time that have records; gives those that are still to be lowered, each for itself.

    In one statement, whose text the server reads once: of a fan-out that is most of what it costs. Retries, each due at
    a time of its own, are alike to nothing.
    """
    if len(authorities) == 1:
        return authorities
    whole = {"_id": {"$in": authorities}, "shard": {"$exists": True}, "asks": {"$type": "number"}}
    try:
        result = await db.hosts.update_many(whole, _lowering(db, delays_s))
    except ServerSelectionTimeoutError:
        raise
    except (AutoReconnect, WriteConcernError):
        # The driver does not repeat it when the primary changes, as it does what is updated one by one.
        return authorities
    if result.matched_count == len(authorities):
        return []
    known = {row["_id"] async for row in db.hosts.find(whole, {"_id": 1})}
    # Unless one came in between: it is there, and was not lowered. Doing so twice is harmless.
    return [name for name in authorities if name not in known] if len(known) == result.matched_count else authorities


async def dues_of(db: QueueDatabase, rows: Document, *, delay_s: float = 0.0) -> list[Due]:
    """What `lower_due` must be told about the jobs that a filter finds: read before they change, told after."""
    return [
        Due(authority=row["lane"], priority=Priority(row["priority"]), delay_s=delay_s)
        async for row in db.jobs.find(rows, {"_id": 0, "lane": 1, "priority": 1})
    ]


async def look_again(db: QueueDatabase, hosts: Document, *, within_s: float) -> None:
    """Make hosts due now that are due within a lease: a claim that died has hidden them for that long (rule B, 2).

    Args:
        db: the queue.
        hosts: a filter.
        within_s: the length of a lease.
    """
    soonest = {
        name: {
            "$cond": [
                {"$lte": [f"$due.{name}", db.now.plus(within_s)]},
                {"$min": [f"$due.{name}", db.now.expr]},
                f"$due.{name}",
            ]
        }
        for name in READY
    }
    await db.hosts.update_many(
        hosts, [{"$set": {"due": soonest, "asks": {"$add": ["$asks", 1]}}}, {"$set": {"ready": READY}}]
    )


def host_lowering(db: QueueDatabase, authority: str, delays_s: Mapping[Priority, float]) -> list[Document]:
    """The update that makes a host due in so many seconds, if not earlier. Upserted, it makes the record."""
    made = {
        "shard": {"$ifNull": ["$shard", shard_of(authority)]},
        "quick": {"$ifNull": ["$quick", False]},
        # Random at first: a record that expired and came back must not repeat a number some claim remembers.
        "asks": {"$ifNull": ["$asks", secrets.randbelow(_ASKS_START)]},
        "hold_until": {"$ifNull": ["$hold_until", EPOCH]},
    }
    return [{"$set": made}, *_lowering(db, delays_s)]


def _lowering(db: QueueDatabase, delays_s: Mapping[Priority, float]) -> list[Document]:
    """The same for a host that has a record."""
    due: Document = {}
    for priority in Priority:
        held = {"$ifNull": [f"$due.{priority.value}", NEVER]}
        if priority in delays_s:
            delay_s = delays_s[priority]
            due[str(priority.value)] = {"$min": [held, db.now.plus(delay_s) if delay_s else db.now.expr]}
        else:
            due[str(priority.value)] = held
    return [
        {"$set": {"due": due, "asks": {"$add": ["$asks", 1]}}},
        {"$set": {"ready": READY, "expire_at": "$$REMOVE"}},
    ]


def expiry(db: QueueDatabase) -> Document:
    """When a record expires, computed from what stands in it: only while its host is idle and nothing is set for it.

    A record with settings stays, so that no record made anew could be sent to before it has them.
    """
    idle = [{"$gte": [f"$due.{name}", NEVER]} for name in READY]
    unset = {"$eq": [{"$type": "$settings"}, "missing"]}
    return {"$cond": [{"$and": [*idle, unset]}, db.now.plus(IDLE_KEPT_S), "$$REMOVE"]}


async def hold_host(db: QueueDatabase, authority: str, hold_s: float) -> None:
    """Let no request go to a host for `hold_s` seconds from now."""
    await db.hosts.update_one({"_id": authority}, [*_holding(db, hold_s)])


def _holding(db: QueueDatabase, hold_s: float) -> list[Document]:
    gate = {"$max": ["$gate_until", db.now.plus(hold_s)]}
    return [{"$set": {"gate_until": gate}}, {"$set": {"hold_until": HOLD}}, {"$set": {"ready": READY}}]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNews:
    """What a worker learnt of a host since it last wrote it down.

    Attributes:
        authority: the host.
        proven: whether its last attempt came through.
        quick: whether it did, and answers come quickly.
        answer_ms: how long its answers take, smoothed, or None if none came.
        narrowed_to: how many requests it may have open while that is fewer than it is allowed, else None.
        scheme: the scheme that it was shown to take, or None if nothing was learnt.
        scheme_kept_s: how long that is remembered.
        scheme_firm_s: how long hints do not change it.
        hold_s: seconds from now before which no request goes to the host, or None.
    """

    authority: str
    proven: bool
    quick: bool
    answer_ms: float | None
    narrowed_to: int | None = None
    scheme: str | None = None
    scheme_kept_s: float = 0.0
    scheme_firm_s: float = 0.0
    hold_s: float | None = None


async def write_news(db: QueueDatabase, news: Iterable[HostNews]) -> None:
    """Write down what was learnt of hosts. A host whose record expired meanwhile is left alone."""
    updates = [UpdateOne({"_id": item.authority}, _news(db, item)) for item in news]
    if updates:
        await db.hosts.bulk_write(updates, ordered=False)


def _news(db: QueueDatabase, item: HostNews) -> list[Document]:
    fields: Document = {
        "proven": item.proven,
        "quick": item.quick,
        ("last_success" if item.proven else "last_failure"): db.now.expr,
        "narrowed_to": "$$REMOVE" if item.narrowed_to is None else item.narrowed_to,
    }
    if item.answer_ms is not None:
        fields["answer_ms"] = round(item.answer_ms, 1)
    if item.scheme is not None:
        fields["scheme"] = {
            "name": item.scheme,
            "until": db.now.plus(item.scheme_kept_s),
            "firm_until": db.now.plus(item.scheme_firm_s),
        }
    return [{"$set": fields}, *(_holding(db, item.hold_s) if item.hold_s is not None else [])]
