# SPDX-License-Identifier: Apache-2.0
"""What a worker makes of what breakers say, where answers cross each other."""

import asyncio
import dataclasses
from collections.abc import Sequence

import pytest
from tests.jobs import TEMPLATE
from tests.waiting import until

from ojak import Deliverer, DelivererConfig, FolderSenderKeys
from ojak.breaker.admission import Admission, Verdict
from ojak.breaker.circuit import Signal
from ojak.breaker.rules import CircuitBreaker
from ojak.breaker.store import BreakerResult, MemoryBreakers
from ojak.clock import ManualClock
from ojak.model.job import Job, Priority
from ojak.store import mirror
from ojak.store.breakers import MongoBreakers
from ojak.store.claim import ReadyHost
from ojak.store.database import QueueDatabase
from ojak.store.hosts import Due, lower_due
from ojak.store.mirror import MirroredBreakers
from ojak.worker import circuits as circuits_module
from ojak.worker.circuits import Circuits
from ojak.worker.flights import Flights
from ojak.worker.probes import Probes

HOST = ReadyHost(authority="h.test", shard=1, asks=1, quick=True, proven=True, answer_ms=None, scheme=None)
JOB = dataclasses.replace(TEMPLATE, id=b"j" * 16, lane="h.test", inbox="https://h.test/inbox", stamp=b"s" * 16)


class Slow(MemoryBreakers):
    """Answers askers only when told to."""

    def __init__(self) -> None:
        super().__init__(CircuitBreaker(threshold=2))
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.asked = asyncio.Event()
        self.recorded: list[BreakerResult] = []

    async def admit(self, keys: Sequence[str], *, hold_s: float) -> Sequence[Admission]:
        answers = await super().admit(keys, hold_s=hold_s)
        self.asked.set()
        await self.go_on.wait()
        return answers

    async def record(self, results: Sequence[BreakerResult]) -> Sequence[Admission]:
        self.recorded += results
        return await super().record(results)


class World:
    def __init__(self, db: QueueDatabase) -> None:
        self.clock = ManualClock()
        self.slow = Slow()
        self.events: list[tuple[str, str]] = []
        store = MirroredBreakers(self.slow, db)
        self.probes = Probes(store=store, clock=self.clock)
        self.circuits = Circuits(
            store=store,
            db=db,
            clock=self.clock,
            hold_s=120,
            probes=self.probes,
            on_held=lambda key: self.events.append(("held", key)),
            on_sent=lambda key, limit: self.events.append((f"sent {limit}", key)),
            on_reopened=lambda: self.events.append(("reopened", "")),
        )

    async def report(self, signal: Signal, *, times: int = 1, job: Job = JOB) -> None:
        recording = asyncio.create_task(self.circuits.step())
        await asyncio.gather(*(self.circuits.report(job, signal, again_s=0) for _ in range(times)))
        recording.cancel()
        await asyncio.gather(recording, return_exceptions=True)


@pytest.fixture
def world(db: QueueDatabase) -> World:
    return World(db)


async def test_an_answer_of_before_it_opened_does_not_open_the_host_again(world: World):
    world.slow.go_on.clear()
    claim = asyncio.create_task(world.circuits.admit([HOST]))
    await world.slow.asked.wait()
    world.clock.turn(1)
    await world.report(Signal.FAILURE, times=2)
    assert world.events[-1] == ("held", "h.test")
    world.slow.go_on.set()
    assert (await claim)["h.test"].verdict is Verdict.SEND
    assert world.circuits.opened_since("h.test", 0.5), "what that claim leases is handed back"
    assert world.events[-1] == ("held", "h.test")


async def test_successes_are_recorded_while_something_stands_against_the_host_and_not_after(world: World):
    await world.circuits.admit([HOST])
    await world.circuits.report(JOB, Signal.SUCCESS, again_s=0)
    assert world.slow.recorded == [], "it said that it is clean"
    await world.report(Signal.FAILURE)
    await world.report(Signal.SUCCESS)
    assert [result.signal for result in world.slow.recorded] == [Signal.FAILURE, Signal.SUCCESS]
    await world.circuits.report(JOB, Signal.SUCCESS, again_s=0)
    assert len(world.slow.recorded) == 2


