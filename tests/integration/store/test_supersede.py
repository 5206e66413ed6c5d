# SPDX-License-Identifier: Apache-2.0
"""Rule G: what was not begun is dropped by what takes it back, and only that."""

import asyncio

import pytest

from ojak.model.outcome import SentState
from ojak.store import enqueue as enqueue_module
from ojak.store.database import QueueDatabase
from ojak.store.hand_back import hand_back
from ojak.store.supersede import drop_taken_back, superseded

from .claiming import Hand

POST = "https://a.test/post"
INBOX = "https://h.test/in"


@pytest.fixture
def hand(db: QueueDatabase) -> Hand:
    return Hand(db)


@pytest.fixture
def create(put):
    async def create(name: str = "c", inboxes=(INBOX,), **options):
        return await put(inboxes, activity_id=f"https://a.test/{name}", kind="Create", about={"id": POST}, **options)

    return create


@pytest.fixture
def delete(put):
    async def delete(name: str = "d", inboxes=(INBOX,), **options):
        return await put(inboxes, activity_id=f"https://a.test/{name}", kind="Delete", about=POST, **options)

    return delete


async def test_a_create_that_was_not_begun_is_dropped_and_its_delete_goes(db, hand, create, delete):
    await create(inboxes=(INBOX, "https://g.test/in"))
    await delete()
    row = await db.jobs.find_one({"state": "superseded"})
    assert row is not None
    assert (row["end"], row["told"], row["last"]["reason"], row["inbox"]) == (1, False, "taken-back", INBOX)
    jobs = await hand.claim()
    assert sorted((job.activity_id[-1], job.lane) for job in jobs) == [("c", "g.test"), ("d", "h.test")]
    assert await superseded(db, jobs) == set()


@pytest.mark.parametrize("kind", ["Follow", "Like", "Announce"])
@pytest.mark.parametrize("embedded", [True, False])
async def test_an_undo_drops_what_it_undoes(put, hand, kind, embedded):
    await put([INBOX], activity_id="https://a.test/f", kind=kind, about="https://h.test/thing")
    undone = {"id": "https://a.test/f", "type": kind} if embedded else "https://a.test/f"
    await put([INBOX], activity_id="https://a.test/u", kind="Undo", about=undone)
    assert await hand.states() == {"f in": "superseded", "u in": "queued"}


async def test_what_was_leased_once_is_not_dropped_and_goes_first(hand, create, delete):
    await create()
    (job,) = await hand.claim()
    await delete()
    assert await hand.states() == {"c in": "leased", "d in": "blocked"}
    await hand_back(hand.db, {job.stamp: [job.id]})
    await delete("d2")
    assert await hand.states() == {"c in": "queued", "d in": "blocked", "d2 in": "blocked"}


async def test_a_create_that_was_tried_is_not_dropped_by_the_worker_either(db, hand, create, delete):
    await create()
    (job,) = await hand.claim()
    await hand.retry(job, delay_s=0)
    await delete()
    (job,) = await hand.claim()
    assert job.tries == 1
    assert await superseded(db, [job]) == set()


async def test_other_senders_and_updates_take_nothing_back(put, db, hand, create):
    await create()
    await put([INBOX], activity_id="https://a.test/d", kind="Delete", about=POST, sender="https://a.test/other")
    await put([INBOX], activity_id="https://a.test/u", kind="Update", about=POST)
    await put([INBOX], activity_id="https://a.test/undo", kind="Undo", about={"type": "Create", "object": POST})
    assert (await hand.states())["c in"] == "queued"
    assert await superseded(db, await hand.claim()) == set()


async def test_an_update_in_between_still_goes(put, hand, create, delete):
    await create()
    await put([INBOX], activity_id="https://a.test/u", kind="Update", about=POST)
    await delete()
    order = []
    while jobs := await hand.claim():
        order += [job.activity_id[-1] for job in jobs]
        await hand.end(*jobs)
    assert order == ["u", "d"]


async def test_a_post_taken_back_and_published_again_goes_out(db, hand, create, delete):
    await create()
    await delete()
    (answer,) = await create("c")
    assert answer.state is SentState.NEW, "what was superseded is queued again by a new send"
    await create("c2")
    order = []
    while jobs := await hand.claim():
        assert await superseded(db, jobs) == set()
        order += [job.activity_id.rpartition("/")[2] for job in jobs]
        await hand.end(*jobs)
    assert order == ["d", "c", "c2"]


async def test_the_same_delete_again_drops_nothing_that_was_published_since(hand, create, delete):
    await delete()
    await create()
    (answer,) = await delete()
    assert answer.state is SentState.DUPLICATE
    assert await hand.states() == {"d in": "queued", "c in": "blocked"}


async def test_chunks_of_a_fan_out_that_come_after_the_delete_are_superseded_by_the_worker(
    db, hand, create, delete, monkeypatch
):
    """The Create's fan-out pauses between two chunks; the Delete goes to all inboxes meanwhile, and is delivered."""
    monkeypatch.setattr(enqueue_module, "FIRST_CHUNK", 1)
    inboxes = (INBOX, "https://g.test/in")
    in_between, go_on = asyncio.Event(), asyncio.Event()
    original = enqueue_module._rows

    async def held_up(db, chunk, handover):
        if chunk[0].authority == "g.test" and handover.activity_identity.endswith("/c"):
            in_between.set()
            await go_on.wait()
        return await original(db, chunk, handover)

    monkeypatch.setattr(enqueue_module, "_rows", held_up)
    fan_out = asyncio.create_task(create(inboxes=inboxes))
    await asyncio.wait_for(in_between.wait(), 20)
    await delete(inboxes=inboxes)
    await hand.end(*await hand.claim())
    go_on.set()
    await fan_out
    assert (await hand.states())["c in"] in {"queued", "superseded"}
    (late,) = await hand.claim()
    assert (late.activity_id[-1], late.lane) == ("c", "g.test")
    assert await superseded(db, [late]) == {late.id}


async def test_a_create_with_a_key_of_the_applications_is_dropped_and_its_key_goes_on(put, hand, create, delete):
    await create(order_key="feed")
    await put([INBOX], activity_id="https://a.test/next", order_key="feed")
    assert (await hand.states())["next in"] == "blocked"
    await delete()
    assert await hand.states() == {"c in": "superseded", "next in": "queued", "d in": "queued"}


async def test_a_create_queued_while_its_delete_is_dropping_is_found_by_the_worker(
    db, hand, create, delete, monkeypatch
):
    original = drop_taken_back

    async def too_early(*args, **options):
        freed = await original(*args, **options)
        await create("c2")
        return freed

    await create()
    monkeypatch.setattr(enqueue_module, "drop_taken_back", too_early)
    await delete()
    # Handed over after the Delete's row stood: it is a post published again.
    assert await hand.states() == {"c in": "superseded", "d in": "queued", "c2 in": "blocked"}


async def test_a_sender_that_dies_before_it_drops_leaves_it_to_the_worker(db, hand, create, delete, monkeypatch):
    async def died(*_args, **_options):
        raise TimeoutError

    await create()
    with monkeypatch.context() as patch:
        patch.setattr(enqueue_module, "drop_taken_back", died)
        with pytest.raises(TimeoutError):
            await delete()
    jobs = await hand.claim()
    assert [job.activity_id[-1] for job in jobs] == ["c"]
    assert await superseded(db, jobs) == {jobs[0].id}
