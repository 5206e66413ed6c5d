# SPDX-License-Identifier: Apache-2.0
"""What looking at the lanes of portable deliveries may cost."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from tests.waiting import until

from ojak import Deliverer, DelivererConfig, FolderSenderKeys, PortableInbox
from ojak.clock import ManualClock
from ojak.shard import shard_of
from ojak.store.database import QueueDatabase
from ojak.store.waiting import waiting_lanes
from ojak.worker import passing
from ojak.worker.failover import Failover, Passed
from ojak.worker.held import Held
from ojak.worker.ownership import Ownership
from ojak.worker.passing import Passing

SENDER: Final = "https://a.test/u"
INBOX: Final = "ap://did:key:z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2/actor/inbox"


async def test_the_lanes_where_portable_deliveries_wait_are_found_once_each(db: QueueDatabase):
    rows: list[dict[str, Any]] = [
        {"_id": b"1", "portable": True, "state": "queued", "lane": "a.test"},
        {"_id": b"2", "portable": True, "state": "queued", "lane": "a.test"},
        {"_id": b"3", "portable": True, "state": "queued", "lane": "b.test"},
        {"_id": b"4", "portable": True, "state": "leased", "lane": "c.test"},
        {"_id": b"5", "state": "queued", "lane": "d.test"},
        {"_id": b"6", "portable": True, "state": "queued", "lane": 7},
    ]
    await db.jobs.insert_many(rows)
    assert sorted(await waiting_lanes(db)) == ["a.test", "b.test"]


async def test_a_look_that_takes_its_time_is_not_taken_again_soon_however_often_hosts_are_held(
    db: QueueDatabase, monkeypatch: pytest.MonkeyPatch
):
    """Gateways are named by strangers: 400,000 of them take a second and a half to look through."""
    clock, paused = ManualClock(), []

    async def slow(_: QueueDatabase) -> list[str]:
        clock.turn(1.5)
        return []

    async def note(seconds: float) -> None:
        paused.append(round(seconds, 3))
        clock.turn(seconds)

    monkeypatch.setattr(passing, "waiting_lanes", slow)
    monkeypatch.setattr(passing, "pause", note)
    monkeypatch.setattr(Ownership, "epochs", {0: 1})
    look = passing_of(db, clock)
    for _ in range(2):
        look.look()
        await look.step()
    assert paused == [0.1, 30.0]


HELD, ASKED = "held.test", "asked.test"
ROWS = 3


def passing_of(
    db: QueueDatabase,
    clock: ManualClock,
    *,
    held: Held | None = None,
    passed: list[Passed] | None = None,
    room: int = 1,
) -> Passing:
    return Passing(
        db=db,
        owner=b"o" * 16,
        ownership=Ownership(
            db=db,
            owner=b"o" * 16,
            clock=clock,
            lease_s=45,
            about="",
            expected=1,
            kinds=(),
            let_go=lambda _: NotImplemented,
        ),
        failover=Failover(db=db, config=DelivererConfig()),
        held=held or Held(clock),
        on_passed=(passed if passed is not None else []).append,
        has_room=lambda: bool(room) if passed is None else len(passed) < room,
        clock=clock,
        lease_s=120,
        every_s=5,
    )


async def _over_at_a_held_gateway(db: QueueDatabase, mongod_url: str) -> None:
    """Deliveries whose first gateway failed, and whose second is held before their turn: their attempts are over."""
    async with Deliverer(mongod_url, database=db.name) as deliverer:
        inboxes = [PortableInbox(f"{INBOX}/{n}", [f"http://{ASKED}", f"http://{HELD}"]) for n in range(ROWS)]
        await deliverer.send_portable({"id": "https://a.test/1", "type": "Like"}, SENDER, inboxes)
    tried = {"at": 0, "came": "failed", "status": 500, "reason": "status-500", "scheme": "cavage"}
    await db.jobs.update_many({}, {"$set": {"lane": HELD, "at": 1, "tried": [tried]}})
    until_s = datetime.now(UTC) + timedelta(hours=1)
    held = {"gate_until": until_s, "hold_until": until_s, "ready": {"0": until_s, "1": until_s}}
    due = {"shard": shard_of(HELD), "due": {"0": until_s, "1": until_s}, "asks": 1}
    await db.hosts.update_one({"_id": HELD}, {"$set": {**held, **due}}, upsert=True)


async def _leased(db: QueueDatabase) -> int:
    return await db.jobs.count_documents({"state": "leased", "lease.by": b"o" * 16})


async def test_what_is_over_at_a_held_gateway_is_renewed_until_it_is_stored_and_waits_where_there_is_no_room(
    db: QueueDatabase, mongod_url: str, monkeypatch: pytest.MonkeyPatch
):
    await _over_at_a_held_gateway(db, mongod_url)
    monkeypatch.setattr(Ownership, "epochs", {shard_of(HELD): 1})
    monkeypatch.setattr(passing, "_AT_A_TIME", 1)
    clock = ManualClock()
    held, passed = Held(clock), list[Passed]()
    for room in (0, 2, 5):
        look = passing_of(db, clock, held=held, passed=passed, room=room)
        look.look()
        await look.step()
        assert len(passed) == len(held.ids()) == await _leased(db) == min(room, ROWS)
    assert {held.trust_left_s(one.job) for one in passed} == {120.0}


async def test_it_is_no_death_that_its_outcome_cannot_be_stored_for_longer_than_a_lease(
    db: QueueDatabase, mongod_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    stored, decide = asyncio.Event(), Failover.decide

    async def stuck(self: Failover, batch: Sequence[Passed]) -> Any:
        await stored.wait()
        return await decide(self, batch)

    monkeypatch.setattr(Failover, "decide", stuck)
    await _over_at_a_held_gateway(db, mongod_url)
    config = DelivererConfig(poll_every_s=0.1, request_s=0.5, lease_s=1, shard_lease_s=1, reap_every_s=0.1, drain_s=0.1)
    keys = FolderSenderKeys(tmp_path / "keys")
    keys.generate(SENDER)
    deliverer = Deliverer(mongod_url, database=db.name, keys=keys, config=config)
    run = asyncio.create_task(deliverer.run())
    began = datetime.now(UTC)
    # The reaper has looked several times since the first lease ended.
    later = {"state": "leased", "lease.until": {"$gt": began + timedelta(seconds=3)}}
    try:
        await until(lambda: _count(db, later, ROWS))
        assert await _count(db, {"deaths": 0}, ROWS)
        stored.set()
        await until(lambda: _count(db, {"state": "queued", "lane": ASKED, "tries": 1, "deaths": 0}, ROWS))
        (engine,) = deliverer._running

        async def holds_nothing() -> bool:
            return not engine._held.ids()

        await until(holds_nothing)
    finally:
        stored.set()
        await deliverer.close()
        await run


async def _count(db: QueueDatabase, rows: dict[str, Any], count: int) -> bool:
    return await db.jobs.count_documents(rows) == count
