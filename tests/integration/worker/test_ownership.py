# SPDX-License-Identifier: Apache-2.0
"""Shards: fair shares, given back and taken over, and never two owners at a time (SPEC section 5)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.waiting import until

from ojak import Deliverer
from ojak.shard import SHARDS
from ojak.store.database import QueueDatabase
from ojak.store.shards import bury_owner, owned, take


class NoKeys:
    async def keys_of(self, sender: str):
        raise RuntimeError("nothing is to be sent in these tests")


async def shares(db: QueueDatabase) -> list[int]:
    groups = await db.shards.aggregate(
        [{"$match": {"owner": {"$ne": None}}}, {"$group": {"_id": "$owner", "count": {"$sum": 1}}}]
    )
    return sorted([group["count"] async for group in groups])


def shared_as(db: QueueDatabase, *expected: int) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return await shares(db) == list(expected)

    return holds


async def test_loops_share_the_shards_fairly_as_they_come_and_go(db: QueueDatabase, mongod_url: str):
    deliverers = [Deliverer(mongod_url, database=db.name, keys=NoKeys()) for _ in range(3)]
    runs = [asyncio.create_task(deliverers[0].run())]
    await until(shared_as(db, SHARDS))
    runs.append(asyncio.create_task(deliverers[1].run()))
    await until(shared_as(db, 128, 128))
    runs.append(asyncio.create_task(deliverers[2].run()))
    await until(shared_as(db, 84, 86, 86))
    await deliverers[0].close()
    await until(shared_as(db, 128, 128))
    for deliverer in deliverers[1:]:
        await deliverer.close()
    await asyncio.gather(*runs)
    assert await shares(db) == []


async def test_shards_that_are_being_taken_when_it_ends_are_given_back_too(
    db: QueueDatabase, mongod_url: str, monkeypatch: pytest.MonkeyPatch
):
    """A cancelled write is often applied all the same, here after everything was given back."""
    in_the_middle, applied = asyncio.Event(), asyncio.Event()

    async def slow(*args: Any, **kwargs: Any) -> bool:
        in_the_middle.set()
        # Until everything was given back, if nobody waits for this.
        with contextlib.suppress(TimeoutError):
            await until(left, within_s=1)
        answer = await take(*args, **kwargs)
        applied.set()
        return answer

    async def taken(*args: Any, **kwargs: Any) -> bool:
        # As a statement that was sent: whoever waits for it may be cancelled, and it goes on.
        return await asyncio.shield(asyncio.ensure_future(slow(*args, **kwargs)))

    async def left() -> bool:
        return await db.workers.count_documents({}) == 0

    monkeypatch.setattr("ojak.worker.ownership.store.take", taken)
    deliverer = Deliverer(mongod_url, database=db.name, keys=NoKeys())
    run = asyncio.create_task(deliverer.run())
    await asyncio.wait_for(in_the_middle.wait(), 20)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    await asyncio.wait_for(applied.wait(), 20)
    await deliverer.close()
    assert await shares(db) == []


async def test_those_that_start_together_take_their_shares_at_once(db: QueueDatabase, mongod_url: str):
    deliverers = [Deliverer(mongod_url, database=db.name, keys=NoKeys(), expected=4) for _ in range(4)]
    runs = [asyncio.create_task(deliverer.run()) for deliverer in deliverers]
    await until(shared_as(db, 64, 64, 64, 64))
    epochs = {row["epoch"] async for row in db.shards.find({}, {"epoch": 1})}
    assert epochs == {1}, "no shard changed hands on the way"
    await asyncio.gather(*(deliverer.close() for deliverer in deliverers))
    await asyncio.gather(*runs)


async def test_what_a_dead_owner_held_is_taken_over_under_the_next_epoch(db: QueueDatabase):
    await take(db, b"dead-dead-dead-d", count=SHARDS, lease_s=45)
    assert set((await owned(db, b"dead-dead-dead-d")).values()) == {1}
    await take(db, b"heir-heir-heir-h", count=SHARDS, lease_s=45)
    assert await owned(db, b"heir-heir-heir-h") == {}, "its lease still runs"
    await bury_owner(db, b"dead-dead-dead-d", begun=3, lease_s=120)
    await take(db, b"heir-heir-heir-h", count=SHARDS, lease_s=45)
    assert set((await owned(db, b"heir-heir-heir-h")).values()) == {2}
    row = await db.workers.find_one({"_id": b"dead-dead-dead-d"})
    assert row is not None
    assert (row["dead"], row["begun"]) == (True, 3)
