# SPDX-License-Identifier: Apache-2.0
"""Indexes, each of which earns its place: every one costs each delivery server time."""

from typing import Any, Final

from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError, OperationFailure

from ojak.errors import StoreError
from ojak.model.job import UNFINISHED, JobState
from ojak.store.batches import FAILED
from ojak.store.database import QueueDatabase
from ojak.store.gateways import PORTABLE_INDEX
from ojak.store.lane import LANE_INDEX
from ojak.store.order import BLOCKED_INDEX, LIVE, LIVE_INDEX
from ojak.store.select import ENDED_INDEX

UNTOLD: Final = IndexModel(
    [("told", ASCENDING), ("kind", ASCENDING)], name="untold_by_kind", partialFilterExpression={"told": False}
)
"""Ends to be told. By kind, so that what of other kinds has to expire is found beside millions of untold deliveries."""
BUILD: Final[dict[str, Any]] = {"commitQuorum": "majority", "maxTimeMS": 600_000}
"""Built by a majority of members: waiting for all of them hangs a start while one secondary is down."""

_INDEXES: Final[dict[str, list[IndexModel]]] = {
    "jobs": [
        # The head of a lane, and what is leased in it.
        IndexModel(
            [
                ("state", ASCENDING),
                ("lane", ASCENDING),
                ("priority", ASCENDING),
                ("run_at", ASCENDING),
                ("seq", ASCENDING),
            ],
            name=LANE_INDEX,
            partialFilterExpression={"state": {"$in": list(UNFINISHED)}},
        ),
        # At most one delivery of an order is queued or leased: this decides between two that are queued at once.
        IndexModel(
            [("order", ASCENDING)],
            name=LIVE_INDEX,
            unique=True,
            partialFilterExpression={"state": {"$in": list(LIVE)}, "order": {"$exists": True}},
        ),
        # What waits behind another; the seq and state so that looking for the first needs no row.
        IndexModel(
            [("order", ASCENDING), ("seq", ASCENDING), ("state", ASCENDING)],
            name=BLOCKED_INDEX,
            partialFilterExpression={"state": JobState.BLOCKED.value},
        ),
        # All deliveries of an activity: conflicts, batches, cancelling.
        IndexModel([("body", ASCENDING)], name="body"),
        # A batch's deliveries by state, where there is one.
        IndexModel(
            [("batch", ASCENDING), ("state", ASCENDING)],
            name="batch",
            partialFilterExpression={"batch": {"$exists": True}},
        ),
        # A host's deliveries that ended without being delivered, to be shown and replayed.
        IndexModel(
            [("lane", ASCENDING), ("finished_at", ASCENDING)],
            name=ENDED_INDEX,
            partialFilterExpression={"state": {"$in": list(FAILED)}},
        ),
        # Where deliveries with several gateways wait, to be passed on if one is held. No other row has it.
        IndexModel(
            [("portable", ASCENDING), ("state", ASCENDING), ("lane", ASCENDING)],
            name=PORTABLE_INDEX,
            partialFilterExpression={"portable": True},
        ),
        # What is set aside, by what it waits for.
        IndexModel(
            [("state", ASCENDING), ("behind", ASCENDING), ("seq", ASCENDING)],
            name="aside",
            partialFilterExpression={"state": JobState.ASIDE.value},
        ),
        IndexModel([("lease.until", ASCENDING)], name="leases", partialFilterExpression={"state": "leased"}),
        UNTOLD,
        # What revived rows still owe: hardly any row has it, and so hardly any write touches it.
        IndexModel([("owed.end", ASCENDING)], name="owed", partialFilterExpression={"owed": {"$exists": True}}),
        IndexModel(
            [("expire_at", ASCENDING)],
            name="expiry",
            expireAfterSeconds=0,
            partialFilterExpression={"expire_at": {"$exists": True}},
        ),
    ],
    "bodies": [
        IndexModel(
            [("activity", ASCENDING)],
            name="activity",
            unique=True,
            partialFilterExpression={"unended": True},
        ),
        # To find deliveries by their activity, its object or its sender: these name the bodies, the bodies the rows.
        IndexModel([("activity", ASCENDING)], name="by_activity"),
        IndexModel([("object", ASCENDING)], name="by_object", partialFilterExpression={"object": {"$exists": True}}),
        IndexModel([("senders", ASCENDING)], name="by_sender"),
        # Every activity about the same thing: what goes before what, and what takes what back.
        IndexModel(
            [("about", ASCENDING), ("type", ASCENDING)],
            name="about",
            partialFilterExpression={"about": {"$exists": True}},
        ),
        # Since when deliveries of an activity may wait, until it was seen that none does: what is too old (`age`).
        IndexModel(
            [("waits_since", ASCENDING)],
            name="waits_since",
            partialFilterExpression={"waits_since": {"$exists": True}},
        ),
        IndexModel([("expire_at", ASCENDING)], name="expiry", expireAfterSeconds=0),
    ],
    "hosts": [
        IndexModel([("shard", ASCENDING), ("quick", ASCENDING), ("ready.0", ASCENDING)], name="ready_small"),
        IndexModel([("shard", ASCENDING), ("quick", ASCENDING), ("ready.1", ASCENDING)], name="ready_fanout"),
        IndexModel([("expire_at", ASCENDING)], name="expiry", expireAfterSeconds=0),
    ],
    "batches": [
        IndexModel([("deadline", ASCENDING)], name="open", partialFilterExpression={"open": True}),
        IndexModel([("expire_at", ASCENDING)], name="expiry", expireAfterSeconds=0),
    ],
    "outbox": [
        IndexModel([("state", ASCENDING), ("seq", ASCENDING)], name="waiting"),
        IndexModel([("about", ASCENDING)], name="about", partialFilterExpression={"state": "waiting"}),
        IndexModel([("expire_at", ASCENDING)], name="expiry", expireAfterSeconds=0),
    ],
    "holds": [
        IndexModel([("look_at", ASCENDING)], name="look_at"),
        IndexModel([("expire_at", ASCENDING)], name="expiry", expireAfterSeconds=0),
    ],
    "breakers": [IndexModel([("expire_at", ASCENDING)], name="expiry", expireAfterSeconds=0)],
    "workers": [IndexModel([("expire_at", ASCENDING)], name="expiry", expireAfterSeconds=0)],
}

_CONFLICTS: Final = frozenset({85, 86})  # IndexOptionsConflict, IndexKeySpecsConflict


async def build_indexes(db: QueueDatabase) -> None:
    """Build what is missing.

    Raises:
        StoreError: an index of that name has another form, or rows stand in the way of a unique one; names them.
    """
    for name, models in _INDEXES.items():
        collection = getattr(db, name)
        try:
            await collection.create_indexes(models, **BUILD)
        except DuplicateKeyError as error:
            raise StoreError(f"rows in {name} stand in the way of a unique index: {error.details}") from error
        except OperationFailure as error:
            if error.code not in _CONFLICTS:
                raise
            raise StoreError(
                f"an index of the collection {name} differs from what this version needs: {error.details};"
                " drop that index and start again"
            ) from error
