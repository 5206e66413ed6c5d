# SPDX-License-Identifier: Apache-2.0
"""Replaying, explaining and listing."""

import pytest

from ojak import Deliverer, InputError, SettledOutcome, UnknownActivity, WaitsFor
from ojak.model.outcome import FailureReason
from ojak.model.selection import Replayed, Selection
from ojak.store.database import QueueDatabase

from .claiming import Hand

ONE = "https://a.test/1"
INBOXES = ["https://h.test/a", "https://h.test/b", "https://g.test/a"]


@pytest.fixture
def hand(db: QueueDatabase) -> Hand:
    return Hand(db)


@pytest.fixture
async def queue(mongod_url: str, db: QueueDatabase):
    async with Deliverer(mongod_url, database=db.name) as deliverer:
        yield deliverer


async def end_three_ways(put, hand) -> None:
    await put(INBOXES)
    first, second, third = await hand.claim()
    await hand.end(first)
    await hand.end(second, outcome=FailureReason.OUT_OF_RETRIES)
    await hand.end(third, outcome=SettledOutcome.CANCELLED)


async def test_what_was_not_delivered_waits_again(queue, put, hand, db):
    await end_three_ways(put, hand)
    assert await queue.replay(activity=ONE) == Replayed(count=1, without_body=0)
    row = await db.jobs.find_one({"state": "queued"})
    assert (row["tries"], row["leases"], "expire_at" in row, "told" in row) == (0, 0, False, False)
    assert row["activity"] == ONE
    (job,) = await hand.claim()
    assert job.ends == 1


@pytest.mark.parametrize(
    "which", [{"activity": ONE}, {"sender": "https://a.test/u"}, {"host": "h.test"}, {"object": "x"}, {"batch": "b"}]
)
async def test_by_whatever_it_is_found(queue, put, hand, which):
    await put(INBOXES[:2], about="x")
    await hand.db.jobs.update_many({}, {"$set": {"batch": "b"}})
    await hand.end(*await hand.claim(), outcome=FailureReason.OUT_OF_RETRIES)
    assert (await queue.replay(**which)).count == 2
    assert len(await hand.claim()) == 2


async def test_only_what_is_asked_for(queue, put, hand):
    await end_three_ways(put, hand)
    assert (await queue.replay(activity=ONE, outcomes=[SettledOutcome.DELIVERED, SettledOutcome.CANCELLED])).count == 2
    with pytest.raises(InputError, match="delivered"):
        await queue.replay(host="h.test", outcomes=[SettledOutcome.DELIVERED])


async def test_in_order_behind_what_was_queued_since(queue, put, hand):
    for n in range(2):
        await put(INBOXES[:1], activity_id=f"https://a.test/u{n}", kind="Update", about="https://a.test/post")
    await hand.end(*await hand.claim(), outcome=FailureReason.OUT_OF_RETRIES)
    await queue.replay(activity="https://a.test/u0")
    assert await hand.states() == {"u0 a": "blocked", "u1 a": "queued"}


async def test_without_its_body_or_with_other_bytes_under_its_id_it_is_left(queue, put, hand, db):
    await put(INBOXES)
    await hand.end(*await hand.claim(), outcome=FailureReason.OUT_OF_RETRIES)
    await put(["https://x.test/a"], note="other bytes")
    assert await queue.replay(host="h.test") == Replayed(count=0, without_body=2)
    await db.bodies.delete_many({})
    assert await queue.replay(host="g.test") == Replayed(count=0, without_body=1)
    assert await db.jobs.count_documents({"state": "out-of-retries"}) == 3


async def test_an_end_that_nobody_was_told_of_is_owed(queue, put, hand, db):
    await end_three_ways(put, hand)
    await db.jobs.update_many({"state": "out-of-retries"}, {"$set": {"told": False}})
    await queue.replay(activity=ONE)
    row = await db.jobs.find_one({"state": "queued"})
    assert [owed["state"] for owed in row["owed"]] == ["out-of-retries"]


async def test_explain_says_what_each_waits_for(queue, put, hand, db):
    update = {"kind": "Update", "about": "https://a.test/post"}
    await put([*INBOXES, "https://x.test/a"], activity_id="https://a.test/u0", **update)
    await put([*INBOXES, "https://y.test/a"], activity_id=ONE, **update)
    jobs = {job.inbox: job for job in await hand.claim()}
    await hand.end(jobs["https://h.test/a"], outcome=SettledOutcome.REFUSED)
    await hand.retry(jobs["https://g.test/a"])
    await db.hosts.update_one({"_id": "y.test"}, [{"$set": {"hold_until": {"$add": ["$$NOW", 60_000]}}}])
    first = await queue.explain("https://a.test/u0")
    states = {item.inbox: item for item in first.deliveries}
    assert first.counts == {"refused": 1, "queued": 1, "leased": 2}
    assert first.deliveries[-1].state == "refused", "what has ended comes last"
    assert (states["https://h.test/a"].waits_for, states["https://h.test/a"].status) == (None, 202)
    waiting = states["https://g.test/a"]
    assert (waiting.waits_for, waiting.attempts, waiting.reason) == (WaitsFor.TIME, 1, "status-503")
    assert waiting.next_try is not None
    assert states["https://x.test/a"].waits_for is WaitsFor.ANSWER
    second = {item.inbox: item for item in (await queue.explain(ONE)).deliveries}
    assert second["https://h.test/a"].waits_for is WaitsFor.TURN
    assert (second["https://g.test/a"].waits_for, second["https://g.test/a"].behind) == (
        WaitsFor.ORDER,
        "https://a.test/u0",
    )


async def test_explain_of_a_held_host_names_when_it_opens(queue, put, db):
    await put(INBOXES[:1])
    await db.hosts.update_one({"_id": "h.test"}, [{"$set": {"hold_until": {"$add": ["$$NOW", 60_000]}}}])
    (item,) = (await queue.explain(ONE)).deliveries
    assert item.waits_for is WaitsFor.HOST
    assert item.next_try is not None


async def test_explain_shows_as_many_as_asked_and_counts_all(queue, put):
    await put([f"https://h{n}.test/in" for n in range(20)])
    explained = await queue.explain(ONE, limit=5)
    assert (len(explained.deliveries), explained.total) == (5, 20)
    with pytest.raises(UnknownActivity, match=r"https://a\.test/none"):
        await queue.explain("https://a.test/none")


async def test_lists_of_deliveries(queue, put, hand):
    await end_three_ways(put, hand)
    await put(INBOXES, activity_id="https://a.test/2")
    assert len(await queue.deliveries()) == 6
    assert len(await queue.deliveries(limit=4)) == 4
    assert len(await queue.deliveries(states=["queued"])) == 3
    assert [item.state for item in await queue.deliveries(Selection(activity=ONE), states=["cancelled"])] == [
        "cancelled"
    ]
    with pytest.raises(InputError, match="'nope'"):
        await queue.deliveries(states=["nope"])
