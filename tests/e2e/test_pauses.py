# SPDX-License-Identifier: Apache-2.0
"""What is paused gets not one request, also across restarts (SPEC section 4; field report R56)."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from tests.waiting import until

from ojak import Deliverer, DelivererConfig
from ojak.farm import FarmHandle
from ojak.farm.behaviour import Respond
from ojak.http.aiohttp_transport import AiohttpTransport
from ojak.store import claim as claim_module
from ojak.store import notices as store_notices
from ojak.store.counts import count_by_state
from ojak.store.database import DatabaseTrouble, QueueDatabase
from ojak.store.renew import Renewals
from ojak.worker import claimer as claimer_module
from ojak.worker.notices import Notices

from .conftest import SENDER, running

QUICK = DelivererConfig(poll_every_s=0.05)
POLLS_SELDOM = DelivererConfig(poll_every_s=30)


async def send(deliverer: Deliverer, inboxes: list[str], count: int, *, what: str = "n") -> None:
    for number in range(count):
        await deliverer.send({"id": f"https://a.test/{what}{number}", "type": "Like"}, SENDER, inboxes)


async def is_open(farm: FarmHandle, words: str, count: int) -> bool:
    return sum(host.open for host in await farm.async_client.hosts(words)) >= count


async def delivered(db: QueueDatabase, count: int) -> bool:
    return await db.jobs.count_documents({"state": "delivered"}) >= count


def authority(farm: FarmHandle, number: int = 0) -> str:
    return farm.hosts[number].inbox("/").removeprefix("http://").removesuffix("/")


async def test_r56_a_paused_host_gets_no_request_and_its_open_ones_end_as_what_they_are(farm, deliverer_to, db, ended):
    here = farm({"accept:600": 1, "accept": 1})
    inboxes = here.inboxes("accept:600")
    name = inboxes[0].removeprefix("http://").partition("/")[0]
    deliverer, other = deliverer_to(here, config=QUICK), deliverer_to(here, config=QUICK)
    async with running(deliverer, other):
        await send(deliverer, inboxes, 6)
        await until(lambda: is_open(here, "accept:600", 2))
        await asyncio.wait_for(deliverer.pause_host(name, by="ann"), 10)
        begun = len(here.ledger().arrivals)
        await send(deliverer, inboxes, 3, what="later")
        await send(deliverer, here.inboxes("accept"), 5, what="living")
        await ended(5 + begun)
        await until(lambda: _none_leased(db))
        assert len([one for one in here.ledger().arrivals if one.inbox in inboxes]) == begun
        (pause,) = await deliverer.pauses()
        assert (pause.by, pause.until) == ("ann", None)
        stopped_at = len(here.ledger().arrivals)
    # After a restart, with whoever works then.
    heir = deliverer_to(here, config=QUICK)
    async with running(heir):
        await send(heir, here.inboxes("accept"), 5, what="restarted")
        await until(lambda: delivered(db, stopped_at + 5))
        assert len(here.ledger().arrivals) == stopped_at + 5
        assert await heir.resume_host(name)
        await ended(19)
    assert await count_by_state(db) == {"delivered": 19}
    assert await db.jobs.count_documents({"tries": {"$ne": 1}}) == 0, "waiting spent no attempt"


async def _none_leased(db: QueueDatabase) -> bool:
    return await db.jobs.count_documents({"state": "leased"}) == 0


@pytest.mark.parametrize("everything", [False, True], ids=["host", "everything"])
async def test_a_claim_that_read_its_hosts_before_the_pause_sends_nothing_after_it(
    farm, deliverer_to, db, monkeypatch, *, everything
):
    """The claim stops between reading the host as ready and leasing its jobs, and goes on when the pause is written."""
    here = farm({"accept": 1})
    deliverer = deliverer_to(here, config=QUICK)
    claiming, go_on = asyncio.Event(), asyncio.Event()
    claim = claim_module.claim

    async def held_up(*args: Any, **more: Any) -> Any:
        claiming.set()
        await go_on.wait()
        return await claim(*args, **more)

    monkeypatch.setattr(claimer_module, "claim", held_up)
    async with running(deliverer):
        await send(deliverer, here.inboxes(), 3)
        await asyncio.wait_for(claiming.wait(), 10)
        pause = deliverer.pause_everything(by="ann") if everything else deliverer.pause_host(authority(here), by="ann")
        pausing = asyncio.create_task(pause)
        await until(lambda: _is_paused(deliverer))
        assert not pausing.done()
        go_on.set()
        await asyncio.wait_for(pausing, 10)
        arrived = len(here.ledger().arrivals)
        await until(lambda: _none_leased(db))
        assert len(here.ledger().arrivals) == arrived
        assert await db.jobs.count_documents({"state": "queued"}) + arrived >= 3
        assert await (deliverer.resume_everything() if everything else deliverer.resume_host(authority(here)))
        await until(lambda: delivered(db, 3))


async def _is_paused(deliverer: Deliverer) -> bool:
    return bool(await deliverer.pauses())


async def test_r56_while_everything_is_paused_nothing_is_sent_by_anybody_and_a_timed_pause_ends_alone(
    farm, deliverer_to, db, ended
):
    here = farm({"accept:400": 2})
    first = deliverer_to(here, config=QUICK)
    async with running(first):
        await send(first, here.inboxes(), 10)
        await until(lambda: is_open(here, "accept:400", 3))
        await asyncio.wait_for(first.pause_everything(by="ann"), 10)
        await until(lambda: _none_leased(db))
        arrived = len(here.ledger().arrivals)
        second = deliverer_to(here, config=QUICK)
        async with running(second):
            await send(second, here.inboxes(), 1, what="later")
            (pause,) = await second.pauses()
            assert (pause.host, pause.by, pause.waiting) == (None, "ann", 22 - arrived)
            assert len(here.ledger().arrivals) == arrived
            await second.pause_everything(by="bob", duration=timedelta(seconds=1))
            await ended(22)
        assert await first.resume_everything() is False
    assert await count_by_state(db) == {"delivered": 22}
    assert await db.jobs.count_documents({"tries": {"$ne": 1}}) == 0


async def test_no_second_knock_after_a_pause(farm, deliverer_to, db, monkeypatch):
    """The first scheme is refused while the pause waits: the other one is not tried."""
    here = farm({"rfc9421-only": 1})
    deliverer = deliverer_to(here)
    pausing: list[asyncio.Task[None]] = []
    post = AiohttpTransport.post

    async def held_up(self, request):
        answer = await post(self, request)
        if not pausing:
            pausing.append(asyncio.create_task(deliverer.pause_host(authority(here), by="ann")))
            await pausing[0]
        return answer

    monkeypatch.setattr(AiohttpTransport, "post", held_up)
    async with running(deliverer):
        await send(deliverer, here.inboxes(), 1)
        await until(lambda: _tried(db))
    assert [arrival.status for arrival in here.ledger().arrivals] == [401]
    assert await db.jobs.count_documents({"state": "queued"}) == 1


async def _tried(db: QueueDatabase) -> bool:
    return await db.jobs.count_documents({"state": "queued", "tries": 1}) == 1


async def test_a_pause_waits_for_a_worker_that_is_silent_until_its_time_is_over(deliverer_to, farm, db):
    here = farm({"accept": 1})
    deliverer = deliverer_to(here)
    await deliverer.set_up()
    await db.workers.update_one({"_id": b"silent"}, [{"$set": {"until": db.now.plus(1.2)}}], upsert=True)
    waited: list[int] = []
    await asyncio.wait_for(deliverer.pause_host("h.test", by="ann", on_waiting=waited.append), 5)
    assert set(waited) == {1}
    await db.workers.update_one({"_id": b"silent"}, [{"$set": {"until": db.now.plus(60)}}])
    await db.workers.update_one({"_id": b"silent"}, {"$set": {"dead": True}})
    await asyncio.wait_for(deliverer.pause_everything(by="ann"), 2)
    await deliverer.close()


async def test_a_worker_that_was_away_while_a_pause_was_made_looks_before_it_begins_anything(
    farm, deliverer_to, db, monkeypatch, ended
):
    """It renews nothing and hears nothing until the pause no longer waits for it, and has jobs of the host in hand."""
    here = farm({"accept:2500": 1, "accept": 1})
    config = DelivererConfig(poll_every_s=0.05, shard_lease_s=1.2)
    away, other = deliverer_to(here, config=config), deliverer_to(here)
    gone, renewed, heard = threading.Event(), asyncio.Event(), asyncio.Event()
    heard.set()
    renew, read, take = Renewals.renew_shards, store_notices.read_notices, Notices.renewed

    def renew_unless_gone(self: Renewals, owner: bytes, *, lease_s: float) -> dict[int, int]:
        if gone.is_set():
            raise DatabaseTrouble
        return renew(self, owner, lease_s=lease_s)

    async def read_when_back(database: QueueDatabase) -> Any:
        await heard.wait()
        return await read(database)

    def note(self: Notices, *, asked_at_s: float) -> None:
        take(self, asked_at_s=asked_at_s)
        if not gone.is_set() and not heard.is_set():
            renewed.set()

    monkeypatch.setattr(Renewals, "renew_shards", renew_unless_gone)
    monkeypatch.setattr(store_notices, "read_notices", read_when_back)
    monkeypatch.setattr(Notices, "renewed", note)
    async with running(away):
        await send(away, here.inboxes("accept:2500"), 8)
        await until(lambda: is_open(here, "accept:2500", 2))
        heard.clear()
        gone.set()
        await asyncio.wait_for(other.pause_host(authority(here), by="ann"), 10)
        gone.clear()
        await asyncio.wait_for(renewed.wait(), 10)
        here.client.behave("accept:2500", Respond(status=202))
        # Its place and its shards are its own again, and it has not looked: slots are free, and it has jobs in hand.
        await ended(2)
        await until(lambda: _none_open(here))
        arrived = len(here.ledger().arrivals)
        assert arrived == 2
        heard.set()
        await send(other, here.inboxes("accept"), 2, what="living")
        await ended(arrived + 2)
        assert len(here.ledger().arrivals) == arrived + 2
        assert await other.resume_host(authority(here))
        await ended(10)
    await other.close()


async def _none_open(farm: FarmHandle) -> bool:
    return not await is_open(farm, "accept:2500", 1)
