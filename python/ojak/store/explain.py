# SPDX-License-Identifier: Apache-2.0
"""Explain: each delivery of an activity, and what it waits for; and lists of deliveries."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ojak.errors import InputError
from ojak.model.explanation import DeliveryState, Explanation, GatewayState, WaitsFor
from ojak.model.job import UNFINISHED
from ojak.model.outcome import SentState
from ojak.model.selection import Selection
from ojak.store.batches import FAILED
from ojak.store.database import Document, QueueDatabase
from ojak.store.gateways import lanes_of, tried_of
from ojak.store.holds import HoldRow, holds_of
from ojak.store.notices import pause_of_everything
from ojak.store.now import NEVER, later
from ojak.store.order import LIVE
from ojak.store.outbox_state import parked_rows, pending_of_activity
from ojak.store.row import OF_DELIVERIES
from ojak.store.select import selected

_AT_A_TIME: Final = 500
_FAR_S: Final = 1e9
"""What is held for longer is held until somebody ends it."""


class UnknownActivity(InputError):
    """No delivery of an activity with that id is kept; names it."""


async def explain(db: QueueDatabase, activity_id: str, *, limit: int) -> Explanation:
    """Where an activity went. What is in the outbox is counted as pending.

    Raises:
        UnknownActivity: no delivery of it is kept.
    """
    # The outbox first: what leaves it meanwhile is found in the queue.
    pending = await pending_of_activity(db, activity_id)
    keys = [row["_id"] async for row in db.bodies.find({"activity": activity_id}, {"_id": 1})]
    keys += await parked_rows(db, activity_id)
    groups = await db.jobs.aggregate(
        [{"$match": {"body": {"$in": keys}}}, {"$group": {"_id": "$state", "count": {"$sum": 1}}}]
    )
    counts = {str(group["_id"]): group["count"] async for group in groups}
    if pending.deliveries:
        counts[SentState.PENDING.value] = pending.deliveries
    if not counts:
        raise UnknownActivity(
            f"activity {activity_id[:200]!r} has no deliveries here; they are kept for some days after their end"
        )
    rows: list[Document] = []
    for states in ({"$in": list(UNFINISHED)}, {"$nin": list(UNFINISHED)}):
        if len(rows) < limit:
            found = db.jobs.find({"body": {"$in": keys}, "state": states}).sort([("state", 1), ("inbox", 1)])
            rows += await found.limit(limit - len(rows)).to_list()
    return Explanation(activity_id=activity_id, counts=counts, deliveries=tuple(await _read(db, rows)))


async def list_deliveries(
    db: QueueDatabase, selection: Selection | None, *, states: Collection[str], limit: int
) -> list[DeliveryState]:
    """Deliveries in some states: of a selection, or of the whole queue. At most so many."""
    where: Document = {"state": {"$in": sorted(states)}}
    rows: list[Document] = []
    if selection is None:
        rows = await db.jobs.find({**where, **OF_DELIVERIES}).limit(limit).to_list()
    else:
        async for page in selected(db, selection, where, at_a_time=min(limit, _AT_A_TIME)):
            ids = [row["_id"] for row in page[: limit - len(rows)]]
            rows += await db.jobs.find({"_id": {"$in": ids}}).to_list()
            if len(rows) >= limit:
                break
    return await _read(db, rows)


ALL_STATES: Final = (*UNFINISHED, "delivered", *FAILED)


async def _read(db: QueueDatabase, rows: Sequence[Document]) -> list[DeliveryState]:
    waiting = [row for row in rows if row["state"] in UNFINISHED]
    lanes = list({lane for row in waiting for lane in (row["lane"], *lanes_of(row.get("gateways", ())))})
    paused = await pause_of_everything(db) if waiting else None
    held = {lane: _Hold(paused=True, until=paused.until or NEVER) for lane in lanes} if paused is not None else {}
    async for host in db.hosts.find(
        {"_id": {"$in": lanes}, "$expr": {"$gt": ["$hold_until", db.now.expr]}},
        {"hold_until": 1, "paused": {"$gt": ["$settings.pause.until", db.now.expr]}},
    ):
        hold = _Hold(paused=host["paused"], until=host["hold_until"])
        held[host["_id"]] = max(hold, held.get(host["_id"], hold))
    aside = [row.get("behind") for row in waiting if row["state"] == "aside"]
    holds = await holds_of(db, {given for given in aside if isinstance(given, bytes)})
    behind = await _behind(db, [row["order"] for row in waiting if row["state"] == "blocked" and "order" in row])
    now = await db.server_time()
    return [_state_of(row, held, behind, holds, now) for row in rows]


async def _behind(db: QueueDatabase, orders: Sequence[bytes]) -> dict[bytes, str]:
    """The activity whose delivery is queued or leased in each order: what the blocked ones wait behind."""
    rows = db.jobs.find({"state": {"$in": LIVE}, "order": {"$in": list(orders)}}, {"order": 1, "activity": 1})
    return {row["order"]: str(row["activity"]) async for row in rows}


@dataclass(frozen=True, slots=True, order=True)
class _Hold:
    """Until when nothing goes to a host, and whether an operator wants it so."""

    paused: bool
    until: datetime


def _state_of(
    row: Document,
    held: Mapping[str, _Hold],
    behind: Mapping[bytes, str],
    holds: Mapping[bytes, HoldRow],
    now: datetime,
) -> DeliveryState:
    last: Any = row.get("last")
    last = last if isinstance(last, dict) else {}
    waits_for, next_try = _waits_for(row, held, now)
    if row["state"] == "aside":
        waits_for, next_try = _waits_aside(holds.get(row.get("behind", b"")), now)
    return DeliveryState(
        activity_id=str(row.get("activity", "")),
        inbox=str(row.get("inbox", "")),
        sender=str(row.get("sender", "")),
        ref=row.get("ref"),
        batch=row.get("batch"),
        state=str(row["state"]),
        attempts=row["tries"] if isinstance(row.get("tries"), int) else 0,
        maybe_delivered=row.get("maybe", 0),
        status=last.get("status"),
        reason=str(last.get("reason") or ""),
        scheme=last.get("scheme"),
        detail=str(last.get("detail") or ""),
        waits_for=waits_for,
        behind=behind.get(row.get("order", b"")) if waits_for is WaitsFor.ORDER else None,
        next_try=next_try,
        queued_at=row.get("queued_at"),
        finished_at=row.get("finished_at"),
        gateways=_gateways_of(row, last, held),
    )


def _gateways_of(row: Document, last: Mapping[str, Any], held: Mapping[str, _Hold]) -> tuple[GatewayState, ...]:
    origins = row.get("gateways")
    if not isinstance(origins, list):
        return ()
    lanes = lanes_of(origins)
    tried = tried_of(row.get("tried") or last.get("tried"), len(origins))
    answers = {one.place: one for one in tried}
    return tuple(
        GatewayState(
            origin=str(origin),
            status=answers[place].status if place in answers else None,
            reason=answers[place].reason if place in answers else "",
            next=place == row.get("at") and (row["state"] in UNFINISHED or row["state"] == "delivered"),
            held_until=held[lanes[place]].until
            if lanes and lanes[place] in held and row["state"] in UNFINISHED
            else None,
        )
        for place, origin in enumerate(origins)
    )


def _waits_aside(hold: HoldRow | None, now: datetime) -> tuple[WaitsFor, datetime | None]:
    if hold is None or hold.over:
        # It is about to be let go.
        return WaitsFor.TURN, now
    until = later(now, hold.left_s) if hold.left_s < _FAR_S else None
    return (WaitsFor.SENDER if hold.kind.of_sender else WaitsFor.INBOX), until


def _waits_for(row: Document, held: Mapping[str, _Hold], now: datetime) -> tuple[WaitsFor | None, datetime | None]:
    state, run_at = row["state"], row.get("run_at")
    if state == "leased":
        return WaitsFor.ANSWER, None
    if state == "blocked":
        return WaitsFor.ORDER, None
    if state != "queued" or not isinstance(run_at, datetime):
        return None, None
    hold = held.get(row["lane"])
    if hold is not None and hold.until > run_at:
        until = hold.until if hold.until < NEVER else None
        return WaitsFor.PAUSE if hold.paused else WaitsFor.HOST, until
    if run_at > now:
        return WaitsFor.TIME, run_at
    return WaitsFor.TURN, now
