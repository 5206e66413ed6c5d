# SPDX-License-Identifier: Apache-2.0
"""A sign of life that comes in a process which sends nothing itself."""

from ojak import CircuitBreaker, Deliverer, sync
from ojak.breaker.circuit import Signal
from ojak.breaker.store import BreakerResult, MemoryBreakers
from ojak.model.job import Priority
from ojak.store.breakers import MongoBreakers
from ojak.store.database import QueueDatabase
from ojak.store.hosts import Due, lower_due
from ojak.store.mirror import MirroredBreakers

HOST = "b.test"
RULES = CircuitBreaker(threshold=1)
FAILED = [BreakerResult(key=HOST, signal=Signal.FAILURE, probe=None)]


async def is_ready(db: QueueDatabase) -> bool:
    return await db.hosts.count_documents({"_id": HOST, "$expr": {"$lte": ["$ready.0", "$$NOW"]}}) == 1


async def test_a_process_that_only_queues_brings_a_probe_of_the_workers_forward(db: QueueDatabase, mongod_url: str):
    await lower_due(db, [Due(authority=HOST, priority=Priority.SMALL)])
    await MongoBreakers(db, RULES).record(FAILED)
    assert not await is_ready(db)
    async with Deliverer(mongod_url, database=db.name) as deliverer:
        assert await deliverer.heard_from(HOST)
        assert await is_ready(db)
        assert not await deliverer.heard_from(HOST), "once in each quarantine"


async def test_a_breaker_that_another_process_keeps_for_itself_is_left_to_it(db: QueueDatabase, mongod_url: str):
    """Its record would be written anew at each word of the host, and nothing else come of it."""
    await lower_due(db, [Due(authority=HOST, priority=Priority.SMALL)])
    await MirroredBreakers(MemoryBreakers(RULES), db).record(FAILED)
    async with Deliverer(mongod_url, database=db.name) as deliverer:
        assert not await deliverer.heard_from(HOST)
    assert not await is_ready(db)


async def test_an_application_that_is_not_async_tells_of_schemes_too(db: QueueDatabase, mongod_url: str):
    with sync.Deliverer(mongod_url, database=db.name) as deliverer:
        assert not deliverer.heard_from(HOST, "rfc9421")
    host = await db.hosts.find_one({"_id": HOST})
    assert host is not None
    assert host["scheme"]["name"] == "rfc9421"
