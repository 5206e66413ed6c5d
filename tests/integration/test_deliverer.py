# SPDX-License-Identifier: Apache-2.0
"""A `Deliverer` on a real MongoDB, without anybody to deliver to."""

import asyncio
from typing import Any

import pytest
from pymongo.errors import InvalidOperation

from ojak import Deliverer, StoreError
from ojak.store.database import QueueDatabase, connect
from ojak.store.setup import set_up

BODY = b'{"id":"https://a.test/1","type":"Like"}'


async def test_good_inboxes_are_queued_beside_those_that_are_none(db: QueueDatabase, mongod_url: str):
    async with Deliverer(mongod_url, database=db.name) as deliverer:
        mixed: list[Any] = [None, "https://b.test/inbox", 7, "https://c.test/\ud800", "https://d.test/inbox"]
        sent = await deliverer.send(BODY, "https://a.test/u", mixed)
    assert (sent.new, len(sent.refused)) == (2, 3)
    assert await db.jobs.count_documents({}) == 2


async def test_a_deliverer_that_cannot_be_entered_lets_go_of_its_own_client(bare_db: QueueDatabase, mongod_url: str):
    await set_up(bare_db)
    await bare_db.migrations.update_one({"_id": "schema"}, {"$set": {"number": 999}})
    deliverer = Deliverer(mongod_url, database=bare_db.name)
    with pytest.raises(StoreError, match="schema 999"):
        async with deliverer:
            pytest.fail("it was entered")
    with pytest.raises(InvalidOperation, match="after close"):
        await deliverer._db.client.admin.command("ping")
    client = connect(mongod_url)
    with pytest.raises(StoreError, match="schema 999"):
        async with Deliverer(client, database=bare_db.name):
            pytest.fail("it was entered")
    await client.admin.command("ping")
    await client.close()


async def test_closing_ends_a_setting_up_that_nobody_waits_for_any_more():
    deliverer = Deliverer("mongodb://nowhere.invalid/")
    entering = asyncio.create_task(deliverer.__aenter__())
    await asyncio.sleep(0)
    assert deliverer._ready is not None
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert deliverer._ready.cancelled()
