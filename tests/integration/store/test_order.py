# SPDX-License-Identifier: Apache-2.0
"""Rule A: deliveries of one order go one after another, whatever comes in between."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from pymongo.errors import AutoReconnect

from ojak.model.job import Priority
from ojak.model.outcome import FailureReason, SentState, SettledOutcome
from ojak.store import enqueue as enqueue_module
from ojak.store import order as order_module
from ojak.store import settle as settle_module
from ojak.store.database import QueueDatabase
from ojak.store.order import mend_order, orders_in_use, promote
from ojak.store.reap import reap_expired

from .claiming import Hand

POST = "https://a.test/post"
INBOX = "https://h.test/in"


@pytest.fixture
def hand(db: QueueDatabase) -> Hand:
    return Hand(db)


@pytest.fixture
def about(put):
    """Queue an activity about one post: `about("u1")` an Update, `about("c", "Create")` another type."""

    async def about(name: str, kind: str = "Update", inboxes: tuple[str, ...] = (INBOX,), **options):
        return await put(inboxes, activity_id=f"https://a.test/{name}", kind=kind, about=POST, **options)

    return about


def names(jobs) -> list[str]:
    return sorted(job.activity_id.rpartition("/")[2] for job in jobs)


async def test_one_after_another_in_the_order_they_were_queued(db, hand, about):
    for n in range(4):
        await about(f"u{n}")
    assert sorted((await hand.states()).values()) == ["blocked", "blocked", "blocked", "queued"]
    for n in range(4):
        jobs = await hand.claim()
        assert names(jobs) == [f"u{n}"]
        assert await hand.claim() == []
        await hand.end(*jobs)
    assert set((await hand.states()).values()) == {"delivered"}


async def test_a_retry_keeps_the_others_waiting_and_a_failure_lets_them_go(db, hand, about):
    await about("u0")
    await about("u1")
    (first,) = await hand.claim()
    await hand.retry(first, delay_s=3600)
    assert await promote(db, [first.order]) == 0
    assert await hand.claim() == []
    await db.jobs.update_one({"_id": first.id}, {"$set": {"run_at": datetime.now(UTC) - timedelta(seconds=1)}})
    await db.hosts.update_many({}, [{"$set": {"due.1": "$$NOW", "ready.1": "$$NOW"}}])
    (first,) = await hand.claim()
    assert (names([first]), first.tries) == (["u0"], 1)
    await hand.end(first, outcome=FailureReason.OUT_OF_RETRIES)
    assert names(await hand.claim()) == ["u1"]


async def test_other_inboxes_and_other_posts_do_not_wait(db, hand, about, put):
    await about("u0", inboxes=(INBOX, "https://h.test/other"))
    await about("u1", inboxes=(INBOX,))
    await put([INBOX], activity_id="https://a.test/x", kind="Update", about="https://a.test/other-post")
    await put([INBOX], activity_id="https://a.test/like", kind="Like", about=POST)
    await put([INBOX], activity_id="https://a.test/no-object", kind="Update")
    assert [name for name, state in (await hand.states()).items() if state == "blocked"] == ["u1 in"]


async def test_a_key_of_the_applications_orders_what_has_nothing_else_in_common(db, hand, put):
    for n in range(3):
        await put([INBOX], activity_id=f"https://a.test/l{n}", order_key="feed 7")
    await put([INBOX], activity_id="https://a.test/free", order_key="feed 8")
    order = []
    while jobs := await hand.claim():
        order.append(names(jobs))
        await hand.end(*jobs)
    assert order == [["free", "l0"], ["l1"], ["l2"]]


async def test_a_row_without_an_order_costs_no_look(db, put, hand, monkeypatch):
    async def looked(*_):
        raise AssertionError("nothing to look for")

    monkeypatch.setattr(order_module, "_firsts", looked)
    await put([INBOX], activity_id="https://a.test/no-object", kind="Update")
    await put([INBOX], activity_id="https://a.test/first-of-its-kind", kind="Create", about=POST)
    jobs = await hand.claim()
    await hand.end(*[job for job in jobs if job.order is None])


@pytest.mark.parametrize("priorities", [(Priority.FANOUT, Priority.SMALL), (Priority.SMALL, Priority.FANOUT)])
async def test_a_small_send_does_not_overtake_a_fan_out_about_the_same(db, hand, about, priorities):
    first, second = priorities
    await about("u0", priority=first)
    await about("u1", priority=second)
    assert await hand.claim(second) == []
    await hand.end(*await hand.claim(first))
    assert names(await hand.claim(second)) == ["u1"]


async def test_two_sends_at_once_that_both_find_nothing_leave_one_blocked_until_the_other_ends(
    db, hand, about, monkeypatch
):
    """Both look before either inserts: the index decides, and the loser's turn comes with the winner's end."""
    await about("c", "Create")
    await hand.end(*await hand.claim())
    both_looked = asyncio.Barrier(2)

    async def looked(*args):
        found = await orders_in_use(*args)
        await both_looked.wait()
        return found

    monkeypatch.setattr(enqueue_module, "orders_in_use", looked)
    await asyncio.gather(about("u0"), about("u1"))
    states = await hand.states()
    assert sorted(states.values()) == ["blocked", "delivered", "queued"]
    for _ in range(2):
        (job,) = await hand.claim()
        await hand.end(job)
    assert set((await hand.states()).values()) == {"delivered"}


async def test_an_end_between_the_insert_and_the_look_of_a_blocked_row_leaves_it_not_behind(
    db, hand, about, monkeypatch
):
    """Whoever ends reads before the row is there; its sender looks after the end."""
    await about("u0")
    (first,) = await hand.claim()

    async def ends_first(*args):
        monkeypatch.setattr(enqueue_module, "promote", promote)
        assert (await hand.states())["u1 in"] == "blocked"
        with monkeypatch.context() as patch:
            patch.setattr(settle_module, "promote", nothing)
            await hand.end(first)
        return await promote(*args)

    async def nothing(*_):
        return 0

    monkeypatch.setattr(enqueue_module, "promote", ends_first)
    await about("u1")
    assert names(await hand.claim()) == ["u1"]


async def test_the_sender_dies_between_insert_and_look_and_the_end_promotes(db, hand, about, monkeypatch):
    await about("u0")
    (first,) = await hand.claim()
    await dies_before_looking(about("u1"), monkeypatch)
    await hand.end(first)
    assert names(await hand.claim()) == ["u1"]


async def dies_before_looking(send, monkeypatch) -> None:
    async def died(*_):
        raise AutoReconnect("killed")

    with monkeypatch.context() as patch:
        patch.setattr(enqueue_module, "promote", died)
        with pytest.raises(AutoReconnect):
            await send


async def dies_before_promoting(end, monkeypatch) -> None:
    async def died(*_):
        raise AutoReconnect("killed")

    with monkeypatch.context() as patch:
        patch.setattr(settle_module, "promote", died)
        with pytest.raises(AutoReconnect):
            await end


async def test_a_duplicate_that_is_blocked_looks_again(db, hand, about, monkeypatch):
    """Its first sender died before he looked, and what it waited for ended before it was there."""
    await about("u0")
    await about("u1")
    await dies_before_promoting(hand.end(*await hand.claim()), monkeypatch)
    assert (await hand.states())["u1 in"] == "blocked"
    (answer,) = await about("u1")
    assert answer.state is SentState.DUPLICATE
    assert names(await hand.claim()) == ["u1"]


async def test_a_worker_that_dies_between_end_and_promotion_is_mended_by_the_next_claim(db, hand, about, monkeypatch):
    await about("u0")
    await about("u1")
    await dies_before_promoting(hand.end(*await hand.claim()), monkeypatch)
    await db.hosts.update_many({}, [{"$set": {"due.1": "$$NOW", "ready.1": "$$NOW"}}])
    assert await hand.claim() == [], "it finds nothing to lease, and promotes"
    assert names(await hand.claim()) == ["u1"]


async def test_the_sweep_finds_what_nobody_else_does(db, hand, about, monkeypatch):
    await about("u0")
    await about("u1")
    await about("u2")
    assert await mend_order(db) == 0
    await dies_before_promoting(hand.end(*await hand.claim()), monkeypatch)
    assert await mend_order(db) == 1
    assert names(await hand.claim()) == ["u1"]


async def test_a_parked_row_lets_the_next_go(db, hand, about):
    await about("u0")
    await about("u1")
    await db.jobs.update_one({"activity": "https://a.test/u0"}, {"$set": {"tries": "many"}})
    assert await hand.claim() == []
    assert (await hand.states())["u0 in"] == "parked"
    assert names(await hand.claim()) == ["u1"]


async def test_a_row_parked_by_the_reaper_lets_the_next_go(db, hand, about):
    await about("u0")
    await about("u1")
    await hand.claim()
    await db.jobs.update_many(
        {"state": "leased"}, [{"$set": {"lease.until": {"$subtract": ["$$NOW", 1]}, "deaths": 4}}]
    )
    await reap_expired(db, max_deaths=5)
    assert (await hand.states())["u0 in"] == "parked"
    assert names(await hand.claim()) == ["u1"]


async def test_a_row_that_ended_and_was_queued_again_stands_at_the_end(db, hand, about):
    await about("u0")
    await about("u1")
    await about("u2")
    await hand.end(*await hand.claim(), outcome=FailureReason.OUT_OF_RETRIES)
    await about("u0")
    order = []
    while jobs := await hand.claim():
        order += names(jobs)
        await hand.end(*jobs)
    assert order == ["u1", "u2", "u0"]


async def test_a_promoter_with_an_old_look_does_not_let_a_row_go_that_was_queued_anew(db, hand, about, monkeypatch):
    """He read u1 as the first; meanwhile u1 ended and was queued again, behind u2."""
    await about("u0")
    await about("u1")
    await about("u2")
    (first,) = await hand.claim()
    original = order_module._make_queued

    async def held_up(db, rows):
        monkeypatch.setattr(order_module, "_make_queued", original)
        (again,) = await hand_over_u1()
        assert again.state is SentState.NEW
        return await original(db, rows)

    async def hand_over_u1():
        await promote(db, [first.order])
        jobs = await hand.claim()
        assert names(jobs) == ["u1"]
        await hand.retry(*jobs)
        await db.jobs.update_one({"_id": jobs[0].id}, {"$set": {"state": "recipient-gone", "told": True}})
        await promote(db, [first.order])
        return await about("u1")

    monkeypatch.setattr(order_module, "_make_queued", held_up)
    await hand.end(first)
    assert await hand.states() == {"u0 in": "delivered", "u1 in": "blocked", "u2 in": "queued"}


async def test_a_post_published_again_does_not_overtake_what_still_waits(db, hand, about, monkeypatch):
    """In the moment between an end and the promotion nothing of the order is queued or leased."""
    await about("u0")
    await about("u1")
    await dies_before_promoting(hand.end(*await hand.claim()), monkeypatch)
    await about("c2", "Create")
    order = []
    await promote(db, [job["order"] async for job in db.jobs.find({"state": "blocked"})])
    while jobs := await hand.claim():
        order += names(jobs)
        await hand.end(*jobs)
    assert order == ["u1", "c2"]


async def test_promotion_lowers_the_due_of_its_own_line_and_changes_nothing_twice(db, hand, about):
    await about("u0")
    await about("u1")
    (first,) = await hand.claim()
    await hand.end(first)
    asks = [row["asks"] async for row in db.hosts.find()]
    assert await promote(db, [first.order, first.order]) == 0
    assert [row["asks"] async for row in db.hosts.find()] == asks
    assert await promote(db, []) == 0


async def test_a_revived_row_waits_behind_what_is_live(db, hand, about):
    await about("u0")
    await hand.end(*await hand.claim(), outcome=SettledOutcome.RECIPIENT_GONE)
    await about("u1")
    (answer,) = await about("u0")
    assert answer.state is SentState.NEW
    assert await hand.states() == {"u0 in": "blocked", "u1 in": "queued"}


async def test_looking_for_what_is_first_reads_the_index_alone(db, about):
    for n in range(5):
        await about(f"u{n}")
    order = (await db.jobs.find_one())["order"]
    plan = await db.client[db.name].command(
        "explain",
        {
            "aggregate": db.jobs.name,
            "pipeline": [
                {"$match": {"state": "blocked", "order": {"$in": [order]}}},
                {"$group": {"_id": "$order", "seq": {"$min": "$seq"}}},
            ],
            "cursor": {},
            "hint": order_module.BLOCKED_INDEX,
        },
        verbosity="executionStats",
    )
    assert "'totalDocsExamined': 0" in str(plan)
