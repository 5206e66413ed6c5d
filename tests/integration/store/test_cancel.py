# SPDX-License-Identifier: Apache-2.0
"""Rule C: what is cancelled ends or is flagged, whatever state it moves through meanwhile."""

import asyncio

import pytest
from tests.waiting import until

from ojak.errors import InputError
from ojak.model.job import UNFINISHED
from ojak.model.outcome import SettledOutcome
from ojak.model.selection import REPLAYED, Cancelled, Selection
from ojak.store import cancel as cancel_module
from ojak.store.cancel import cancel, flagged_of, mark_begun
from ojak.store.database import QueueDatabase
from ojak.store.ends import untold
from ojak.store.hand_back import hand_back, undo_claim
from ojak.store.reap import bury, reap_expired
from ojak.store.select import _filters, selected

from .claiming import Hand

ONE = "https://a.test/1"
INBOXES = ["https://h.test/a", "https://h.test/b", "https://g.test/a"]
BY_ACTIVITY = Selection(activity=ONE)


@pytest.fixture
def hand(db: QueueDatabase) -> Hand:
    return Hand(db)


async def flagged_by(hand: Hand) -> set[bytes]:
    leased = [row["_id"] async for row in hand.db.jobs.find({"state": "leased", "lease.by": hand.owner})]
    return await flagged_of(hand.db, leased)


async def count(db: QueueDatabase, **row: object) -> int:
    return await db.jobs.count_documents(row)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(activity=ONE), 3),
        (Selection(object="https://a.test/post"), 3),
        (Selection(sender="https://a.test/u"), 6),
        (Selection(sender="https://a.test/other"), 0),
        (Selection(host="H.test"), 4),
        (Selection(host="h.test:8080"), 0),
        (Selection(batch="none"), 0),
    ],
    ids=str,
)
async def test_what_waits_ends_at_once_and_is_counted_exactly(db, put, selection, expected):
    await put(INBOXES, about="https://a.test/post")
    await put(INBOXES, activity_id="https://a.test/2")
    assert await cancel(db, selection.canonical()) == Cancelled(count=expected, on_wire=0)
    assert await count(db, state="cancelled", told=False, end=1) == expected
    assert await cancel(db, selection.canonical()) == Cancelled(count=0, on_wire=0)
    assert len(await untold(db, older_s=0)) == expected


def test_exactly_one_thing_is_named():
    for wrong in ({}, {"activity": ONE, "host": "h.test"}, {"sender": ""}):
        with pytest.raises(InputError):
            Selection(**wrong)
    with pytest.raises(InputError, match="host is"):
        Selection(host="not a host").canonical()


async def test_what_is_blocked_ends_and_what_waits_behind_the_cancelled_goes(db, put, hand):
    for n in range(3):
        await put(INBOXES[:1], activity_id=f"https://a.test/u{n}", kind="Update", about="https://a.test/post")
    await cancel(db, Selection(activity="https://a.test/u0"))
    assert await hand.states() == {"u0 a": "cancelled", "u1 a": "queued", "u2 a": "blocked"}
    await cancel(db, Selection(activity="https://a.test/u2"))
    assert await hand.states() == {"u0 a": "cancelled", "u1 a": "queued", "u2 a": "cancelled"}


async def test_a_new_send_queues_the_cancelled_again(db, put):
    await put(INBOXES)
    await cancel(db, BY_ACTIVITY)
    await put(INBOXES)
    assert await count(db, state="queued", cancel={"$exists": False}) == 3


async def test_it_waits_until_the_worker_has_decided(db, put, hand):
    await put(INBOXES)
    jobs = await hand.claim()
    waiting: list[int] = []
    cancelling = asyncio.create_task(cancel(db, BY_ACTIVITY, on_waiting=waiting.append))
    await until(lambda: _is(flagged_by(hand), 3))
    first, second, third = jobs
    await mark_begun(db, {first.stamp: [first.id]})
    await hand.end(second, outcome=SettledOutcome.CANCELLED)
    assert not cancelling.done()
    await hand.end(third)
    assert await asyncio.wait_for(cancelling, 20) == Cancelled(count=1, on_wire=2)
    await hand.end(first)
    assert await count(db, state="delivered") == 2


async def _is(asked, expected: int) -> bool:
    return len(await asked) == expected


