# SPDX-License-Identifier: Apache-2.0
import asyncio

import pytest

from ojak.errors import ConfigError, QueueUnavailable, StoreError
from ojak.shard import SHARDS
from ojak.store.database import QueueDatabase, connect
from ojak.store.migrations.runner import MIGRATIONS, migrate
from ojak.store.now import EPOCH
from ojak.store.setup import set_up
from ojak.store.wakeups import WakeUp, listen, wake


async def is_capped(db: QueueDatabase) -> bool:
    return bool((await db.options_of("wakeups") or {}).get("capped"))


async def test_setting_up_can_be_repeated_and_done_by_many_at_once(bare_db: QueueDatabase):
    await asyncio.gather(*(set_up(bare_db) for _ in range(4)))
    await set_up(bare_db)
    assert await bare_db.shards.count_documents({"owner": None, "epoch": 0}) == SHARDS
    assert await is_capped(bare_db)
    row = await bare_db.migrations.find_one({"_id": "lock"})
    assert row is not None
    assert row["until"] == EPOCH, "the lock is free"


async def test_migrations_run_in_order_one_process_at_a_time_and_resume(bare_db: QueueDatabase):
    ran: list[int] = []
    running = 0

    def migration(number: int, *, fails: bool = False):
        async def up(db: QueueDatabase) -> None:
            nonlocal running
            running += 1
            assert running == 1
            await db.ping()
            running -= 1
            if fails:
                raise RuntimeError("crash")
            ran.append(number)

        return up

    with pytest.raises(RuntimeError):
        await migrate(bare_db, {1: migration(1), 2: migration(2, fails=True)})
    assert ran == [1]
    chain = {1: migration(1), 2: migration(2), 3: migration(3)}
    await asyncio.gather(*(migrate(bare_db, chain) for _ in range(3)))
    assert ran == [1, 2, 3]


async def test_the_index_of_untold_ends_is_replaced_by_the_one_that_knows_kinds(bare_db: QueueDatabase):
    await bare_db.jobs.create_index([("told", 1)], name="untold", partialFilterExpression={"told": False})
    await bare_db.migrations.insert_one({"_id": "schema", "number": 1})
    await set_up(bare_db)
    indexes = await bare_db.jobs.index_information()
    assert indexes["untold_by_kind"]["key"] == [("told", 1), ("kind", 1)]
    assert "untold" not in indexes


async def test_a_newer_schema_is_refused_with_a_sentence(bare_db: QueueDatabase):
    db = bare_db
    await set_up(db)
    await db.migrations.update_one({"_id": "schema"}, {"$set": {"number": 999}})
    with pytest.raises(StoreError, match=f"has schema 999, this program knows {max(MIGRATIONS)}: start the newer Ojak"):
        await set_up(db)


async def test_an_index_of_another_form_is_refused_with_a_sentence(bare_db: QueueDatabase):
    await bare_db.jobs.create_index([("body", -1)], name="body")
    with pytest.raises(StoreError, match="index of the collection jobs differs"):
        await set_up(bare_db)


async def test_a_database_that_is_not_there_is_one_sentence():
    # A socket, since the driver leaves a TCP one to the collector when it is cancelled while it connects.
    client = connect("mongodb://%2Fnothing%2Fhere.sock/", serverSelectionTimeoutMS=200)
    with pytest.raises(QueueUnavailable, match=r"/nothing/here\.sock.*check that it runs"):
        await set_up(QueueDatabase(client, "ojak"))
    await client.close()


@pytest.mark.parametrize("url", ["", "http://h", "mongodb://", "mongodb://user:secret@host:port/"])
def test_a_url_that_is_none_is_refused_without_its_password(url: str):
    with pytest.raises(ConfigError, match="mongo_url") as refusal:
        connect(url)
    assert "secret" not in str(refusal.value)


async def test_a_wake_up_reaches_who_listens(db: QueueDatabase):
    heard: asyncio.Queue[WakeUp] = asyncio.Queue()

    async def hear() -> None:
        async for wake_up in listen(db):
            await heard.put(wake_up)

    listener = asyncio.create_task(hear())
    try:
        async with asyncio.timeout(10):
            while heard.empty():
                # The listener hears only what comes after it opened its tail.
                await wake(db, [3, 1, 3], small=False)
                await asyncio.wait([asyncio.create_task(heard.join())], timeout=0.05)
                await asyncio.sleep(0)
            assert await heard.get() == WakeUp(shards=frozenset({1, 3}), small=False)
    finally:
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)


async def test_a_dropped_collection_of_wake_ups_is_made_anew_with_its_cap(bare_db: QueueDatabase):
    db = bare_db
    await set_up(db)
    await db.drop("wakeups")
    await wake(db, [1])
    assert not await is_capped(db)
    await set_up(db)
    assert await is_capped(db)