async def test_a_probe_that_says_nothing_is_given_back_and_one_that_is_left_over_too(world: World):
    await world.report(Signal.FAILURE, times=2)
    for first in (True, False):
        # The second time it is due at once: it was given back.
        assert await world.slow.heard_from("h.test") is first
        answer = (await world.circuits.admit([dataclasses.replace(HOST, troubled=True, is_open=True)]))["h.test"]
        assert answer.probe is not None
        world.probes.take(JOB.id, answer.probe, until_s=120)
        assert world.probes.trust_left_s(JOB.id) == 120
        await world.circuits.report(JOB, Signal.NOTHING, again_s=0)
        assert world.probes.probe_of(JOB.id) is None
    (answer,) = await world.slow.admit(["h.test"], hold_s=120)
    assert answer.probe is not None
    world.probes.take(JOB.id, answer.probe, until_s=120)
    await world.circuits.recorded()
    assert world.probes.held() == {}
    assert (await world.slow.admit(["h.test"], hold_s=120))[0].verdict is Verdict.PROBE


class LibraryTimeout(BaseException):
    """As some libraries raise it."""


@pytest.mark.parametrize("raised", [RuntimeError(), LibraryTimeout(), SystemExit(3), asyncio.CancelledError()])
async def test_a_store_that_raises_whatever_about_probes_ends_nothing(world: World, monkeypatch, caplog, raised):
    async def fail(*_: object, **__: object) -> bool:
        raise raised

    await world.report(Signal.FAILURE, times=2)
    assert await world.slow.heard_from("h.test")
    shown = dataclasses.replace(HOST, troubled=True, is_open=True, asked=True)
    answer = (await world.circuits.admit([shown]))["h.test"]
    assert answer.probe is not None
    for method in ("renew", "give_back", "heard_from"):
        monkeypatch.setattr(world.slow, method, fail)
    await world.circuits.admit([shown])
    world.probes.take(JOB.id, answer.probe, until_s=120)
    await world.probes.renew(hold_s=120)
    await world.circuits.recorded()
    assert world.probes.held() == {}
    assert [record.message for record in caplog.records if record.levelname != "INFO"][1:] == [
        "a probe could not be brought forward",
        "probes not renewed",
        "probes not given back",
    ]


@pytest.mark.parametrize("raised", [LibraryTimeout(), SystemExit(3), asyncio.CancelledError()])
async def test_a_store_that_raises_whatever_is_asked_and_told_again(world: World, monkeypatch, caplog, raised):
    async def fail(*_: object, **__: object) -> bool:
        raise raised

    monkeypatch.setattr(circuits_module, "_STORE_AWAY_S", 0.01)
    with monkeypatch.context() as away:
        away.setattr(world.slow, "admit", fail)
        away.setattr(world.slow, "record", fail)
        assert (await world.circuits.admit([HOST]))["h.test"].clean
        reporting = asyncio.create_task(world.circuits.report(JOB, Signal.FAILURE, again_s=0))
        await asyncio.sleep(0)
        await world.circuits.step()
    await world.circuits.step()
    await reporting
    assert [result.signal for result in world.slow.recorded] == [Signal.FAILURE]
    assert {record.message for record in caplog.records if record.levelname == "ERROR"} == {
        "breakers could not be asked; what is not known to be held is sent",
        "results were not recorded; again later",
    }


async def test_a_store_that_failed_is_left_alone_for_a_while_and_then_asked_by_one_at_a_time(world: World, monkeypatch):
    """One that hangs takes 5 s of each claim, of each delivery where breakers are of inboxes, and of each host."""
    calls: list[str] = []
    go_on = asyncio.Event()

    async def fail(*_: object, **__: object) -> bool:
        calls.append("asked")
        await go_on.wait()
        raise TimeoutError

    asked = dataclasses.replace(HOST, troubled=True, asked=True)
    with monkeypatch.context() as away:
        away.setattr(world.slow, "admit", fail)
        away.setattr(world.slow, "heard_from", fail)
        go_on.set()
        assert (await world.circuits.admit([asked]))["h.test"].clean
        for _ in range(3):
            assert (await world.circuits.admit([HOST]))["h.test"].clean
        assert calls == ["asked"], "neither again nor otherwise"
        world.clock.turn(5)
        go_on.clear()
        asking = asyncio.create_task(world.circuits.admit([HOST]))
        await asyncio.sleep(0)
        assert (await world.circuits.admit([HOST]))["h.test"].clean
        assert calls == ["asked"] * 2, "one finds out for all"
        go_on.set()
        assert (await asking)["h.test"].clean
        reporting = asyncio.create_task(world.circuits.report(JOB, Signal.FAILURE, again_s=0))
    world.clock.turn(5)
    await world.report(Signal.FAILURE)
    await reporting
    assert [result.signal for result in world.slow.recorded] == [Signal.FAILURE] * 2
    assert (await world.circuits.admit([HOST]))["h.test"].verdict is Verdict.HOLD, "it is asked again"


