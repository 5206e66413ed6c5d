# SPDX-License-Identifier: Apache-2.0
"""Who is told of what: nothing expires that is owed, nothing is lost while telling is being turned on, one sweeps."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.waiting import until

from ojak import Deliverer, DelivererConfig, DeliveryFailure, FolderSenderKeys, Settled
from ojak.clock import ManualClock
from ojak.store.database import QueueDatabase
from ojak.store.ends import mark_rows_told, mark_told, untold
from ojak.store.telling import catch_up, set_telling, tell_nobody, telling_state
from ojak.store.turns import leave_turn, take_turn
from ojak.worker import teller as teller_module
from ojak.worker.teller import SWEEPER, Teller

INBOXES = [f"http://127.0.0.1:9/inbox/{n}" for n in range(5)]
"""The guard refuses these: deliveries end at once, and nothing is sent anywhere."""
SENDER = "https://a.test/u"
KEPT_S = 600.0


def ended_row(name: str, **fields: Any) -> dict[str, Any]:
    ended = {"state": "recipient-gone", "end": 2, "told": False, "finished_at": datetime.now(UTC), "tries": 1}
    return {
        "_id": name.encode(),
        "inbox": f"https://b.test/{name}",
        "activity": "https://a.test/1",
        "sender": SENDER,
        **ended,
        **fields,
    }


def owed(number: int) -> dict[str, Any]:
    return {"end": number, "state": "out-of-retries", "finished_at": datetime.now(UTC), "tries": 16, "last": None}


async def row_of(db: QueueDatabase, name: str = "r") -> dict[str, Any]:
    row = await db.jobs.find_one({"_id": name.encode()})
    assert row is not None
    return row


# A row that owes an earlier end.


async def test_a_row_that_owes_an_end_does_not_expire_when_its_later_one_is_told(db):
    await db.jobs.insert_one(ended_row("r", owed=[owed(1)]))
    await mark_rows_told(db, {2: [b"r"]}, kept_s=KEPT_S)
    row = await row_of(db)
    assert (row["told"], "expire_at" in row, len(row["owed"])) == (True, False, 1)
    (item,) = await untold(db, older_s=0)
    await mark_told(db, [item], kept_s=KEPT_S)
    row = await row_of(db)
    assert "owed" not in row
    assert row["expire_at"] - row["told_at"] >= timedelta(seconds=KEPT_S)


async def test_it_expires_when_the_last_of_both_is_told_whichever_that_is(db):
    await db.jobs.insert_one(ended_row("r", end=3, owed=[owed(1), owed(2)]))
    own, first, second = await untold(db, older_s=0)
    await mark_told(db, [first], kept_s=KEPT_S)
    await mark_told(db, [second], kept_s=KEPT_S)
    row = await row_of(db)
    assert ("owed" in row, "expire_at" in row, row["told"]) == (False, False, False)
    await mark_told(db, [own], kept_s=KEPT_S)
    assert "expire_at" in await row_of(db)


async def test_what_is_owed_by_a_row_that_waits_again_is_pulled_and_nothing_more(db):
    waiting = ended_row("r", state="queued", owed=[owed(1)])
    del waiting["told"], waiting["finished_at"]
    await db.jobs.insert_one(waiting)
    (item,) = await untold(db, older_s=0)
    await mark_told(db, [item], kept_s=KEPT_S)
    row = await row_of(db)
    assert ("owed" in row, "expire_at" in row, row["state"]) == (False, False, "queued")


async def test_where_nobody_is_told_nothing_stays_owed(db):
    waiting = ended_row("q", state="queued", owed=[owed(1)])
    del waiting["told"], waiting["finished_at"]
    await db.jobs.insert_many([ended_row("r", owed=[owed(1)]), ended_row("t", told=True, owed=[owed(1)]), waiting])
    await tell_nobody(db, kept_s=KEPT_S)
    assert await db.jobs.count_documents({"owed": {"$exists": True}}) == 0
    assert {row["_id"] async for row in db.jobs.find({"expire_at": {"$exists": True}})} == {b"r", b"t"}


# Turning it on.


async def test_it_is_known_since_when_and_turning_it_on_again_changes_nothing(db):
    assert not (await telling_state(db)).on
    assert await set_telling(db, on=True)
    since = (await telling_state(db)).since
    assert since is not None
    assert not await set_telling(db, on=True)
    assert (await telling_state(db)).since == since
    assert await set_telling(db, on=False)


async def test_ends_written_by_who_had_not_heard_yet_are_told_and_earlier_and_told_ones_are_not(db):
    await set_telling(db, on=True)
    since = (await telling_state(db)).since
    assert since is not None
    expires = since + timedelta(seconds=KEPT_S)
    nobody: dict[str, Any] = {"told": True, "finished_at": since, "expire_at": expires}
    early = {"finished_at": since - timedelta(seconds=1), "expire_at": expires - timedelta(seconds=1)}
    rows = [
        ended_row("late", **nobody),
        ended_row("early", **{**nobody, **early}),
        ended_row("told", **nobody, told_at=since),
        ended_row("waits"),
    ]
    await db.jobs.insert_many(rows)
    assert await catch_up(db, kept_s=KEPT_S) == 1
    row = await row_of(db, "late")
    assert (row["told"], "expire_at" in row) == (False, False)
    assert await catch_up(db, kept_s=KEPT_S) == 0
    await db.settings.update_one({}, {"$set": {"since": since - timedelta(seconds=601)}})
    await db.jobs.update_one({"_id": b"late"}, {"$set": nobody})
    assert await catch_up(db, kept_s=KEPT_S) == 0, "by then everybody has heard"


@pytest.fixture
def deliverer_with(mongod_url: str, db: QueueDatabase, tmp_path) -> Callable[..., Deliverer]:
    keys = FolderSenderKeys(tmp_path / "keys")
    keys.generate(SENDER)

    def make(**options: Any) -> Deliverer:
        return Deliverer(mongod_url, database=db.name, keys=keys, **options)

    return make


async def test_an_end_stored_by_another_process_as_soon_as_somebody_wants_to_be_told_is_told(
    db, deliverer_with, monkeypatch
):
    """The other process has not heard of it and takes every delivery: the first `run()` with callbacks owns nothing."""
    deaf = deliverer_with()
    told: asyncio.Queue[Settled] = asyncio.Queue()
    listening = deliverer_with(on_settled=told.put, config=DelivererConfig(sweep_every_s=0.2))
    runs = [asyncio.create_task(deaf.run())]
    await until(lambda: _all_owned(db))
    (engine,) = deaf._running
    monkeypatch.setattr(engine._telling, "look", lambda: None)
    runs.append(asyncio.create_task(listening.run()))
    await until(lambda: _on(db))
    await deaf.send({"id": "https://a.test/1", "type": "Like"}, SENDER, INBOXES)
    ends = [await asyncio.wait_for(told.get(), 20) for _ in INBOXES]
    await asyncio.gather(deaf.close(), listening.close())
    await asyncio.gather(*runs)
    assert sorted(end.inbox for end in ends) == INBOXES
    assert await db.jobs.count_documents({"told": True, "told_at": {"$exists": True}}) == len(INBOXES)


async def _all_owned(db: QueueDatabase) -> bool:
    return await db.shards.count_documents({"owner": {"$ne": None}}) == 256


async def _on(db: QueueDatabase) -> bool:
    return (await telling_state(db)).on


async def test_the_others_hear_of_it_at_once(db, deliverer_with):
    deaf = deliverer_with()
    run = asyncio.create_task(deaf.run())
    await until(lambda: _all_owned(db))
    (engine,) = deaf._running
    # The tail has to be open, or the hint is lost and the next look finds it.
    await until(lambda: _heard(db, engine))
    await deaf.close()
    await run


async def _heard(db: QueueDatabase, engine: Any) -> bool:
    from ojak.store.wakeups import wake_to_telling

    await set_telling(db, on=True)
    await wake_to_telling(db)
    heard: bool = engine._telling.on
    return heard


async def test_one_that_has_callbacks_turns_it_on_again_when_somebody_clears_it(db, deliverer_with):
    deliverer = deliverer_with(on_settled=print)
    run = asyncio.create_task(deliverer.run())
    await until(lambda: _on(db))
    (engine,) = deliverer._running
    await set_telling(db, on=False)
    engine._telling.look()
    await until(lambda: _on(db))
    await deliverer.close()
    await run


# Who sweeps.


async def test_a_turn_has_one_holder_until_it_ends(db):
    assert await take_turn(db, "t", holder=b"a", lease_s=60)
    assert await take_turn(db, "t", holder=b"a", lease_s=60)
    assert not await take_turn(db, "t", holder=b"b", lease_s=60)
    await leave_turn(db, "t", holder=b"b")
    assert not await take_turn(db, "t", holder=b"b", lease_s=60)
    await leave_turn(db, "t", holder=b"a")
    assert await take_turn(db, "t", holder=b"b", lease_s=-1)
    assert await take_turn(db, "t", holder=b"a", lease_s=60), "it ran out"


async def test_a_turn_that_many_reach_for_first_has_one_holder(db):
    took = await asyncio.gather(*(take_turn(db, "t", holder=bytes([n]), lease_s=60) for n in range(10)))
    assert sum(took) == 1


def teller_of(
    db: QueueDatabase, on_settled: Callable[[Settled], Awaitable[None] | None], *, holder: bytes, clock: ManualClock
) -> Teller:
    def fail(end: DeliveryFailure) -> None:
        raise AssertionError(end)

    return Teller(
        db=db,
        clock=clock,
        on_settled=on_settled,
        on_failure=fail,
        every_s=0.001,
        kept_s=KEPT_S,
        give_up_s=1e12,
        holder=holder,
    )


async def test_what_a_crash_left_untold_is_told_by_one_of_those_that_sweep(db):
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    await db.jobs.insert_many([ended_row(str(n), finished_at=long_ago) for n in range(300)])
    told: list[str] = []
    first_call, go_on = asyncio.Event(), asyncio.Event()

    async def slow(end: Settled) -> None:
        first_call.set()
        await go_on.wait()
        told.append(end.inbox)

    clock = ManualClock()
    first = teller_of(db, slow, holder=b"a", clock=clock)
    second = teller_of(db, lambda end: told.append(end.inbox), holder=b"b", clock=clock)
    sweeping = asyncio.create_task(first.sweep_step())
    await first_call.wait()
    await second.sweep_step()
    assert told == []
    go_on.set()
    await sweeping
    assert len(told) == len(set(told)) == 300
    await first.leave()
    await db.jobs.insert_one(ended_row("new", finished_at=long_ago))
    await second.sweep_step()
    assert told[300:] == ["https://b.test/new"]


async def test_a_sweep_whose_turn_was_taken_goes_no_further(db):
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    await db.jobs.insert_many([ended_row(str(n), finished_at=long_ago) for n in range(5)])
    told: list[str] = []
    clock = ManualClock()

    async def paused(end: Settled) -> None:
        told.append(end.inbox)
        if len(told) == 1:
            # The process stood still for a while, and another one took over.
            clock.turn(120)
            await leave_turn(db, SWEEPER, holder=b"a")
            assert await take_turn(db, SWEEPER, holder=b"b", lease_s=60)

    await teller_of(db, paused, holder=b"a", clock=clock).sweep_step()
    assert len(told) == 1
    assert await db.jobs.count_documents({"told": True}) == 1, "what it told is marked all the same"


async def test_an_application_that_is_down_is_not_called_for_every_end_and_what_is_kept_of_it_is_bounded(
    db, monkeypatch
):
    monkeypatch.setattr(teller_module, "FAILED_MAX", 60)
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    await db.jobs.insert_many([ended_row(f"{n:04}", finished_at=long_ago) for n in range(500)])
    calls: list[str] = []
    is_down = True

    def down(end: Settled) -> None:
        calls.append(end.inbox)
        if is_down:
            raise ConnectionError

    clock = ManualClock()
    teller = teller_of(db, down, holder=b"a", clock=clock)
    for sweeps in range(1, 4):
        await teller.sweep_step()
        assert len(calls) == 50 * sweeps
        assert len(teller._failed) <= 60
        assert len(set(calls[-50:])) == 50
    is_down = False
    clock.turn(100_000)
    await teller.sweep_step()
    assert await db.jobs.count_documents({"told": True}) == 500
    assert len(teller._failed) == 0
