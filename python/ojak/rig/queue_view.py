# SPDX-License-Identifier: Apache-2.0
"""A look at a running supervisor's queue."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from ojak.store.counts import DeliveryRow, count_by_state, deliveries, held_hosts
from ojak.store.database import QueueDatabase, connect
from ojak.store.embedded import embedded_url
from ojak.store.shards import obituaries


class QueueView:
    """Reads a queue, for accounts and progress."""

    def __init__(self, db: QueueDatabase) -> None:
        self._db = db

    async def counts(self) -> dict[str, int]:
        """How many deliveries are in each state."""
        return await count_by_state(self._db)

    async def rows(self) -> list[DeliveryRow]:
        """Every delivery, ended ones included."""
        return await deliveries(self._db)

    async def held(self) -> dict[str, datetime]:
        """Until when nothing goes to the hosts that are held."""
        return await held_hosts(self._db)

    async def obituaries(self) -> list[int]:
        """What each dead worker had begun and not yet stored."""
        return await obituaries(self._db)


@asynccontextmanager
async def queue_view(data_dir: Path, database: str = "ojak") -> AsyncIterator[QueueView]:
    """Look at the queue of a supervisor that runs on a data folder."""
    client = connect(embedded_url(data_dir))
    try:
        yield QueueView(QueueDatabase(client, database))
    finally:
        await client.close()
