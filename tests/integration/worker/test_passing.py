# SPDX-License-Identifier: Apache-2.0
"""What looking at the lanes of portable deliveries may cost."""

from typing import Any

import pytest

from ojak.clock import ManualClock
from ojak.config import DelivererConfig
from ojak.store.database import QueueDatabase
from ojak.store.waiting import waiting_lanes
from ojak.worker import passing
from ojak.worker.failover import Failover
from ojak.worker.ownership import Ownership
from ojak.worker.passing import Passing


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
    ownership = Ownership(
        db=db, owner=b"o" * 16, clock=clock, lease_s=45, about="", expected=1, kinds=(), let_go=lambda _: NotImplemented
    )
    monkeypatch.setattr(Ownership, "epochs", {0: 1})
    look = Passing(
        db=db,
        owner=b"o" * 16,
        ownership=ownership,
        failover=Failover(db=db, config=DelivererConfig()),
        on_passed=lambda _: None,
        clock=clock,
        lease_s=120,
        every_s=5,
    )
    for _ in range(2):
        look.look()
        await look.step()
    assert paused == [0.1, 30.0]