async def test_a_store_that_cannot_be_told_is_heeded_all_the_same(world: World, monkeypatch):
    """One that takes no writes for now, as a replica does after its primary died, still knows what is held."""
    for _ in range(2):
        await world.report(Signal.FAILURE)

    async def fail(*_: object, **__: object) -> bool:
        raise TimeoutError

    monkeypatch.setattr(circuits_module, "_STORE_AWAY_S", 0.01)
    monkeypatch.setattr(world.slow, "record", fail)
    reporting = asyncio.create_task(world.circuits.report(JOB, Signal.FAILURE, again_s=0))
    await asyncio.sleep(0)
    await world.circuits.step()
    assert (await world.circuits.admit([HOST]))["h.test"].verdict is Verdict.HOLD
    monkeypatch.undo()
    await world.circuits.step()
    await reporting


async def test_what_is_held_stays_in_mind_while_the_store_cannot_be_asked(world: World, monkeypatch):
    for _ in range(2):
        await world.report(Signal.FAILURE)
    assert world.circuits.opened_since("h.test", 0.0)

    async def fail(*_: object, **__: object) -> bool:
        raise TimeoutError

    monkeypatch.setattr(world.slow, "admit", fail)
    await world.circuits.admit([HOST])
    assert world.circuits.opened_since("h.test", 0.0), "nobody has said that it is closed"


async def test_what_is_held_of_names_without_end_is_kept_in_mind_for_so_many(db: QueueDatabase, monkeypatch):
    """And one that was forgotten is let go all the same once its record is met."""
    monkeypatch.setattr(mirror, "KEPT", 2)
    names = ["h0.test", "h1.test", "h2.test"]
    await lower_due(db, [Due(authority=name, priority=Priority.FANOUT) for name in names])
    breakers = MemoryBreakers(CircuitBreaker(threshold=1))
    store = MirroredBreakers(breakers, db)
    for name in names:
        await store.record([BreakerResult(key=name, signal=Signal.FAILURE, probe=None)])
    assert len(store._shown) == 2
    assert await db.hosts.count_documents({"breaker.open": True}) == 3
    await breakers.record([BreakerResult(key="h0.test", signal=Signal.SUCCESS, probe=None)])
    store.learn_shown("h0.test")
    (answer,) = await store.admit(["h0.test"], hold_s=120)
    assert answer.verdict is Verdict.SEND
    assert {row["_id"] async for row in db.hosts.find({"breaker.open": True})} == {"h1.test", "h2.test"}


async def test_the_claimer_of_the_other_line_takes_no_probe_out_that_waits_for_a_slot(
    db: QueueDatabase, mongod_url: str, tmp_path, monkeypatch
):
    """It read the host before the probe was taken, and hears that it is held."""
    host = "127.0.0.1:9"
    keys = FolderSenderKeys(tmp_path / "keys")
    keys.generate(JOB.sender)
    config = DelivererConfig(poll_every_s=0.1, breaker_threshold=1)
    deliverer = Deliverer(mongod_url, database=db.name, keys=keys, config=config, breakers="shared")
    await deliverer.send({"id": "https://a.test/1", "type": "Like"}, JOB.sender, [f"http://{host}/inbox"])
    shared = MongoBreakers(db, CircuitBreaker(threshold=1))
    await shared.record([BreakerResult(key=host, signal=Signal.FAILURE)])
    assert await shared.heard_from(host)
    row = await db.hosts.find_one({"_id": host})
    assert row is not None
    read_before = dataclasses.replace(HOST, authority=host, shard=row["shard"], troubled=True, is_open=True)
    with monkeypatch.context() as full:
        full.setattr(Flights, "fill", lambda _: None)
        run = asyncio.create_task(deliverer.run())

        async def holds_the_probe() -> bool:
            return any(engine._probes.held() and engine._lanes.backlog for engine in deliverer._running)

        await until(holds_the_probe)
        (engine,) = deliverer._running
        assert (await engine._circuits.admit([read_before]))[host].verdict is Verdict.HOLD
        assert (len(engine._probes.held()), engine._lanes.backlog) == (1, 1)
        assert await db.hosts.count_documents({"breaker.probe": {"$exists": True}}) == 1
    engine._flights.fill()

    async def ended() -> bool:
        return await db.jobs.count_documents({"state": "refused-address"}) == 1

    await until(ended)
    await deliverer.close()
    await run
