# SPDX-License-Identifier: Apache-2.0
"""What is set aside keeps its place, can be ended like anything that waits, and is let go whoever dies in between."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ojak.model.hold import Hold, HoldKind
from ojak.model.job import Job, Priority
from ojak.model.outcome import SettledOutcome
from ojak.model.selection import Selection
from ojak.store import aside as aside_module
from ojak.store.age import end_too_old
from ojak.store.aside import (
    SetAside,
    end_behind,
    let_go,
    let_go_all,
    set_aside_queued,
    stray_holds,
    write_asides,
)
from ojak.store.cancel import cancel, cancel_selected
from ojak.store.database import QueueDatabase
from ojak.store.holds import (
    end_hold,
    forget_hold,
    holds_of,
    holds_to_look_at,
    note_gone,
    put_holds,
    sender_pauses,
    take_turn,
)
from ojak.store.order import mend_order, promote

from .claiming import Hand
from .conftest import Put

SENDER = "https://a.test/u"
INBOX = "https://h.test/in"
PAUSED = Hold(kind=HoldKind.PAUSE, of=SENDER, reason="paused", for_s=None, by="ops")
KEYLESS = Hold(kind=HoldKind.KEY, of=SENDER, reason="key-missing", for_s=300)
GONE = Hold(kind=HoldKind.GONE, of=INBOX, reason="status-410", for_s=3600)


@pytest.fixture
def hand(db: QueueDatabase) -> Hand:
    return Hand(db)


async def put_aside(db: QueueDatabase, jobs: list[Job], hold: Hold = KEYLESS) -> set[bytes]:
    return await write_asides(db, [SetAside(job=job, hold=hold, stands=False, reason=hold.reason) for job in jobs])


async def updates(put: Put, count: int) -> None:
    for n in range(count):
        await put([INBOX], activity_id=f"https://a.test/u{n}", kind="Update", about="https://a.test/p")


async def test_what_is_set_aside_keeps_its_place_in_its_order(db, put, hand):
    await updates(put, 3)
    await put_aside(db, await hand.claim())
    assert await hand.states() == {"u0 in": "aside", "u1 in": "blocked", "u2 in": "blocked"}
    order = (await db.jobs.find_one())["order"]
    await promote(db, [order])
    assert await mend_order(db) == 0
    await put([INBOX], activity_id="https://a.test/u3", kind="Update", about="https://a.test/p")
    assert await hand.claim() == [], "nothing of its order gets past it"
    await let_go_all(db, KEYLESS.id)
    went = []
    while jobs := await hand.claim():
        went += [job.activity_id[-1] for job in jobs]
        await hand.end(*jobs)
    assert went == ["0", "1", "2", "3"]


async def test_setting_aside_matches_the_lease(db, put, hand):
    await put([INBOX])
    (job,) = await hand.claim()
    await db.jobs.update_one({}, {"$set": {"lease.stamp": b"another"}})
    assert await put_aside(db, [job]) == set()
    assert (await db.jobs.find_one())["state"] == "leased"


async def test_setting_aside_can_be_repeated_after_an_error(db: QueueDatabase, put: Put, hand: Hand):
    await put([INBOX, "https://g.test/in"])
    jobs = await hand.claim()
    assert await put_aside(db, jobs) == await put_aside(db, jobs) == {job.id for job in jobs}
    assert await db.jobs.count_documents({"state": "aside", "behind": KEYLESS.id, "lease": {"$exists": False}}) == 2


async def test_what_was_cancelled_while_it_was_leased_ends_and_what_it_held_up_goes(db, put, hand):
    await updates(put, 2)
    jobs = await hand.claim()
    await cancel_selected(db, Selection(activity="https://a.test/u0"))
    assert len(await put_aside(db, jobs)) == 1
    assert await hand.states() == {"u0 in": "cancelled", "u1 in": "queued"}


async def test_what_is_set_aside_is_cancelled_too_old_and_past_its_deadline_like_anything_that_waits(db, put, hand):
    await put([INBOX, "https://g.test/in"])
    await put_aside(db, await hand.claim())
    assert (await cancel(db, Selection(host="g.test"))).count == 1
    db.now.turn(datetime.now(UTC) + timedelta(days=8))
    assert await end_too_old(db, max_age_s=7 * 86_400) == 1
    assert {row["state"] async for row in db.jobs.find()} == {"cancelled", "too-old"}
    assert await stray_holds(db) == []


async def test_a_hold_that_ended_while_a_row_was_being_set_aside_lets_it_go(db, put, hand, monkeypatch):
    """The releaser comes between the hold and the row: it finds nothing behind it, and deletes it."""
    await put([INBOX])
    jobs = await hand.claim()
    write = aside_module._write_alike

    async def after_the_release(*args: Any) -> set[bytes]:
        await end_hold(db, KEYLESS.id)
        assert await let_go_all(db, KEYLESS.id) == 0
        (hold,) = await holds_to_look_at(db, limit=9)
        await forget_hold(db, hold)
        return await write(*args)

    monkeypatch.setattr(aside_module, "_write_alike", after_the_release)
    await put_aside(db, jobs)
    assert await hand.states() == {"1 in": "queued"}
    assert len(await hand.claim()) == 1, "its host is due"


async def test_whoever_dies_before_he_has_looked_again_leaves_it_to_the_sweep(db, put, hand, monkeypatch):
    await put([INBOX])
    jobs = await hand.claim()

    async def dies(*_: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(aside_module, "check_holds", dies)
    with pytest.raises(RuntimeError):
        await put_aside(db, jobs)
    assert await stray_holds(db) == []
    await end_hold(db, KEYLESS.id)
    assert await stray_holds(db) == [KEYLESS.id]
    await db.holds.delete_many({})
    assert await stray_holds(db) == [KEYLESS.id]
    await let_go_all(db, KEYLESS.id)
    assert len(await hand.claim()) == 1
    assert await stray_holds(db) == []


async def test_rows_are_let_go_in_steps_the_oldest_first(db, put, hand):
    for n in range(5):
        await put([INBOX], activity_id=f"https://a.test/{n}")
    await put_aside(db, await hand.claim())
    assert await let_go(db, KEYLESS.id, limit=2) == 2
    assert [job.activity_id[-1] for job in await hand.claim()] == ["0", "1"]
    assert await let_go(db, KEYLESS.id, limit=1, scout=b"mark") == 1
    (scout,) = await hand.claim()
    assert (scout.activity_id[-1], scout.scout) == ("2", b"mark")
    assert await let_go_all(db, KEYLESS.id) == 2


async def test_a_claim_sets_aside_what_it_meets_and_the_rest_of_it_in_the_lane(db, put, hand):
    """A backlog of a paused sender does not stand before another's: it is met once, by one write each."""
    for n in range(300):
        await put([INBOX], activity_id=f"https://a.test/{n}")
    await put([INBOX], activity_id="https://b.test/1", sender="https://b.test/u")
    await put_holds(db, [PAUSED])

    def behind(sender: str, inbox: str, scout: bytes | None) -> bytes | None:
        return PAUSED.id if sender == SENDER else None

    (job,) = await hand.claim(behind=behind, share=4) or await hand.claim(behind=behind, share=4)
    assert job.activity_id == "https://b.test/1"
    assert await db.jobs.count_documents({"state": "aside", "leases": 0}) == 300
    assert await hand.claim() == []
    await let_go_all(db, PAUSED.id)
    assert len(await hand.claim()) == 100


