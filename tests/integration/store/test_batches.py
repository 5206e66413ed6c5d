# SPDX-License-Identifier: Apache-2.0
import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from ojak import Batch, BatchProgress, Deliverer, InputError, SentState, UnknownBatch
from ojak.model.job import Priority
from ojak.model.outcome import FailureReason, SettledOutcome
from ojak.store.batches import end_past_deadlines
from ojak.store.database import QueueDatabase

from .claiming import Hand

SENDER = "https://a.test/u"
INBOXES = ["https://h.test/a", "https://h.test/b", "https://g.test/a"]


@pytest.fixture
def hand(db: QueueDatabase) -> Hand:
    return Hand(db)


@pytest.fixture
async def deliverer(mongod_url: str, db: QueueDatabase):
    async with Deliverer(mongod_url, database=db.name) as deliverer:
        yield deliverer


async def send(deliverer: Deliverer, batch: Batch, name: str = "1", inboxes=INBOXES, kind: str = "Like"):
    return await deliverer.send_batch({"id": f"https://a.test/{name}", "type": kind}, SENDER, inboxes, batch)


async def make_over(db: QueueDatabase, *, ago_s: float = 1.0) -> None:
    past = datetime.now(UTC) - timedelta(seconds=ago_s)
    await db.batches.update_many({}, {"$set": {"deadline": past}})
    await db.jobs.update_many({"batch": {"$exists": True}}, {"$set": {"give_up_at": past}})


async def test_a_batch_is_followed_by_its_tag(deliverer, db, hand):
    await send(deliverer, Batch(tag="b"))
    await send(deliverer, Batch(tag="b"), name="2", inboxes=INBOXES[:1])
    await deliverer.send({"id": "https://a.test/3"}, SENDER, INBOXES)
    before = await deliverer.follow("b")
    assert (before.counts, before.total, before.unfinished, before.ends_at) == ({"queued": 4}, 4, 4, None)
    jobs = [job for job in await hand.claim(Priority.SMALL) if job.activity_id != "https://a.test/3"]
    await hand.end(jobs[0])
    await hand.end(jobs[1], outcome=SettledOutcome.REFUSED)
    await hand.end(jobs[2], outcome=FailureReason.OUT_OF_RETRIES)
    progress = await deliverer.follow("b")
    assert progress.counts == {"delivered": 1, "refused": 1, "out-of-retries": 1, "leased": 1}
    assert progress.ends_at is not None
    assert {failure.outcome for failure in progress.failures} == {"refused", "out-of-retries"}
    assert all(failure.status == 202 for failure in progress.failures)
    assert (await deliverer.follow("b", failures=1)).failures == progress.failures[:1]
    await hand.end(jobs[3])
    assert (await deliverer.follow("b")).ends_at is None


async def test_a_batch_that_nobody_sent_is_refused_by_name(deliverer):
    with pytest.raises(UnknownBatch, match="'nope'"):
        await deliverer.follow("nope")


async def test_a_delivery_belongs_to_the_batch_that_queued_it_first(deliverer):
    await send(deliverer, Batch(tag="first"), inboxes=INBOXES[:1])
    sent = await send(deliverer, Batch(tag="second"))
    assert sent.count(SentState.DUPLICATE) == 1
    assert [(await deliverer.follow(tag)).total for tag in ("first", "second")] == [1, 2]


async def test_its_order_key_orders_what_has_nothing_else_in_common(deliverer, hand):
    for n in range(3):
        await send(deliverer, Batch(tag="b", order_key="k"), name=str(n), inboxes=INBOXES[:1])
    order = []
    while jobs := await hand.claim(Priority.SMALL):
        order += [job.activity_id[-1] for job in jobs]
        await hand.end(*jobs)
    assert order == ["0", "1", "2"]


async def test_the_first_send_decides_the_deadline(deliverer, db):
    await asyncio.gather(*(send(deliverer, Batch(tag="b", deadline=timedelta(hours=1)), name=str(n)) for n in range(4)))
    await send(deliverer, Batch(tag="b", deadline=timedelta(days=1)), name="later")
    progress: BatchProgress = await deliverer.follow("b")
    assert progress.deadline is not None
    assert abs((progress.deadline - progress.began_at).total_seconds() - 3600) < 1
    assert await db.jobs.distinct("give_up_at") == [progress.deadline]


async def test_at_its_deadline_what_waits_is_given_up_on_held_or_not(deliverer, db, hand):
    """A host that is held, a retry, a row behind another: all end without an attempt."""
    batch = Batch(tag="b", deadline=timedelta(hours=1), order_key="k")
    await send(deliverer, batch)
    await send(deliverer, batch, name="2")
    await deliverer.send({"id": "https://a.test/free"}, SENDER, INBOXES[:1], order_key="k")
    jobs = await hand.claim(Priority.SMALL)
    await hand.retry(jobs[0], delay_s=7200)
    await db.hosts.update_many({"_id": "g.test"}, {"$set": {"hold_until": datetime(2100, 1, 1, tzinfo=UTC)}})
    assert await end_past_deadlines(db) == 0
    await make_over(db)
    assert await end_past_deadlines(db) == 4, "two are leased"
    await hand.retry(*jobs[1:])
    assert await end_past_deadlines(db) == 2
    states = await hand.states()
    assert states.pop("free a") == "queued", "what waited behind them goes"
    assert set(states.values()) == {"past-deadline"}
    assert await db.jobs.count_documents({"state": "past-deadline", "told": False, "end": 1}) == 6


async def test_what_is_claimed_after_the_deadline_says_so(deliverer, db, hand):
    await send(deliverer, Batch(tag="b", deadline=timedelta(hours=1)), inboxes=INBOXES[:1])
    await deliverer.send({"id": "https://a.test/2"}, SENDER, INBOXES[:1])
    await make_over(db)
    assert {job.activity_id[-1]: job.past_deadline for job in await hand.claim(Priority.SMALL)} == {
        "1": True,
        "2": False,
    }


async def test_a_batch_is_looked_at_until_long_after_and_a_later_send_opens_it_again(deliverer, db):
    await send(deliverer, Batch(tag="b", deadline=timedelta(hours=1)))
    await make_over(db)
    await end_past_deadlines(db)
    assert await db.batches.count_documents({"open": True}) == 1
    await make_over(db, ago_s=7200)
    await end_past_deadlines(db)
    assert await db.batches.count_documents({"open": True}) == 0
    await send(deliverer, Batch(tag="b"), name="2", inboxes=INBOXES[:1])
    assert await end_past_deadlines(db) == 1


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"tag": ""}, "tag"),
        ({"tag": "x" * 3000}, "tag"),
        ({"tag": "b", "order_key": ""}, "order_key"),
        ({"tag": "b", "deadline": timedelta(0)}, "deadline"),
        ({"tag": "b", "deadline": datetime(2030, 1, 1)}, "zone"),  # noqa: DTZ001 - that is what is refused
    ],
)
def test_a_batch_that_cannot_be_is_refused(fields, match):
    with pytest.raises(InputError, match=match):
        Batch(**fields)
