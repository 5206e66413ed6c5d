# SPDX-License-Identifier: Apache-2.0
"""Callbacks: at least once for each end, whatever they do and whoever wrote the end (rule E)."""

import asyncio

import pytest
from tests.waiting import until

from ojak import Deliverer, DelivererConfig, FolderSenderKeys, Settled
from ojak.clock import ManualClock
from ojak.store.database import QueueDatabase
from ojak.store.now import EPOCH
from ojak.worker.teller import Teller

INBOXES = [f"http://127.0.0.1:9/inbox/{n}" for n in range(5)]
"""The guard refuses these: deliveries end at once, and nothing is sent anywhere."""
SENDER = "https://a.test/u"
SOON = DelivererConfig(sweep_every_s=0.2)


@pytest.fixture
def keys(tmp_path):
    folder = FolderSenderKeys(tmp_path / "keys")
    folder.generate(SENDER)
    return folder


@pytest.fixture
def deliverer_with(mongod_url: str, db: QueueDatabase, keys):
    def make(**options) -> Deliverer:
        return Deliverer(mongod_url, database=db.name, keys=keys, **options)

    return make


async def send(deliverer: Deliverer) -> None:
    await deliverer.send({"id": "https://a.test/1", "type": "Like"}, SENDER, INBOXES)


async def settle(deliverer: Deliverer, run: asyncio.Task[None]) -> None:
    await deliverer.close()
    await run


async def ended(deliverer: Deliverer, db: QueueDatabase) -> None:
    """Have the deliveries end, and no longer."""
    run = asyncio.create_task(deliverer.run())
    await send(deliverer)
    await until(lambda: counts(db, {"state": "refused-address"}))
    await settle(deliverer, run)


async def counts(db: QueueDatabase, rows: dict[str, object]) -> bool:
    return await db.jobs.count_documents(rows) == len(INBOXES)


@pytest.mark.parametrize("raised", [RuntimeError("not now"), SystemExit(3), KeyboardInterrupt()])
async def test_a_callback_that_raises_is_called_again_by_the_curve_and_the_others_are_not(deliverer_with, db, raised):
    await ended(deliverer_with(), db)
    await db.jobs.update_many({}, {"$set": {"told": False, "finished_at": EPOCH}, "$unset": {"expire_at": ""}})
    calls: list[str] = []

    def on_settled(end: Settled) -> None:
        calls.append(end.inbox)
        if end.inbox == INBOXES[0] and len(calls) <= len(INBOXES):
            raise raised

    clock = ManualClock()
    teller = Teller(
        db=db,
        clock=clock,
        on_settled=on_settled,
        on_failure=None,
        every_s=0.001,
        kept_s=60,
        give_up_s=1e12,
    )
    await teller.sweep_step()
    assert sorted(calls) == INBOXES
    clock.turn(15)
    await teller.sweep_step()
    assert len(calls) == len(INBOXES), "it is not time yet"
    clock.turn(60)
    await teller.sweep_step()
    assert calls[len(INBOXES) :] == [INBOXES[0]]
    assert await counts(db, {"told": True, "expire_at": {"$exists": True}})


async def test_a_callback_that_takes_its_time_holds_up_no_storing(deliverer_with, db):
    first, go_on = asyncio.Event(), asyncio.Event()
    told: list[Settled] = []

    async def on_settled(end: Settled) -> None:
        first.set()
        await go_on.wait()
        told.append(end)

    deliverer = deliverer_with(on_settled=on_settled)
    run = asyncio.create_task(deliverer.run())
    await send(deliverer)
    await asyncio.wait_for(first.wait(), 20)
    await until(lambda: counts(db, {"state": "refused-address"}))
    go_on.set()
    await settle(deliverer, run)
    assert sorted(end.inbox for end in told) == INBOXES
    assert await db.jobs.count_documents({"told": True}) == len(INBOXES)


async def test_ends_that_a_crash_left_untold_are_told_by_whoever_runs_next(deliverer_with, db):
    """The first process had callbacks, stored the ends, and died before it called."""
    await ended(deliverer_with(), db)
    await db.jobs.update_many({}, {"$set": {"told": False}, "$unset": {"expire_at": ""}})
    told: asyncio.Queue[Settled] = asyncio.Queue()
    deliverer = deliverer_with(on_settled=told.put, config=SOON)
    run = asyncio.create_task(deliverer.run())
    ends = [await asyncio.wait_for(told.get(), 20) for _ in INBOXES]
    await settle(deliverer, run)
    assert sorted(end.inbox for end in ends) == INBOXES
    assert {(end.outcome.value, end.end) for end in ends} == {("refused-address", 1)}
    assert await db.jobs.count_documents({"told": True, "expire_at": {"$exists": True}}) == len(INBOXES)


async def test_without_callbacks_nothing_waits_to_be_told(deliverer_with, db):
    deliverer = deliverer_with()
    run = asyncio.create_task(deliverer.run())
    await send(deliverer)
    await until(lambda: counts(db, {"told": True}))
    await settle(deliverer, run)
