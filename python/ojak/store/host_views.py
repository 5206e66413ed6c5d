# SPDX-License-Identifier: Apache-2.0
"""Host records read for people: one, some, and what is paused with how much waits for it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING

from ojak.breaker.circuit import CircuitState
from ojak.model.host import HostBreaker, HostFilter, HostRecord, HostSort, HostState, Pause, UnknownHost
from ojak.model.job import UNFINISHED, Priority
from ojak.store.breakers import circuit_of
from ojak.store.database import Document, QueueDatabase
from ojak.store.host_settings import overrides_of
from ojak.store.notices import pause_of, pause_of_everything
from ojak.store.now import EPOCH, NEVER

_ORDERS: Final[dict[HostSort, list[tuple[str, int]]]] = {
    HostSort.NAME: [("_id", ASCENDING)],
    HostSort.HELD: [("hold_until", DESCENDING), ("_id", ASCENDING)],
    HostSort.SLOW: [("answer_ms", DESCENDING), ("_id", ASCENDING)],
    HostSort.FAILURE: [("last_failure", DESCENDING), ("_id", ASCENDING)],
}
_PAUSES_MAX: Final = 1000


def _filter(db: QueueDatabase, which: HostFilter | None) -> Document:
    match which:
        case HostFilter.HELD:
            return {"$expr": {"$gt": ["$hold_until", db.now.expr]}}
        case HostFilter.OPEN:
            return {"breaker.open": True}
        case HostFilter.PAUSED:
            return {"$expr": {"$gt": ["$settings.pause.until", db.now.expr]}}
        case HostFilter.FAILING:
            return {"proven": False}
        case HostFilter.SET:
            return {"settings": {"$exists": True}}
        case None:
            return {}


async def list_hosts(
    db: QueueDatabase, which: HostFilter | None, *, sort: HostSort, limit: int
) -> Sequence[HostRecord]:
    """Some hosts, each with how much waits for it."""
    rows = await db.hosts.find(_filter(db, which)).sort(_ORDERS[sort]).limit(limit).to_list()
    return await _read(db, rows)


async def host_record(db: QueueDatabase, authority: str) -> HostRecord:
    """One host.

    Raises:
        UnknownHost: there is no record of it.
    """
    row = await db.hosts.find_one({"_id": authority})
    if row is None:
        raise UnknownHost(
            f"host {authority[:200]!r} is not known here: nothing was sent there lately, and nothing is set for it"
        )
    (record,) = await _read(db, [row])
    return record


async def pauses(db: QueueDatabase) -> Sequence[Pause]:
    """What is paused, everything first, each with how much waits for it. A thousand hosts at most."""
    found: list[Pause] = []
    everything = await pause_of_everything(db)
    if everything is not None:
        waiting = await db.jobs.count_documents({"state": {"$in": list(UNFINISHED)}})
        found.append(_with_waiting(everything, waiting))
    rows = db.host_settings.find({"$expr": {"$gt": ["$pause.until", db.now.expr]}}).sort("_id", ASCENDING)
    hosts = [pause_of(row["_id"], row["pause"]) for row in await rows.limit(_PAUSES_MAX).to_list()]
    waits = await _waiting(db, [str(pause.host) for pause in hosts])
    return [*found, *(_with_waiting(pause, sum(waits.get(str(pause.host), {}).values())) for pause in hosts)]


def _with_waiting(pause: Pause, waiting: int) -> Pause:
    return Pause(host=pause.host, since=pause.since, by=pause.by, until=pause.until, waiting=waiting)


_Waiting = Mapping[tuple[str, int], int]


async def _waiting(db: QueueDatabase, authorities: Sequence[str]) -> dict[str, _Waiting]:
    """How much of each host has not ended, by state and priority. Read from the lane index alone."""
    groups = await db.jobs.aggregate(
        [
            {"$match": {"state": {"$in": list(UNFINISHED)}, "lane": {"$in": list(authorities)}}},
            {
                "$group": {
                    "_id": {"lane": "$lane", "state": "$state", "priority": "$priority"},
                    "count": {"$sum": 1},
                }
            },
        ]
    )
    found: dict[str, dict[tuple[str, int], int]] = {}
    async for group in groups:
        key = group["_id"]
        if not isinstance(key["lane"], str):
            # A row that somebody edited, and a list of lanes is in each of them.
            continue
        found.setdefault(key["lane"], {})[str(key["state"]), key.get("priority")] = group["count"]
    return dict(found)


async def _read(db: QueueDatabase, rows: Sequence[Document]) -> list[HostRecord]:
    waits = await _waiting(db, [row["_id"] for row in rows])
    now = await db.server_time()
    return [_record(row, waits.get(row["_id"], {}), now) for row in rows]


def _record(row: Document, waits: _Waiting, now: datetime) -> HostRecord:
    settings = row.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    paused = settings.get("pause")
    pause = pause_of(row["_id"], paused) if isinstance(paused, dict) else None
    if pause is not None and pause.until is not None and pause.until <= now:
        pause = None
    breaker = _breaker(row.get("breaker"))
    dues = row.get("due")
    dues = dues if isinstance(dues, dict) else {}
    due = min((at for at in dues.values() if isinstance(at, datetime)), default=NEVER)
    hold_until = _moment(row, "hold_until")
    hold_until = hold_until if hold_until is not None and hold_until > now else None
    scheme = row.get("scheme")
    scheme = scheme if isinstance(scheme, dict) and (_moment(scheme, "until") or EPOCH) > now else {}
    waiting: dict[str, int] = {}
    for (state, _), count in sorted(waits.items(), key=lambda item: item[0][0]):
        waiting[state] = waiting.get(state, 0) + count
    return HostRecord(
        authority=row["_id"],
        shard=row["shard"],
        state=_state(pause, breaker, hold_until, due, now),
        due=due if due < NEVER else None,
        held_until=hold_until if hold_until is not None and hold_until < NEVER else None,
        pause=_with_waiting(pause, sum(waiting.values())) if pause is not None else None,
        breaker=breaker,
        scheme=scheme.get("name"),
        scheme_until=_moment(scheme, "until"),
        overrides=overrides_of(settings),
        limit=row.get("narrowed_to"),
        proven=row.get("proven"),
        answer_ms=row.get("answer_ms"),
        last_success=_moment(row, "last_success"),
        last_failure=_moment(row, "last_failure"),
        waiting=waiting,
        waiting_small=sum(count for (_, line), count in waits.items() if line == Priority.SMALL),
    )


def _state(
    pause: Pause | None, breaker: HostBreaker | None, hold_until: datetime | None, due: datetime, now: datetime
) -> HostState:
    if pause is not None:
        return HostState.PAUSED
    if breaker is not None and breaker.state in (CircuitState.OPEN, CircuitState.PROBING):
        if breaker.unavailable_at is not None and breaker.unavailable_at <= now:
            return HostState.UNAVAILABLE
        return HostState.PROBING if breaker.state == CircuitState.PROBING else HostState.QUARANTINED
    if hold_until is not None:
        return HostState.GATED
    if breaker is not None and breaker.state == CircuitState.RECOVERING:
        return HostState.RECOVERING
    if due >= NEVER:
        return HostState.IDLE
    return HostState.DUE if due <= now else HostState.LATER


def _breaker(breaker: Any) -> HostBreaker | None:
    if not isinstance(breaker, dict):
        return None
    circuit = circuit_of(breaker)
    return HostBreaker(
        state=str(circuit.state),
        failures=circuit.failures,
        quarantine=circuit.step,
        until=_moment(breaker, "until"),
        ends=_moment(breaker, "ends"),
        to_go=circuit.to_go,
        quiet_since=_moment(breaker, "quiet_since"),
        unavailable_at=_moment(breaker, "unavailable_at"),
    )


def _moment(row: Mapping[str, Any], name: str) -> datetime | None:
    value = row.get(name)
    return value if isinstance(value, datetime) else None
