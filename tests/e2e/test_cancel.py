# SPDX-License-Identifier: Apache-2.0
"""Cancelling and batches with workers at work (SPEC section 2; field report R30)."""

import asyncio
from datetime import timedelta

import pytest
from tests.waiting import until

from ojak import Batch, Cancelled, Deliverer, DelivererConfig, DeliveryFailure, Settled, SettledOutcome
from ojak.http.aiohttp_transport import AiohttpTransport
from ojak.store import claim as claim_module
from ojak.worker import claimer as claimer_module

from .conftest import SENDER, running

ONE = {"id": "https://a.test/1", "type": "Like"}


async def test_r30a_what_is_cancelled_while_nobody_works_is_never_sent(farm, deliverer_to, db):
    here = farm({"accept": 20})
    deliverer = deliverer_to(here)
    await deliverer.send(ONE, SENDER, here.inboxes())
    cancelled = await deliverer.cancel(activity=ONE["id"])
    assert (cancelled.count, cancelled.on_wire) == (20, 0)
    async with running(deliverer):
        await deliverer.send({"id": "https://a.test/2", "type": "Like"}, SENDER, here.inboxes()[:1])
        await until(lambda: _is(db, 1, state="delivered"))
    assert {arrival.activity for arrival in here.ledger().arrivals} == {"https://a.test/2"}


@pytest.mark.parametrize(
    ("answer_ms", "jobs"), [(1500, 30), pytest.param(20_000, 102, marks=pytest.mark.long)], ids=["scaled", "full"]
)
async def test_r30b_what_waits_behind_slow_requests_is_not_sent_and_these_end_as_what_they_are(
    farm, deliverer_to, db, *, answer_ms: int, jobs: int
):
    """Two requests of the host are on the wire, the others leased or queued behind them."""
    word = f"accept:{answer_ms}"
    here = farm({word: 1})
    told: asyncio.Queue[Settled] = asyncio.Queue()
    deliverer = deliverer_to(here, on_settled=told.put, config=DelivererConfig(read_s=60, request_s=60))
    inbox = here.inboxes()[0]
    async with running(deliverer):
        for n in range(jobs):
            await deliverer.send({"id": f"https://a.test/{n}", "type": "Like"}, SENDER, [inbox])
        await until(lambda: _open(here, word, 2))
        cancelled = await asyncio.wait_for(deliverer.cancel(sender=SENDER), 20)
        assert (cancelled.count, cancelled.on_wire) == (jobs - 2, 2)
        await until(lambda: _is(db, 2, state="delivered"), within_s=60)
    assert len(here.ledger().arrivals) == 2
    assert await db.jobs.count_documents({"state": "cancelled"}) == jobs - 2
    ends = [told.get_nowait() for _ in range(told.qsize())]
    assert [end.outcome for end in ends].count(SettledOutcome.DELIVERED) == 2


async def _open(farm, word: str, count: int) -> bool:
    hosts = await farm.async_client.hosts(word)
    return sum(host.open for host in hosts) >= count


async def test_r30c_no_second_knock_after_a_cancel(farm, deliverer_to, db, monkeypatch):
    """The first scheme is refused while the cancel waits: the other one is not tried."""
    here = farm({"rfc9421-only": 1})
    deliverer = deliverer_to(here)
    cancelling: list[asyncio.Task[Cancelled]] = []
    answered = asyncio.Event()
    post = AiohttpTransport.post

    async def held_up(self, request):
        answer = await post(self, request)
        if not cancelling:
            cancelling.append(asyncio.create_task(deliverer.cancel(activity=ONE["id"])))
            # Until the cancel has returned, which counts what it saw on the wire.
            await cancelling[0]
            answered.set()
        return answer

    monkeypatch.setattr(AiohttpTransport, "post", held_up)
    async with running(deliverer):
        await deliverer.send(ONE, SENDER, here.inboxes())
        await asyncio.wait_for(answered.wait(), 20)
        cancelled = await cancelling[0]
        await until(lambda: _is(db, 0, state={"$in": ["queued", "leased"]}))
    assert (cancelled.count, cancelled.on_wire) == (0, 1)
    assert [arrival.status for arrival in here.ledger().arrivals] == [401]


async def test_what_is_being_claimed_when_it_is_cancelled_is_not_sent_after_it(farm, deliverer_to, db, monkeypatch):
    """The rows are leased, and the worker has not yet heard of it when the cancel comes."""
    here = farm({"accept": 3})
    leased, go_on = asyncio.Event(), asyncio.Event()

    async def held_up(*args, **options):
        claimed = await claim_module.claim(*args, **options)
        if claimed:
            leased.set()
            await go_on.wait()
        return claimed

    monkeypatch.setattr(claimer_module, "claim", held_up)
    deliverer = deliverer_to(here)
    async with running(deliverer):
        await deliverer.send(ONE, SENDER, here.inboxes())
        await asyncio.wait_for(leased.wait(), 20)
        cancelling = asyncio.create_task(deliverer.cancel(activity=ONE["id"]))
        await until(lambda: _is(db, 3, state="leased", cancel={"$exists": True}))
        assert not cancelling.done()
        go_on.set()
        cancelled = await asyncio.wait_for(cancelling, 20)
        arrived = len(here.ledger().arrivals)
        assert cancelled.count + cancelled.on_wire == 3
        await until(lambda: _is(db, 0, state="leased"))
    assert len(here.ledger().arrivals) == arrived == cancelled.on_wire


async def test_a_sender_whose_key_takes_its_time_is_cancelled_before_its_request_begins(farm, deliverer_to, db):
    """Its delivery has a slot and is not on the wire."""
    here = farm({"accept": 1})
    deliverer = deliverer_to(here)
    keys, asked, go_on = deliverer._keys, asyncio.Event(), asyncio.Event()

    class Slow:
        async def keys_of(self, sender: str):
            asked.set()
            await go_on.wait()
            return await keys.keys_of(sender)

    await deliverer.send(ONE, SENDER, here.inboxes())
    deliverer._keys = Slow()
    async with running(deliverer):
        await asyncio.wait_for(asked.wait(), 20)
        cancelling = asyncio.create_task(deliverer.cancel(host=here.inboxes()[0].split("/")[2]))
        await until(lambda: _is(db, 1, state="leased", cancel={"$exists": True}))
        await until(lambda: _knows(deliverer))
        go_on.set()
        assert (await asyncio.wait_for(cancelling, 20)).count == 1
    assert here.ledger().arrivals == ()


async def _knows(deliverer: Deliverer) -> bool:
    (engine,) = deliverer._running
    return bool(engine._flights._cancelled)


async def test_a_batch_ends_at_its_deadline_while_its_host_fails(farm, deliverer_to, db):
    here = farm({"status:503": 1})
    told: asyncio.Queue[DeliveryFailure] = asyncio.Queue()
    deliverer = deliverer_to(here, on_failure=told.put, config=DelivererConfig(sweep_every_s=0.5))
    async with running(deliverer):
        batch = Batch(tag="b", deadline=timedelta(seconds=2))
        await deliverer.send_batch(ONE, SENDER, here.inboxes(), batch)
        end = await asyncio.wait_for(told.get(), 20)
    assert (end.outcome, end.attempts, end.reason) == ("past-deadline", 1, "status-503")
    assert (await db.jobs.find_one())["state"] == "past-deadline"


async def _is(db, count: int, **row: object) -> bool:
    return await db.jobs.count_documents(row) == count
