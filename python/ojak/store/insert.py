# SPDX-License-Identifier: Apache-2.0
"""Insert: new rows in one statement, unless their id or the head of their order is taken (DESIGN section 3)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pymongo import InsertOne
from pymongo.errors import BulkWriteError

from ojak.errors import QueueUnavailable
from ojak.store.database import Document, QueueDatabase

_DUPLICATE_KEY: Final = 11000
_UNIQUE: Final = frozenset({"_id", "order"})


async def insert_new(db: QueueDatabase, rows: Sequence[Document], *, unconfirmed: str) -> tuple[list[int], list[int]]:
    """Insert rows, each by itself; gives the places of those whose id was taken, and of those behind their order.

    Args:
        db: the queue.
        rows: what to insert.
        unconfirmed: what to say if no majority confirmed them, so that it is not known what was written.

    Raises:
        QueueUnavailable: no majority confirmed them.
    """
    if not rows:
        return [], []
    try:
        await db.jobs.bulk_write([InsertOne(row) for row in rows], ordered=False)
    except BulkWriteError as error:
        details: Mapping[str, Any] = error.details or {}
        failures = details.get("writeErrors", [])
        # insert_one would hide a majority that never confirmed behind "duplicate": here both show.
        if details.get("writeConcernErrors") or any(
            failure.get("code") != _DUPLICATE_KEY or not _UNIQUE & set(failure.get("keyPattern", {}))
            for failure in failures
        ):
            raise QueueUnavailable(unconfirmed) from error
        taken = [failure["index"] for failure in failures if "_id" in failure["keyPattern"]]
        return taken, [failure["index"] for failure in failures if "order" in failure["keyPattern"]]
    return [], []