async def test_a_row_that_was_met_after_its_hold_had_ended_stays_queued(db, put, hand):
    await put([INBOX])
    (row,) = await db.jobs.find().to_list()
    assert await set_aside_queued(db, {PAUSED.id: [row["_id"]]}) == 1
    assert (await db.jobs.find_one())["state"] == "queued"


async def test_a_hold_that_stands_is_not_begun_anew_but_a_pause_is_as_long_as_is_said(db):
    await put_holds(db, [PAUSED, KEYLESS])
    first = await holds_of(db, [PAUSED.id, KEYLESS.id])
    long = Hold(kind=HoldKind.KEY, of=SENDER, reason="key-broken", for_s=9000)
    short = Hold(kind=HoldKind.PAUSE, of=SENDER, reason="paused", for_s=60)
    await put_holds(db, [short, long])
    second = await holds_of(db, [PAUSED.id, KEYLESS.id])
    assert first[PAUSED.id].mark == second[PAUSED.id].mark
    assert 50 < second[PAUSED.id].left_s <= 60
    assert second[KEYLESS.id].left_s <= 300
    (pause, key) = await sender_pauses(db, limit=9)
    assert (pause.reason, pause.by, key.reason, key.by) == ("paused", "ops", "key-broken", None)
    assert await sender_pauses(db, limit=1) == [pause]
    assert await end_hold(db, PAUSED.id)
    assert not await end_hold(db, PAUSED.id)
    await put_holds(db, [PAUSED])
    third = await holds_of(db, [PAUSED.id])
    assert (third[PAUSED.id].over, third[PAUSED.id].mark == first[PAUSED.id].mark) == (False, False)


