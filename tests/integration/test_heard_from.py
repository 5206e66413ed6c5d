# SPDX-License-Identifier: Apache-2.0
"""A sign of life that comes in a process which sends nothing itself."""

import asyncio

import pytest
from tests.waiting import until

from ojak import CircuitBreaker, Deliverer, DelivererConfig, FolderSenderKeys, sync
from ojak.breaker.circuit import Signal
from ojak.breaker.store import BreakerResult, MemoryBreakers
from ojak.model.job import Priority
from ojak.shard import shard_of
from ojak.store.breakers import MongoBreakers
from ojak.store.database import QueueDatabase
from ojak.store.hosts import Due, lower_due
from ojak.store.mirror import MirroredBreakers
from ojak.store.wakeups import wake
from ojak.worker.claimer import Claimer

HOST = "b.test"
CLOSED = "127.0.0.1:9"
"""The guard refuses it: what goes there ends at once."""
SENDER = "https://a.test/u"
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


async def test_what_waits_in_either_line_goes_at_once(db: QueueDatabase, mongod_url: str, tmp_path, monkeypatch):
    """A worker looks for work without a reason each minute here: it has to be woken."""
    woken = False
    claimer_wake = Claimer.wake

    def note(claimer: Claimer) -> None:
        nonlocal woken
        woken = woken or bool(claimer._priority is Priority.FANOUT and claimer._ownership.epochs)
        claimer_wake(claimer)

    keys = FolderSenderKeys(tmp_path / "keys")
    keys.generate(SENDER)
    config = DelivererConfig(poll_every_s=60, shard_lease_s=600, breaker_threshold=1)
    deliverer = Deliverer(mongod_url, database=db.name, keys=keys, config=config, breakers="shared")
    await deliverer.send(
        {"id": "https://a.test/1", "type": "Like"}, SENDER, [f"http://{CLOSED}/inbox"], priority=Priority.FANOUT
    )
    shared = MongoBreakers(db, RULES)
    await shared.record([BreakerResult(key=CLOSED, signal=Signal.FAILURE)])
    run = asyncio.create_task(deliverer.run())
    await until(lambda: _all_owned(db))
    monkeypatch.setattr(Claimer, "wake", note)

    async def listens() -> bool:
        await wake(db, [shard_of(CLOSED)], small=False)
        return woken

    async def ended() -> bool:
        return await db.jobs.count_documents({"state": "refused-address"}) == 1

    try:
        await until(listens)
        assert await deliverer.heard_from(CLOSED)
        await until(ended, within_s=10)
    finally:
        await deliverer.close()
        await run


async def _all_owned(db: QueueDatabase) -> bool:
    return await db.shards.count_documents({"owner": {"$ne": None}}) == 256


class LibraryTimeout(BaseException):
    """As some libraries raise it."""


@pytest.mark.parametrize("raised", [ConnectionError(), TimeoutError(), LibraryTimeout(), SystemExit(3)])
async def test_what_a_store_of_the_applications_raises_is_not_its_callers_to_handle(
    db: QueueDatabase, mongod_url: str, raised, caplog
):
    class Away(MemoryBreakers):
        async def heard_from(self, key: str) -> bool:
            raise raised

    async with Deliverer(mongod_url, database=db.name, breakers=Away(RULES)) as deliverer:
        assert await deliverer.heard_from(HOST, "rfc9421") is False
    assert "a probe could not be brought forward" in caplog.text
    host = await db.hosts.find_one({"_id": HOST})
    assert host is not None
    assert host["scheme"]["name"] == "rfc9421"
