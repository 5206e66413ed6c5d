# SPDX-License-Identifier: Apache-2.0
"""What a worker knows of holds, where the database and it know different things."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from tests.jobs import TEMPLATE

from ojak.clock import ManualClock
from ojak.model.hold import Hold, HoldKind
from ojak.model.job import Job
from ojak.model.outcome import SettledOutcome
from ojak.store.aside import SetAside
from ojak.store.database import QueueDatabase
from ojak.store.holds import end_hold, holds_of, note_gone, put_holds
from ojak.store.settle import Ended
from ojak.worker.holding import Holding

SENDER, INBOX = "https://a.test/u", "https://h.test/in"
JOB = dataclasses.replace(TEMPLATE, id=b"j" * 16, lane="h.test", inbox=INBOX, sender=SENDER, shared=True)
GONE = Hold(kind=HoldKind.GONE, of=INBOX, reason="status-410", for_s=3600)
KEYLESS = Hold(kind=HoldKind.KEY, of=SENDER, reason="key-missing", for_s=300)
PAUSED = Hold(kind=HoldKind.PAUSE, of=SENDER, reason="paused", for_s=60)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def holding(db: QueueDatabase, clock: ManualClock) -> Holding:
    return Holding(db=db, clock=clock)


async def mark_of(db: QueueDatabase, hold: Hold) -> bytes:
    return (await holds_of(db, [hold.id]))[hold.id].mark


async def test_a_scout_goes_where_the_hold_was_noted_here_and_never_read(db, holding):
    """Its worker wrote the hold with the deliveries that it set aside, and knows no mark."""
    holding.note(GONE)
    assert holding.behind(SENDER, INBOX, None) == GONE.id
    await put_holds(db, [GONE])
    scout = dataclasses.replace(JOB, scout=await mark_of(db, GONE))
    assert holding.behind(SENDER, INBOX, scout.scout) is None
    assert await holding.enter(scout) == scout
    assert holding.tries_gone(scout)


async def test_a_scout_of_an_earlier_hold_is_one_like_any_other(db, holding):
    await put_holds(db, [GONE])
    await holding.load()
    late = dataclasses.replace(JOB, scout=b"of before")
    assert holding.behind(SENDER, INBOX, late.scout) == GONE.id
    assert isinstance(await holding.enter(late), SetAside)
    assert not holding.tries_gone(late)


async def test_what_waits_for_a_sender_is_set_aside_until_its_time(db, clock, holding):
    holding.note(KEYLESS)
    aside = holding.set_aside(JOB)
    assert aside is not None
    assert (aside.hold.id, aside.stands, aside.reason) == (KEYLESS.id, False, "key-missing")
    clock.turn(200)
    aside = holding.set_aside(JOB)
    assert aside is not None
    assert aside.hold.for_s == 100, "it is not put off by each delivery that meets it"
    clock.turn(100)
    assert holding.set_aside(JOB) is None
    assert not holding.any


async def test_a_pause_goes_before_a_missing_key_and_is_over_when_it_was_ended(db, holding):
    await put_holds(db, [KEYLESS, PAUSED])
    await holding.load()
    assert holding.behind(SENDER, INBOX, None) == PAUSED.id
    await end_hold(db, PAUSED.id)
    await holding.load()
    assert holding.behind(SENDER, INBOX, None) == KEYLESS.id
    await end_hold(db, KEYLESS.id)
    await holding.load()
    assert not holding.any


async def test_holds_are_read_when_shards_come_and_not_when_they_go(db, holding):
    await holding.load_for({1: 1, 2: 1})
    await put_holds(db, [GONE])
    await holding.load_for({1: 1})
    assert not holding.any
    await holding.load_for({1: 1, 3: 1})
    assert holding.behind(SENDER, INBOX, None) == GONE.id


async def test_of_an_inbox_that_is_gone_one_a_week_is_tried_and_the_others_end(db, clock, holding):
    await put_holds(db, [GONE])
    await note_gone(db, GONE.id, await mark_of(db, GONE))
    await holding.load()
    assert holding.behind(SENDER, INBOX, None) is None, "nothing waits for it"
    ended = await holding.enter(JOB)
    assert isinstance(ended, Ended)
    assert (ended.outcome, ended.reason, ended.spent) == (SettledOutcome.HOST_GONE, "inbox-gone", False)
    clock.turn(7 * 86_400)
    db.now.turn(datetime.now(UTC) + timedelta(days=7, seconds=1))
    scout = await holding.enter(JOB)
    assert isinstance(scout, Job)
    assert holding.tries_gone(scout)
    assert isinstance(await holding.enter(JOB), Ended), "the week began anew"


async def test_of_two_workers_one_has_the_turn(db, clock, holding):
    await put_holds(db, [GONE])
    other = Holding(db=db, clock=clock)
    await holding.load()
    await other.load()
    clock.turn(3601)
    db.now.turn(datetime.now(UTC) + timedelta(seconds=3601))
    answers = [await holding.enter(JOB), await other.enter(JOB)]
    assert [type(answer) for answer in answers] == [Job, SetAside]
