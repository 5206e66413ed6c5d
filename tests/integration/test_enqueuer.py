# SPDX-License-Identifier: Apache-2.0
"""What `send` does with a queue that is full, with a flood of small sends, and with a thousand callers at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from ojak import Deliverer, DelivererConfig, Priority, QueueFull
from ojak.clock import ManualClock
from ojak.store.database import QueueDatabase

SENDER = "https://a.test/u"


@pytest.fixture
async def deliverer_with(db: QueueDatabase, mongod_url: str) -> AsyncIterator[Callable[..., Deliverer]]:
    async with AsyncExitStack() as stack:

        def make(*, clock: ManualClock | None = None, **config: int) -> Deliverer:
            made = Deliverer(mongod_url, database=db.name, config=DelivererConfig(**config), clock=clock)  # type: ignore[arg-type]
            stack.push_async_callback(made.close)
            return made

        yield make


def activity(name: str, kind: str = "Create") -> dict[str, str]:
    return {"id": f"https://a.test/{name}", "type": kind, "object": f"https://a.test/o/{name}"}


def inboxes(count: int, start: int = 0) -> list[str]:
    return [f"https://h{n}.test/inbox" for n in range(start, start + count)]


async def test_a_queue_that_is_full_takes_nothing_more_and_says_so(db, deliverer_with):
    deliverer = deliverer_with(max_queued=100)
    await deliverer.send(activity("1"), SENDER, inboxes(98))
    with pytest.raises(QueueFull, match=r"holds about 98 deliveries and 3 more .* allowed are 100") as full:
        await deliverer.send(activity("2"), SENDER, inboxes(3))
    assert (full.value.queued, full.value.allowed) == (98, 100)
    assert await db.jobs.count_documents({}) == 98
    assert await db.bodies.count_documents({}) == 1
    assert (await deliverer.send(activity("2"), SENDER, inboxes(2))).new == 2


async def test_what_has_ended_takes_no_room(db, deliverer_with):
    clock = ManualClock()
    deliverer = deliverer_with(max_queued=100, clock=clock)
    await deliverer.send(activity("1"), SENDER, inboxes(90))
    with pytest.raises(QueueFull):
        await deliverer.send(activity("2"), SENDER, inboxes(20))
    await db.jobs.update_many({"lane": {"$regex": "^h[0-7]"}}, {"$set": {"state": "delivered"}})
    # Somebody counted a moment ago: that stands for a while, here and in other processes.
    with pytest.raises(QueueFull):
        await deliverer_with(max_queued=100).send(activity("2"), SENDER, inboxes(20))
    await db.settings.update_one({"_id": "queued"}, [{"$set": {"again_at": "$$NOW"}}])
    clock.turn(5)
    assert (await deliverer.send(activity("2"), SENDER, inboxes(20))).new == 20


async def test_what_this_process_queues_counts_at_once_and_what_others_queue_five_seconds_later(db, deliverer_with):
    clock = ManualClock()
    deliverer, other = deliverer_with(max_queued=100, clock=clock), deliverer_with(max_queued=100)
    await deliverer.send(activity("1"), SENDER, inboxes(40))
    await other.send(activity("2"), SENDER, inboxes(50))
    assert (await deliverer.send(activity("3"), SENDER, inboxes(20))).new == 20
    clock.turn(5)
    with pytest.raises(QueueFull):
        await deliverer.send(activity("4"), SENDER, inboxes(1))


async def test_small_sends_of_one_sender_beyond_a_hundred_a_minute_are_a_fan_out(db, deliverer_with):
    clock = ManualClock()
    deliverer = deliverer_with(small_sends_a_minute=3, clock=clock)
    for n in range(5):
        await deliverer.send(activity(f"c{n}"), SENDER, inboxes(1, n))
        await deliverer.send(activity(f"a{n}", "Accept"), SENDER, inboxes(1, n))
        await deliverer.send(activity(f"r{n}", "Reject"), SENDER, inboxes(1, n))
    await deliverer.send(activity("told"), SENDER, inboxes(1), priority=Priority.SMALL)
    await deliverer.send(activity("other"), "https://b.test/u", inboxes(1))
    clock.turn(60)
    await deliverer.send(activity("later"), SENDER, inboxes(1))
    fan_outs = {row["activity"] async for row in db.jobs.find({"priority": 1})}
    assert fan_outs == {"https://a.test/c3", "https://a.test/c4"}
    assert await db.jobs.count_documents({"priority": 0}) == 16


async def test_a_thousand_sends_at_once_all_succeed(db, deliverer_with):
    deliverer = deliverer_with()
    sent = await asyncio.gather(*(deliverer.send(activity(str(n)), SENDER, inboxes(1, n)) for n in range(1000)))
    assert sum(answer.new for answer in sent) == 1000
    assert await db.jobs.count_documents({}) == 1000
