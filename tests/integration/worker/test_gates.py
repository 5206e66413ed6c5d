# SPDX-License-Identifier: Apache-2.0
"""Hosts that ask for no more requests for a while: here at once, and for claims as soon as their records say so."""

import dataclasses

import pytest
from pymongo.errors import AutoReconnect
from tests.jobs import TEMPLATE

from ojak.clock import SystemClock
from ojak.model.job import Priority
from ojak.store.database import QueueDatabase
from ojak.store.hosts import Due, lower_due
from ojak.worker import gates as gates_module
from ojak.worker.gates import Gates
from ojak.worker.lanes import Lanes

CLOCK = SystemClock()


class World:
    def __init__(self, db: QueueDatabase) -> None:
        self.lanes = Lanes(concurrency=8, per_host=2)
        self.opened = 0
        self.gates = Gates(db=db, clock=CLOCK, lanes=self.lanes, on_opened=self.count)

    def count(self) -> None:
        self.opened += 1

    def lease(self, host: str) -> None:
        job = dataclasses.replace(TEMPLATE, id=host.encode(), lane=host)
        self.lanes.add(host, 0, [job], proven=True, foreign=0)


@pytest.fixture
def world(db: QueueDatabase) -> World:
    return World(db)


async def test_a_flood_of_hosts_that_ask_for_a_day_is_not_named_in_every_claim(world: World, db: QueueDatabase):
    """Whoever owns a domain has names without end: a claim that leaves each of them out grows past what is taken."""
    hosts = [f"h{n}.wild.test" for n in range(300)]
    await lower_due(db, [Due(authority=host, priority=Priority.FANOUT) for host in hosts])
    for host in hosts:
        world.lease(host)
        assert len(world.gates.shut(host, 86_400)) == 1
    assert len(world.lanes.busy(Priority.FANOUT)) == 300, "until their records say so"
    for host in hosts:
        await world.gates.write(host, 86_400)
    assert world.lanes.busy(Priority.FANOUT) == []
    assert world.opened == 300
    assert await db.hosts.count_documents({"$expr": {"$gt": ["$ready.1", {"$add": ["$$NOW", 86_000_000]}]}}) == 300


async def test_what_was_read_before_the_record_said_so_is_not_sent(world: World, db: QueueDatabase):
    await lower_due(db, [Due(authority="a.test", priority=Priority.FANOUT)])
    before_s = CLOCK.boot_s()
    assert not world.gates.shut_since("a.test", before_s)
    world.gates.shut("a.test", 60)
    assert world.gates.shut_since("a.test", before_s)
    await world.gates.write("a.test", 60)
    assert world.gates.shut_since("a.test", before_s), "a claim that was under way did not see it"
    assert not world.gates.shut_since("a.test", CLOCK.boot_s() + 0.001), "its record says so"


async def test_a_gate_that_cannot_be_written_holds_here_for_its_time(world: World, db: QueueDatabase, monkeypatch):
    async def away(*_: object) -> None:
        raise AutoReconnect("away")

    monkeypatch.setattr(gates_module, "hold_host", away)
    world.lease("a.test")
    world.gates.shut("a.test", 3600)
    await world.gates.write("a.test", 3600)
    assert world.lanes.busy(Priority.FANOUT) == ["a.test"]
    world.lease("a.test")
    assert world.lanes.next() is None
    world.gates.close()
    assert world.opened == 0
