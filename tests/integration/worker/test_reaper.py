# SPDX-License-Identifier: Apache-2.0
"""The reaper: holds off while nobody could have renewed, and no longer (SPEC section 2)."""

from datetime import UTC, datetime, timedelta

import pytest

from ojak.clock import ManualClock
from ojak.store.database import QueueDatabase
from ojak.worker.reaper import Reaper

HOLD_OFF_S = 45.0
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Primary:
    """What the primary says of itself: a clock that goes with ours, and its election."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.ahead_s = 0.0
        self.election = "first"
        self.answers_after_s = 0.0

    async def __call__(self) -> tuple[datetime, str]:
        moment = LONG_AGO + timedelta(seconds=self.clock.boot_s() + self.ahead_s)
        self.clock.turn(self.answers_after_s)
        return moment, self.election


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def primary(db: QueueDatabase, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Primary:
    primary = Primary(clock)
    monkeypatch.setattr(db, "primary", primary)
    return primary


@pytest.fixture
def reaper(db: QueueDatabase, clock: ManualClock) -> Reaper:
    # The pause between two looks is real, and short; the time that passes is the clock's.
    return Reaper(db=db, clock=clock, every_s=0.001, hold_off_s=HOLD_OFF_S, max_deaths=5)


async def expire(db: QueueDatabase) -> None:
    """Have one lease that has run out."""
    await db.jobs.delete_many({})
    row = {"_id": b"j" * 16, "kind": "delivery", "lane": "h.test", "priority": 1, "tries": 0, "deaths": 0, "leases": 1}
    lease = {"stamp": b"s" * 16, "by": b"o" * 16, "until": LONG_AGO}
    await db.jobs.insert_one({**row, "state": "leased", "run_at": LONG_AGO, "lease": lease})


async def reaped(db: QueueDatabase, reaper: Reaper) -> bool:
    await reaper.step()
    row = await db.jobs.find_one({})
    assert row is not None
    return (row["state"], row["deaths"]) == ("queued", 1)


async def test_what_has_run_out_is_returned(db: QueueDatabase, reaper: Reaper, primary: Primary):
    await expire(db)
    assert await reaped(db, reaper)


@pytest.mark.parametrize("what", ["election", "forward", "back", "outage", "slow"])
async def test_it_holds_off_45_s_and_then_reaps(
    db: QueueDatabase, reaper: Reaper, primary: Primary, clock: ManualClock, what: str
):
    await expire(db)
    assert await reaped(db, reaper)
    await expire(db)
    match what:
        case "election":
            primary.election = "second"
        case "forward":
            # Every lease seems to have run out at once.
            primary.ahead_s = 300
        case "back":
            primary.ahead_s = -300
        case "outage":
            # The steps in between failed: the loop tries again, and none of them came to here.
            clock.turn(60)
        case "slow":
            primary.answers_after_s = 11
    assert not await reaped(db, reaper)
    primary.answers_after_s = 0
    clock.turn(9)
    assert not await reaped(db, reaper)
    for _ in range(5):
        clock.turn(7)
        assert not await reaped(db, reaper)
    clock.turn(2)
    assert await reaped(db, reaper)


async def test_a_clock_that_drifts_is_believed(db: QueueDatabase, reaper: Reaper, primary: Primary, clock: ManualClock):
    await expire(db)
    assert await reaped(db, reaper)
    for _ in range(10):
        clock.turn(5)
        primary.ahead_s += 4
        await expire(db)
        assert await reaped(db, reaper)
