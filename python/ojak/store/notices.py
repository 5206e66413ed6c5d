# SPDX-License-Identifier: Apache-2.0
"""Notices: what every `run()` has to know soon. That something leased was cancelled, that an operator set something for
a host, and that everything is paused.

A notice is a count that workers look at each second, and a wake-up, which may be lost. Whoever pauses waits until every
living `run()` has said that it knows: from then on none of them begins a request of what is paused. One that died
without an obituary is waited for as long as its shards are its own; one that lost its database stops by itself by then.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pymongo import ReturnDocument

from ojak.model.host import Pause
from ojak.store.database import Document, QueueDatabase
from ojak.store.host_settings import pause_document
from ojak.store.now import EPOCH, NEVER
from ojak.store.wakeups import wake_to_cancel

_CANCELS: Final = "cancels"
_SETTINGS: Final = "pause"
_FIRST_PAUSE_S: Final = 0.02
_SLOWEST_PAUSE_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Notices:
    """What there is to know.

    Attributes:
        cancels: how often something leased was cancelled, ever.
        settings: how often an operator set or paused something, ever.
        paused: whether everything is paused now.
    """

    cancels: int
    settings: int
    paused: bool


async def read_notices(db: QueueDatabase) -> Notices:
    """Read all notices."""
    rows = {
        row["_id"]: row
        async for row in db.settings.find(
            {"_id": {"$in": [_CANCELS, _SETTINGS]}},
            {"count": 1, "paused": {"$gt": ["$pause.until", db.now.expr]}},
        )
    }
    return Notices(
        cancels=_count(rows.get(_CANCELS)),
        settings=_count(rows.get(_SETTINGS)),
        paused=rows.get(_SETTINGS, {}).get("paused") is True,
    )


def _count(row: Document | None) -> int:
    return int(row.get("count", 0)) if row is not None else 0


async def announce_cancel(db: QueueDatabase) -> None:
    """Say that something leased was cancelled."""
    await db.settings.update_one({"_id": _CANCELS}, {"$inc": {"count": 1}}, upsert=True)
    await wake_to_cancel(db)


async def announce_settings(db: QueueDatabase) -> int:
    """Say that something was set or paused; gives the number of this notice."""
    return await _announce(db, [])


async def pause_everything(db: QueueDatabase, *, by: str, for_s: float | None) -> int:
    """Pause everything, for so long or until it is resumed; gives the number of this notice."""
    return await _announce(db, [{"$set": {"pause": pause_document(db, by=by, for_s=for_s)}}])


async def resume_everything(db: QueueDatabase) -> bool:
    """End the pause of everything. Gives whether there was one; hosts that are paused by themselves stay so."""
    paused = (await read_notices(db)).paused
    await _announce(db, [{"$unset": "pause"}])
    return paused


async def _announce(db: QueueDatabase, stages: list[Document]) -> int:
    counted: Document = {"$set": {"count": {"$add": [{"$ifNull": ["$count", 0]}, 1]}}}
    row = await db.settings.find_one_and_update(
        {"_id": _SETTINGS}, [*stages, counted], upsert=True, return_document=ReturnDocument.AFTER
    )
    await wake_to_cancel(db)
    return _count(row)


async def pause_of_everything(db: QueueDatabase) -> Pause | None:
    """The pause of everything, if there is one."""
    row = await db.settings.find_one({"_id": _SETTINGS, "$expr": {"$gt": ["$pause.until", db.now.expr]}})
    return pause_of(None, row["pause"]) if row is not None else None


def pause_of(host: str | None, pause: Document) -> Pause:
    """Read a pause."""
    since, until = pause.get("since"), pause.get("until")
    return Pause(
        host=host,
        since=since if isinstance(since, datetime) else EPOCH,
        by=str(pause.get("by", "")),
        until=until if isinstance(until, datetime) and until < NEVER else None,
    )


async def say_known(db: QueueDatabase, owner: bytes, number: int) -> None:
    """Say that a `run()` has done what the notices of settings up to this one ask for."""
    await db.workers.update_one({"_id": owner}, {"$max": {"known": number}})


async def until_known(db: QueueDatabase, number: int, *, on_waiting: Callable[[int], None] | None = None) -> None:
    """Wait until every living `run()` has said that it knows a notice.

    Args:
        db: the queue.
        number: of the notice.
        on_waiting: told now and then how many are waited for.
    """
    pause_s = _FIRST_PAUSE_S
    while count := await _unaware(db, number):
        if on_waiting is not None and pause_s >= _SLOWEST_PAUSE_S:
            on_waiting(count)
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _SLOWEST_PAUSE_S)


async def _unaware(db: QueueDatabase, number: int) -> int:
    return await db.workers.count_documents(
        {
            "until": {"$gte": EPOCH},
            "$expr": {"$gt": ["$until", db.now.expr]},
            "dead": {"$ne": True},
            "known": {"$not": {"$gte": number}},
        }
    )
