# SPDX-License-Identifier: Apache-2.0
"""A pause returns when nobody can send any more: whoever answers keeps to it, the others have lost their place."""

import asyncio
from datetime import timedelta

from ojak import Deliverer
from ojak.store.database import QueueDatabase
from ojak.store.notices import announce_settings, read_notices, say_known, until_known
from ojak.store.shards import bury_owner, join

ONE, TWO = b"1" * 16, b"2" * 16


async def test_everyone_who_lives_is_waited_for(db: QueueDatabase):
    await join(db, ONE, kept_s=45, about="test")
    await join(db, TWO, kept_s=45, about="test")
    number = await announce_settings(db)
    assert (await read_notices(db)).settings == number
    waited: asyncio.Queue[int] = asyncio.Queue()
    waiting = asyncio.create_task(until_known(db, number, on_waiting=waited.put_nowait))
    await say_known(db, ONE, number - 1)
    assert await asyncio.wait_for(waited.get(), 20) == 2
    await say_known(db, ONE, number)
    assert not waiting.done()
    await say_known(db, TWO, number + 1)
    await asyncio.wait_for(waiting, 20)


async def test_one_that_is_known_to_be_dead_or_lost_its_place_is_not(db: QueueDatabase):
    await join(db, ONE, kept_s=1.0, about="lost its database")
    await join(db, TWO, kept_s=45, about="died")
    number = await announce_settings(db)
    waiting = asyncio.create_task(until_known(db, number))
    await bury_owner(db, TWO, begun=0, lease_s=120)
    await asyncio.wait_for(waiting, 20)


async def test_a_pause_waits_for_a_worker_that_hangs_as_long_as_it_may_send(db: QueueDatabase, mongod_url: str):
    await join(db, ONE, kept_s=1.5, about="hangs")
    async with Deliverer(mongod_url, database=db.name) as deliverer:
        said: list[int] = []
        await deliverer.pause_sender("https://a.test/u", by="ops", duration=timedelta(hours=1), on_waiting=said.append)
        assert said[0] == 1
