# SPDX-License-Identifier: Apache-2.0
"""Replay: ended deliveries wait again, in the order they are replayed."""

from collections.abc import Collection
from typing import Final

from pymongo import UpdateOne
from pymongo.errors import DuplicateKeyError

from ojak.model.failover import start_at
from ojak.model.job import Priority
from ojak.model.selection import Replayed, Selection
from ojak.store.bodies import KEPT_BEYOND_S
from ojak.store.database import Document, QueueDatabase
from ojak.store.gateways import holds_of, lanes_of
from ojak.store.hosts import Due, lower_due
from ojak.store.order import promote
from ojak.store.revival import revival
from ojak.store.select import selected

_AT_A_TIME: Final = 500


async def replay_selected(
    db: QueueDatabase, selection: Selection, *, outcomes: Collection[str], kept_s: float
) -> Replayed:
    """Queue again what is selected and ended in one of these ways. In bounded steps; can be repeated."""
    count = without = 0
    bodies: dict[bytes, bool] = {}
    where: Document = {"state": {"$in": sorted(outcomes)}}
    async for rows in selected(db, selection, where, at_a_time=_AT_A_TIME):
        for key in {row["body"] for row in rows} - bodies.keys():
            bodies[key] = await _keep_body(db, key, kept_s=kept_s)
        usable = [row for row in rows if bodies[row["body"]]]
        without += len(rows) - len(usable)
        if not usable:
            continue
        await _place(db, [row for row in usable if "gateways" in row])
        updates = [UpdateOne({"_id": row["_id"], "state": row["state"]}, _again(db, row)) for row in usable]
        count += (await db.jobs.bulk_write(updates, ordered=False)).modified_count
        await lower_due(
            db,
            [Due(authority=row["lane"], priority=Priority(row["priority"])) for row in usable if "order" not in row],
        )
        await promote(db, [row["order"] for row in usable if "order" in row])
    return Replayed(count=count, without_body=without)


def _again(db: QueueDatabase, row: Document) -> list[Document]:
    """As a new send would revive it, with what it had: but not its batch's deadline, which may be over."""
    update, unset = revival(db, {name: row[name] for name in ("order", "lane", "at") if name in row})
    gone = {"told", "told_at", "finished_at", "expire_at", "lease", "last", "cancel", "tried"} | {
        "behind",
        "scout",
        "give_up_at",
    }
    return [update, {"$unset": [name for name in unset["$unset"] if name in gone]}]


async def _place(db: QueueDatabase, rows: list[Document]) -> None:
    """Have portable deliveries start over, at the first of their gateways that is not held."""
    lanes = {row["_id"]: lanes_of(row["gateways"]) for row in rows}
    holds = await holds_of(db, {lane for found in lanes.values() for lane in found}) if rows else {}
    for row in rows:
        if found := lanes[row["_id"]]:
            row["at"] = start_at([holds[lane] for lane in found])
            row["lane"] = found[row["at"]]


async def _keep_body(db: QueueDatabase, key: bytes, *, kept_s: float) -> bool:
    """Put off the expiry of a body; False if it is not there, or its id has other bytes that are being delivered."""
    try:
        result = await db.bodies.update_one(
            {"_id": key},
            [
                {
                    "$set": {
                        "unended": True,
                        "put_at": db.now.expr,
                        "waits_since": {"$ifNull": ["$waits_since", db.now.expr]},
                        "expire_at": {"$max": ["$expire_at", db.now.plus(kept_s + KEPT_BEYOND_S)]},
                    }
                }
            ],
        )
    except DuplicateKeyError:
        return False
    return result.matched_count == 1