async def test_one_delivery_has_the_turn_to_try_an_inbox(db):
    await put_holds(db, [GONE])
    (hold,) = (await holds_of(db, [GONE.id])).values()
    assert not await take_turn(db, hold, for_s=3600), "its hour is not over"
    db.now.turn(datetime.now(UTC) + timedelta(hours=1, seconds=1))
    (found,) = await holds_to_look_at(db, limit=9)
    assert found.id == GONE.id
    assert await take_turn(db, hold, for_s=3600)
    assert not await take_turn(db, hold, for_s=3600)
    await note_gone(db, hold.id, b"of an earlier time")
    assert not (await holds_of(db, [GONE.id]))[GONE.id].gone
    await note_gone(db, hold.id, hold.mark)
    assert (await holds_of(db, [GONE.id]))[GONE.id].gone


async def test_what_waits_for_an_inbox_that_is_gone_ends_in_steps_and_frees_what_is_behind_it(
    db, put, hand, monkeypatch
):
    monkeypatch.setattr(aside_module, "PAGE", 2)
    await updates(put, 2)
    for n in range(4):
        await put([INBOX], activity_id=f"https://a.test/{n}")
    await put_aside(db, await hand.claim(), GONE)
    assert await end_behind(db, GONE.id, SettledOutcome.HOST_GONE) == 5
    assert await db.jobs.count_documents({"state": "host-gone", "told": False, "end": 1}) == 5
    assert (await hand.states())["u1 in"] == "queued"
    (left,) = await hand.claim()
    (hold,) = (await holds_of(db, [GONE.id])).values()
    await note_gone(db, hold.id, hold.mark)
    await db.holds.update_one({}, {"$set": {"look_at": datetime(9999, 1, 1, tzinfo=UTC)}})
    await put_aside(db, [left], GONE)
    assert [row.id for row in await holds_to_look_at(db, limit=9)] == [GONE.id], "whoever sets more aside says so"


async def test_a_probe_is_not_made_with_what_is_held(db, put, hand):
    await put([INBOX], activity_id="https://a.test/held", priority=Priority.SMALL)
    await put([INBOX], activity_id="https://b.test/1", sender="https://b.test/u")
    await put_holds(db, [PAUSED])
    jobs = await hand.claim(behind=lambda sender, *_: PAUSED.id if sender == SENDER else None, probed=["h.test"])
    assert [job.activity_id for job in jobs] == ["https://b.test/1"]
    assert (await hand.states())["held in"] == "aside"
