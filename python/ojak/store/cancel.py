# SPDX-License-Identifier: Apache-2.0
"""Cancel: what is selected ends, and nothing of it is begun any more (DESIGN section 3, rule C).

What is queued or blocked ends in the statement. What is leased is flagged and never ended from outside, since its
request still counts toward its host's limit: its worker ends it if it has not begun, and writes `begun` if it has.
A lease that ends without an outcome ends a flagged row in its own statement (`leaving`).
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ojak.model.job import UNFINISHED
from ojak.model.outcome import SettledOutcome
from ojak.model.selection import Cancelled, Selection
from ojak.store.database import Document, QueueDatabase
from ojak.store.leaving import end_number
from ojak.store.notices import announce_cancel
from ojak.store.order import promote
from ojak.store.select import JobSelection, selected

_AT_A_TIME: Final = 1000
_FIRST_PAUSE_S: Final = 0.02
_SLOWEST_PAUSE_S: Final = 0.5
_NOT_YET: Final[Document] = {"state": {"$in": list(UNFINISHED)}, "cancel": {"$exists": False}}


@dataclass(slots=True, kw_only=True)
class Cancelling:
    """A cancel under way.

    Attributes:
        count: how many deliveries it has ended itself.
        flagged: the leased rows that it waits for, each with whether this cancel flagged it.
    """

    count: int = 0
    flagged: dict[bytes, bool] = field(default_factory=dict)


async def cancel(
    db: QueueDatabase,
    selection: Selection | JobSelection,
    *,
    on_waiting: Callable[[int], None] | None = None,
    on_progress: Callable[[int], None] | None = None,
    done: Cancelling | None = None,
) -> Cancelled:
    """End what is selected. When this returns, no request of it begins any more.

    Args:
        db: the queue.
        selection: what.
        on_waiting: told now and then of how many deliveries it waits for because a worker holds them. One that died
            without an obituary is waited for until its leases have run out and are reaped.
        on_progress: told after each step how many have ended.
        done: what the same cancel came to so far, to be counted with the rest.
    """
    cancelling = await cancel_selected(db, selection, on_progress=on_progress, done=done)
    pause_s = _FIRST_PAUSE_S
    if cancelling.flagged:
        await announce_cancel(db)
    while waiting := await still_undecided(db, cancelling):
        if on_waiting is not None and pause_s >= _SLOWEST_PAUSE_S:
            on_waiting(waiting)
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _SLOWEST_PAUSE_S)
    count, on_wire = await count_ended(db, cancelling)
    return Cancelled(count=count, on_wire=on_wire)


async def cancel_selected(
    db: QueueDatabase,
    selection: Selection | JobSelection,
    *,
    on_progress: Callable[[int], None] | None = None,
    done: Cancelling | None = None,
) -> Cancelling:
    """End what is queued or blocked, flag what is leased. In bounded steps; can be repeated, and go on with `done`.

    Rows move while this goes on, from one state to another: it is done when a pass finds nothing that is not flagged.
    """
    stamp = secrets.token_bytes(8)
    done = Cancelling() if done is None else done
    while await _pass(db, selection, stamp, done, on_progress):
        pass
    async for rows in selected(
        db, selection, {"state": {"$in": ["leased"]}, "cancel": {"$exists": True}}, at_a_time=_AT_A_TIME
    ):
        for row in rows:
            # By an earlier cancel: not ours to count, but to wait for.
            done.flagged.setdefault(row["_id"], False)
    return done


async def _pass(
    db: QueueDatabase,
    selection: Selection | JobSelection,
    stamp: bytes,
    done: Cancelling,
    on_progress: Callable[[int], None] | None,
) -> bool:
    found = False
    async for rows in selected(db, selection, _NOT_YET, at_a_time=_AT_A_TIME):
        found = True
        ids = [row["_id"] for row in rows]
        await db.jobs.update_many({"_id": {"$in": ids}, **_NOT_YET}, _cancelled_or_flagged(db, stamp))
        freed: list[bytes] = []
        async for row in db.jobs.find({"_id": {"$in": ids}, "cancel": stamp}, {"state": 1, "order": 1}):
            # An end that took the row between the two statements had it leased: it counts with the flagged.
            if row["state"] == SettledOutcome.CANCELLED and row["_id"] not in done.flagged:
                done.count += 1
                if "order" in row:
                    freed.append(row["order"])
            else:
                done.flagged[row["_id"]] = True
        await promote(db, freed)
        if on_progress is not None:
            on_progress(done.count)
    return found


def _cancelled_or_flagged(db: QueueDatabase, stamp: bytes) -> list[Document]:
    def if_leased(value: object, otherwise: object) -> Document:
        return {"$cond": [{"$eq": ["$state", "leased"]}, value, otherwise]}

    return [
        {
            "$set": {
                "cancel": stamp,
                "state": if_leased("leased", SettledOutcome.CANCELLED.value),
                "end": if_leased({"$ifNull": ["$end", "$$REMOVE"]}, end_number()),
                "told": if_leased({"$ifNull": ["$told", "$$REMOVE"]}, False),
                "finished_at": if_leased({"$ifNull": ["$finished_at", "$$REMOVE"]}, db.now.expr),
            }
        }
    ]


async def still_undecided(db: QueueDatabase, cancelling: Cancelling) -> int:
    """How many flagged rows are leased and not known to have begun: each may still be sent."""
    count = 0
    for ids in _pages(list(cancelling.flagged)):
        count += await db.jobs.count_documents(
            {"_id": {"$in": ids}, "state": "leased", "cancel": {"$exists": True}, "lease.begun": {"$ne": True}}
        )
    return count


async def count_ended(db: QueueDatabase, cancelling: Cancelling) -> tuple[int, int]:
    """How many deliveries a cancel ended in all, and how many requests of it were on the wire."""
    ours = [row_id for row_id, is_ours in cancelling.flagged.items() if is_ours]
    ended = 0
    for ids in _pages(ours):
        ended += await db.jobs.count_documents({"_id": {"$in": ids}, "state": SettledOutcome.CANCELLED.value})
    return cancelling.count + ended, len(ours) - ended


def _pages(ids: Sequence[bytes]) -> list[Sequence[bytes]]:
    return [ids[start : start + _AT_A_TIME] for start in range(0, len(ids), _AT_A_TIME)]


async def flagged_of(db: QueueDatabase, ids: Sequence[bytes]) -> set[bytes]:
    """Which of some leased deliveries are cancelled and not known to have begun."""
    found: set[bytes] = set()
    for page in _pages(ids):
        undecided = {"state": "leased", "cancel": {"$exists": True}, "lease.begun": {"$ne": True}}
        found |= {row["_id"] async for row in db.jobs.find({"_id": {"$in": page}, **undecided}, {"_id": 1})}
    return found


async def mark_begun(db: QueueDatabase, leases: Mapping[bytes, Sequence[bytes]]) -> None:
    """Write that requests of cancelled rows are on the wire: nobody waits for them any more. Ids by stamp."""
    for stamp, ids in leases.items():
        await db.jobs.update_many(
            {"_id": {"$in": list(ids)}, "state": "leased", "lease.stamp": stamp}, {"$set": {"lease.begun": True}}
        )
