# SPDX-License-Identifier: Apache-2.0
"""The runner: applies what is missing, one process at a time, and refuses a schema newer than the program."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from ojak.errors import StoreError
from ojak.store.database import QueueDatabase
from ojak.store.migrations import m001_queue, m002_untold
from ojak.store.now import EPOCH

_log = logging.getLogger("ojak.store.migrations")

Migration = Callable[[QueueDatabase], Awaitable[None]]

MIGRATIONS: Final[Mapping[int, Migration]] = {1: m001_queue.up, 2: m002_untold.up}
"""What makes the schema of each number out of the one before."""

_LOCK_S: Final = 60.0
_ASK_AGAIN_S: Final = 0.2


async def migrate(db: QueueDatabase, migrations: Mapping[int, Migration] = MIGRATIONS) -> None:
    """Bring the schema up to this program's.

    Raises:
        StoreError: the database was written by a newer program.
    """
    newest = max(migrations)
    if await _applied(db, newest) == newest:
        return
    async with _locked(db):
        for number in range(await _applied(db, newest) + 1, newest + 1):
            _log.info("migrating", extra={"number": number})
            await migrations[number](db)
            await db.migrations.update_one(
                {"_id": "schema"}, [{"$set": {"number": number, "at": db.now.expr}}], upsert=True
            )


async def schema_of(db: QueueDatabase) -> int:
    """The number of the schema that the database has."""
    row = await db.migrations.find_one({"_id": "schema"})
    return int(row["number"]) if row else 0


async def _applied(db: QueueDatabase, newest: int) -> int:
    number = await schema_of(db)
    if number > newest:
        raise StoreError(
            f"the database {db.name!r} has schema {number}, this program knows {newest}: start the newer Ojak"
        )
    return number


@asynccontextmanager
async def _locked(db: QueueDatabase) -> AsyncIterator[None]:
    """Hold the lock that one process at a time migrates under; a crash frees it after a minute."""
    holder = secrets.token_bytes(16)
    said = False
    while not await _take(db, holder):
        if not said:
            said = True
            _log.info("another process migrates; waiting for it")
        await asyncio.sleep(_ASK_AGAIN_S)
    renewing = asyncio.create_task(_renew(db, holder))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await db.migrations.update_one({"_id": "lock", "holder": holder}, {"$set": {"until": EPOCH}})


async def _take(db: QueueDatabase, holder: bytes) -> bool:
    # The row first, free for whoever is fastest: an upsert cannot compare with the database's clock.
    await db.migrations.update_one({"_id": "lock"}, {"$setOnInsert": {"until": EPOCH}}, upsert=True)
    result = await db.migrations.update_one(
        {"_id": "lock", **db.now.has_come("until")}, [{"$set": {"holder": holder, "until": db.now.plus(_LOCK_S)}}]
    )
    return bool(result.modified_count)


async def _renew(db: QueueDatabase, holder: bytes) -> None:
    while True:
        await asyncio.sleep(_LOCK_S / 3)
        await db.migrations.update_one({"_id": "lock", "holder": holder}, [{"$set": {"until": db.now.plus(_LOCK_S)}}])
