# SPDX-License-Identifier: Apache-2.0
"""Claims that are cut off: by a drain, by the end of the process, by a database that goes away."""

import asyncio
import secrets
from datetime import UTC, datetime

import pytest
from pymongo.errors import AutoReconnect
from tests.waiting import until

from ojak import Deliverer
from ojak.model.job import Priority
from ojak.shard import SHARDS
from ojak.store import claim as claim_module
from ojak.store.claim import claim, ready_hosts
from ojak.store.database import QueueDatabase
from ojak.store.now import NEVER
from ojak.store.shards import join, owned, take
from ojak.worker import claimer as claimer_module

INBOXES = ("http://h.test/inbox", "http://g.test/inbox")


class NoKeys:
    async def keys_of(self, sender: str):
        raise RuntimeError("nothing is to be sent in these tests")


async def hidden_hosts(db: QueueDatabase) -> list[str]:
    """Hosts that have queued work, all of which has come in these tests, and are due later than in a minute."""
    lanes = await db.jobs.distinct("lane", {"state": "queued"})
    now = datetime.now(UTC)
    return [
        row["_id"]
        async for row in db.hosts.find({"_id": {"$in": lanes}})
        if min((due - now).total_seconds() for due in row["due"].values() if due < NEVER) > 60
    ]


@pytest.fixture
async def queued(db: QueueDatabase, mongod_url: str) -> QueueDatabase:
    deliverer = Deliverer(mongod_url, database=db.name)
    for n in range(3):
        await deliverer.send({"id": f"https://a.test/{n}", "type": "Like"}, "https://a.test/u", INBOXES)
    await deliverer.close()
    return db


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_a_drain_in_the_middle_of_a_claim_leaves_nothing_leased_or_hidden(
    queued: QueueDatabase, mongod_url: str, monkeypatch, how: str
):
    in_the_middle, go_on = asyncio.Event(), asyncio.Event()

    async def held_up(*args, **kwargs):
        leased = await claim(*args, **kwargs)
        in_the_middle.set()
        await go_on.wait()
        return leased

    monkeypatch.setattr(claimer_module, "claim", held_up)
    deliverer = Deliverer(mongod_url, database=queued.name, keys=NoKeys())
    run = asyncio.create_task(deliverer.run())
    await asyncio.wait_for(in_the_middle.wait(), 20)
    assert await queued.jobs.count_documents({"state": "leased"}) > 0
    if how == "cancel":
        run.cancel()
    ending = asyncio.create_task(deliverer.stop())
    await asyncio.sleep(0)
    go_on.set()
    await ending
    await asyncio.gather(run, return_exceptions=True)
    await deliverer.close()
    assert await queued.jobs.count_documents({"state": "queued", "tries": 0, "deaths": 0}) == 6
    assert await hidden_hosts(queued) == []


@pytest.mark.parametrize("step", ["lane_heads", "_lease", "_show", "_still_owned"])
async def test_a_database_that_goes_away_in_the_middle_of_a_claim_costs_no_lease(
    queued: QueueDatabase, mongod_url: str, monkeypatch, step: str
):
    original = getattr(claim_module, step)
    failed = asyncio.Event()

    async def applied_and_lost(*args, **kwargs):
        answer = await original(*args, **kwargs)
        if not failed.is_set():
            failed.set()
            raise AutoReconnect("connection closed")
        return answer

    monkeypatch.setattr(claim_module, step, applied_and_lost)
    deliverer = Deliverer(mongod_url, database=queued.name, keys=NoKeys())
    run = asyncio.create_task(deliverer.run())

    async def met() -> bool:
        return await queued.jobs.count_documents({"state": "aside"}) == 6

    try:
        # Every delivery is met soon, and set aside for its sender's key, though the leases last two minutes.
        await until(met)
    finally:
        await deliverer.close()
        await run


async def test_what_a_dead_worker_had_hidden_is_due_again_with_its_obituary(queued: QueueDatabase, mongod_url: str):
    dead = secrets.token_bytes(16)
    await join(queued, dead, kept_s=45, about="test")
    await take(queued, dead, count=SHARDS, lease_s=45)
    hosts = await ready_hosts(queued, shards=range(SHARDS), priority=Priority.SMALL, busy=[], quick=9, others=9)
    await claim_module._hide(queued, [host.authority for host in hosts], priority=Priority.SMALL, lease_s=120)
    assert sorted(await hidden_hosts(queued)) == ["g.test", "h.test"]
    deliverer = Deliverer(mongod_url, database=queued.name)
    await deliverer.bury(dead, [])
    await deliverer.close()
    assert await hidden_hosts(queued) == []
    assert await owned(queued, dead) == {}