@pytest.mark.parametrize("how", ["retry", "hand-back", "undo", "reaper", "obituary", "obituary-begun"])
async def test_a_flagged_row_whose_lease_ends_without_an_outcome_ends_cancelled(db, put, hand, how):
    await put(INBOXES[:1], kind="Update", about="https://a.test/post")
    await put(INBOXES[:1], activity_id="https://a.test/next", kind="Update", about="https://a.test/post")
    (job,) = await hand.claim()
    cancelling = asyncio.create_task(cancel(db, BY_ACTIVITY))
    await until(lambda: _is(flagged_by(hand), 1))
    if how == "retry":
        await hand.retry(job)
    elif how == "hand-back":
        await hand_back(db, {job.stamp: [job.id]})
    elif how == "undo":
        await undo_claim(db, [job.lane], stamp=job.stamp, lease_s=120)
    elif how == "reaper":
        await db.jobs.update_many({"state": "leased"}, [{"$set": {"lease.until": {"$subtract": ["$$NOW", 1]}}}])
        assert await reap_expired(db, max_deaths=5) == 1
    else:
        await bury(db, hand.owner, [job.id] if how == "obituary-begun" else [], max_deaths=5)
    assert await asyncio.wait_for(cancelling, 20) == Cancelled(count=1, on_wire=0)
    row = await db.jobs.find_one({"_id": job.id})
    assert (row["state"], row["end"], row["told"], "lease" in row) == ("cancelled", 1, False, False)
    assert (await hand.states())["next a"] == "queued"


async def test_an_outcome_is_worth_more_than_a_flag(db, put, hand):
    await put(INBOXES[:1])
    (job,) = await hand.claim()
    cancelling = asyncio.create_task(cancel(db, BY_ACTIVITY))
    await until(lambda: _is(flagged_by(hand), 1))
    await hand.end(job)
    assert await asyncio.wait_for(cancelling, 20) == Cancelled(count=0, on_wire=1)
    assert await count(db, state="delivered") == 1


async def test_a_row_that_moves_while_it_is_looked_for_is_not_missed(db, put, hand, monkeypatch):
    """Between the look and the update a row goes from leased to queued, and another from queued to leased."""
    await put(INBOXES[:1])
    (leased,) = await hand.claim()
    await put(["https://h.test/b"])
    original = cancel_module._cancelled_or_flagged
    moved = asyncio.Event()

    async def moving(*args, **options):
        async for rows in selected(*args, **options):
            if not moved.is_set():
                moved.set()
                await hand.retry(leased, delay_s=3600)
                await hand.claim()
            yield rows

    monkeypatch.setattr(cancel_module, "selected", moving)
    assert original is cancel_module._cancelled_or_flagged
    cancelling = asyncio.create_task(cancel(db, BY_ACTIVITY))
    await until(lambda: _is(flagged_by(hand), 1))
    (stamp,) = [row["lease"]["stamp"] async for row in db.jobs.find({"state": "leased"})]
    (row_id,) = await flagged_by(hand)
    await hand_back(db, {stamp: [row_id]})
    assert await asyncio.wait_for(cancelling, 20) == Cancelled(count=2, on_wire=0)


async def test_a_second_cancel_waits_for_the_first_ones_flags_and_does_not_count_them(db, put, hand):
    await put(INBOXES[:1])
    (job,) = await hand.claim()
    both = [asyncio.create_task(cancel(db, BY_ACTIVITY))]
    await until(lambda: _is(flagged_by(hand), 1))
    both.append(asyncio.create_task(cancel(db, Selection(host="h.test"))))
    await until(lambda: _undecided(both))
    await hand_back(db, {job.stamp: [job.id]})
    assert await asyncio.gather(*both) == [Cancelled(count=1, on_wire=0), Cancelled(count=0, on_wire=0)]


async def _undecided(tasks) -> bool:
    await asyncio.sleep(0)
    return not any(task.done() for task in tasks)


async def test_thousands_go_in_bounded_steps(db, put):
    await put([f"https://h{n % 7}.test/{n}" for n in range(2300)])
    assert (await cancel(db, Selection(sender="https://a.test/u"))).count == 2300


async def test_cancelling_reads_what_it_hits_and_not_the_queue(db, put):
    await put([f"https://h{n % 7}.test/{n}" for n in range(300)], activity_id="https://a.test/many")
    await put(INBOXES)
    for where in ({"body": (await db.jobs.find_one({"activity": ONE}))["body"]}, {"lane": "g.test"}, {"batch": "b"}):
        found = await db.jobs.find({**where, "state": {"$in": list(UNFINISHED)}}).explain()
        assert found["executionStats"]["totalDocsExamined"] <= len(INBOXES), where
    where = {"state": {"$in": sorted(REPLAYED)}}
    (rows,) = [rows async for rows in _filters(db, Selection(host="h.test"), where)]
    ended = await db.jobs.find({**where, **rows}).explain()
    assert ended["executionStats"]["totalDocsExamined"] == 0
    for body in ({"activity": ONE}, {"object": "https://a.test/x"}, {"senders": "https://a.test/y"}):
        found = await db.bodies.find(body).explain()
        assert "COLLSCAN" not in str(found["queryPlanner"]["winningPlan"]), body
