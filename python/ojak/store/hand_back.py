# SPDX-License-Identifier: Apache-2.0
"""Hand back: leases that nothing was begun under return to the queue, unspent."""

from collections.abc import Mapping, Sequence

from ojak.store.database import QueueDatabase
from ojak.store.hosts import Due, dues_of, look_again, lower_due
from ojak.store.leaving import orders_freed, to_queue
from ojak.store.order import promote


async def hand_back(db: QueueDatabase, leases: Mapping[bytes, Sequence[bytes]]) -> None:
    """Give back what was leased and not begun, unspent: queued as before, and its hosts due.

    Args:
        db: the queue.
        leases: job ids by the stamp of their lease.
    """
    dues: list[Due] = []
    freed: list[bytes] = []
    for stamp, ids in leases.items():
        mine = {"_id": {"$in": list(ids)}, "state": "leased", "lease.stamp": stamp}
        dues += await dues_of(db, mine)
        await db.jobs.update_many(mine, to_queue(db))
        freed += await orders_freed(db, {"_id": {"$in": list(ids)}})
    await lower_due(db, dues)
    await promote(db, freed)


async def undo_claim(db: QueueDatabase, authorities: Sequence[str], *, stamp: bytes, lease_s: float) -> int:
    """Undo a claim that ended in an error: what it leased all the same goes back, and its hosts are due again.

    Whether a write was applied is not known after an error, and without this nobody would touch the rows until their
    leases run out. Gives how many rows were leased.

    Args:
        db: the queue.
        authorities: the hosts of the claim.
        stamp: the stamp of its leases.
        lease_s: the length of a lease.
    """
    strays = {"state": "leased", "lane": {"$in": list(authorities)}, "lease.stamp": stamp}
    ids = [row["_id"] async for row in db.jobs.find(strays, {"_id": 1})]
    await hand_back(db, {stamp: ids})
    await look_again(db, {"_id": {"$in": list(authorities)}}, within_s=lease_s)
    return len(ids)
