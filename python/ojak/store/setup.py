# SPDX-License-Identifier: Apache-2.0
"""Setup at every start: touch, migrate, index (SPEC section 5)."""

from pymongo.errors import OperationFailure, PyMongoError

from ojak.errors import StoreError
from ojak.store.database import QueueDatabase
from ojak.store.indexes import build_indexes
from ojak.store.migrations.runner import migrate
from ojak.store.trouble import UNAUTHORIZED, explained
from ojak.store.wakeups import seed_wakeups


async def set_up(db: QueueDatabase) -> None:
    """Make the database ready for use, or say in one sentence why it cannot be.

    Raises:
        QueueUnavailable: no primary answered.
        StoreError: it is a standalone server, a right is missing, the schema is newer than the program, or an index
            conflicts.
    """
    try:
        await db.ping()
        await touch(db)
        await migrate(db)
        await build_indexes(db)
        # Whoever restored a backup or dropped the collection has wake-ups without a cap, or none.
        await seed_wakeups(db)
    except PyMongoError as error:
        raise explained(error) from error


async def touch(db: QueueDatabase) -> None:
    """Read one row of each collection, one at a time, so that no two first uses race and a missing right shows now.

    Raises:
        StoreError: the user of the URL may not read a collection; names it.
    """
    for collection in (
        db.jobs,
        db.bodies,
        db.hosts,
        db.lanes,
        db.host_settings,
        db.breakers,
        db.shards,
        db.workers,
        db.batches,
        db.outbox,
        db.holds,
        db.settings,
        db.migrations,
        db.wakeups,
    ):
        try:
            await collection.find_one({}, {"_id": 1})
        except OperationFailure as error:
            if error.code != UNAUTHORIZED:
                raise
            raise StoreError(
                f"MongoDB refused to read {db.name}.{collection.name};"
                " give the user of mongo_url the role readWrite on that database"
            ) from error
