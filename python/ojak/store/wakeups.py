# SPDX-License-Identifier: Apache-2.0
"""Wake-ups: a capped collection that every `run()` tails, so that work is found at once.

They are hints: one may be lost, and the poll is the truth.
"""

from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import Final

from pymongo import CursorType
from pymongo.errors import CollectionInvalid, OperationFailure

from ojak.store.bodies import NEW_SEQ
from ojak.store.database import QueueDatabase

_SIZE_BYTES: Final = 1 << 20
_WAIT_MS: Final = 5000


async def seed_wakeups(db: QueueDatabase) -> None:
    """Make the collection, capped and not empty: a tail over an empty one is dead at once."""
    options = await db.options_of(db.wakeups.name)
    if options is not None and not options.get("capped"):
        # Somebody dropped it and an insert brought it back without its cap: it holds nothing but hints.
        await db.drop(db.wakeups.name)
        options = None
    if options is None:
        try:
            await db.create_capped(db.wakeups.name, _SIZE_BYTES)
        except (CollectionInvalid, OperationFailure):
            # Another process may have been faster.
            if not (await db.options_of(db.wakeups.name) or {}).get("capped"):
                raise
    await wake(db, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeUp:
    """What a wake-up says.

    Attributes:
        shards: where there may be work; none: look at who shares the queue.
        small: whether it is work that goes before other work.
        cancel: that something was cancelled which may be leased.
        kinds: of which other kinds there may be work.
        outbox: that something was written to the outbox, or will be in a moment, when a transaction is committed.
        telling: that somebody wants to be told of ends from now on.
    """

    shards: frozenset[int]
    small: bool
    cancel: bool = False
    kinds: frozenset[str] = frozenset()
    outbox: bool = False
    telling: bool = False


async def wake_to_cancel(db: QueueDatabase) -> None:
    """Tell every `run()` that something was cancelled which it may have leased."""
    await db.wakeups.insert_one({"at": NEW_SEQ, "shards": [], "cancel": True})


async def wake_kinds(db: QueueDatabase, kinds: Iterable[str]) -> None:
    """Tell every `run()` that there may be work of other kinds than deliveries."""
    await db.wakeups.insert_one({"at": NEW_SEQ, "shards": [], "kinds": sorted(set(kinds))})


async def wake_to_outbox(db: QueueDatabase) -> None:
    """Tell every `run()` that something is in the outbox, or will be when a transaction is committed."""
    await db.wakeups.insert_one({"at": NEW_SEQ, "shards": [], "outbox": True})


async def wake_to_telling(db: QueueDatabase) -> None:
    """Tell every `run()` that somebody wants to be told of ends from now on."""
    await db.wakeups.insert_one({"at": NEW_SEQ, "shards": [], "telling": True})


async def wake(db: QueueDatabase, shards: Iterable[int], *, small: bool = True) -> None:
    """Tell every `run()` that there may be work in `shards`."""
    await db.wakeups.insert_one({"at": NEW_SEQ, "shards": sorted(set(shards)), "small": small})


async def listen(db: QueueDatabase) -> AsyncGenerator[WakeUp, None]:
    """Give each wake-up as it comes.

    Ends when the tail does, which happens without an error when it fell behind: open it again after a pause.
    """
    newest = await db.wakeups.find_one({}, {"at": 1}, sort=[("$natural", -1)])
    since = {"at": {"$gt": newest["at"]}} if newest else {}
    cursor = db.wakeups.find(since, {"_id": 0}, cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(_WAIT_MS)
    try:
        while cursor.alive:
            async for row in cursor:
                yield WakeUp(
                    shards=frozenset(shard for shard in row.get("shards", ()) if isinstance(shard, int)),
                    small=row.get("small") is not False,
                    cancel=row.get("cancel") is True,
                    kinds=frozenset(kind for kind in row.get("kinds", ()) if isinstance(kind, str)),
                    outbox=row.get("outbox") is True,
                    telling=row.get("telling") is True,
                )
    finally:
        await cursor.close()
