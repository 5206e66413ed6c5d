# SPDX-License-Identifier: Apache-2.0
"""001: the queue's own collections: the rows of the shards, the capped wake-ups."""

from ojak.store.database import QueueDatabase
from ojak.store.shards import seed_shards
from ojak.store.wakeups import seed_wakeups


async def up(db: QueueDatabase) -> None:
    """Make what the queue cannot make as it goes."""
    await seed_shards(db)
    await seed_wakeups(db)
