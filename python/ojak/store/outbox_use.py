# SPDX-License-Identifier: Apache-2.0
"""`OutboxUse`: whether the queue's outbox is used at all, and whether a client of the application's reaches it."""

import asyncio
from typing import Any, Final
from weakref import WeakSet

from pymongo import AsyncMongoClient, MongoClient, ReadPreference

from ojak.clock import Clock
from ojak.errors import ConfigError
from ojak.store.database import CODEC, QueueDatabase
from ojak.store.outbox import MARK, mark_in, mark_outbox, outbox_used

_LOOK_EVERY_S: Final = 5.0


class OutboxUse:
    """What a process that sends knows of the outbox.

    Args:
        db: the queue.
        clock: for when to look again.
    """

    def __init__(self, db: QueueDatabase, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._used = False
        self._look_at_s: float | None = None
        self._known: WeakSet[AsyncMongoClient[Any] | MongoClient[Any]] = WeakSet()

    async def in_use(self) -> bool:
        """Whether anybody ever wrote to the outbox; asked every 5 s until somebody has."""
        now_s = self._clock.boot_s()
        if not self._used and (self._look_at_s is None or now_s >= self._look_at_s):
            self._look_at_s = now_s + _LOOK_EVERY_S
            self._used = await outbox_used(self._db)
        return self._used

    async def check_client(self, client: AsyncMongoClient[Any] | MongoClient[Any]) -> None:
        """Make sure, once for each client, that what it writes to the outbox is found by the workers of this queue.

        Raises:
            ConfigError: it is a client of another MongoDB.
        """
        if client in self._known:
            return
        mark = await mark_outbox(self._db)
        self._used = True
        if client is not self._db.client and await self._mark_through(client) != mark:
            raise ConfigError(
                f"session belongs to a client of another MongoDB; allowed is one of the MongoDB that holds the queue's"
                f" database ({self._db.name})"
            )
        self._known.add(client)

    async def _mark_through(self, client: AsyncMongoClient[Any] | MongoClient[Any]) -> bytes | None:
        options: dict[str, Any] = {"read_preference": ReadPreference.PRIMARY, "codec_options": CODEC}
        if isinstance(client, MongoClient):
            return mark_in(
                await asyncio.to_thread(
                    client.get_database(self._db.name).get_collection(self._db.settings.name, **options).find_one, MARK
                )
            )
        settings = client.get_database(self._db.name).get_collection(self._db.settings.name, **options)
        return mark_in(await settings.find_one(MARK))
