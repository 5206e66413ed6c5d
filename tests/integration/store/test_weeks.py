# SPDX-License-Identifier: Apache-2.0
"""Simulated weeks of a host that dies, flaps and recovers, on the real store: each attempt and probe to the second.

The store's clock is turned from one event to the next, attempts take no time, and the jitter is seeded. What must come
out is said twice: in hours, where the rules give round ones, and by a second, much simpler simulation.
"""

import heapq
import random
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.monitoring import CommandListener

from ojak.backoff import backoff_s
from ojak.breaker.admission import Verdict
from ojak.breaker.circuit import Signal
from ojak.breaker.rules import CircuitBreaker
from ojak.breaker.store import BreakerResult
from ojak.model.activity import activity_of
from ojak.model.job import Job, Priority
from ojak.model.outcome import SettledOutcome
from ojak.shard import SHARDS
from ojak.store.breakers import MongoBreakers
from ojak.store.claim import ReadyHost, claim, ready_hosts
from ojak.store.database import QueueDatabase, connect
from ojak.store.enqueue import NewJob, enqueue
from ojak.store.hand_back import hand_back
from ojak.store.handover import hand_over
from ojak.store.now import NEVER, Now
from ojak.store.settle import Ended, Retried, write_ends, write_retries
from ojak.store.shards import owned, take

HOST = "h.test"
START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR_S = 3600.0
RULES = CircuitBreaker()
LEASE_S = 120.0


@dataclass(frozen=True)
class Event:
    """An attempt, as both simulations tell it."""

    at_ms: int
    probe: bool
    well: bool


@dataclass
class Simulation:
    """One worker over the real store."""

    db: QueueDatabase
    up: Callable[[float], bool]
    dice: random.Random
    events: list[Event] = field(default_factory=list)
    breakers: MongoBreakers = field(init=False)
    owner: bytes = b""
    sent: int = 0
    epochs: dict[int, int] = field(default_factory=dict)

    async def restart(self) -> None:
        """Another process, with nothing but what the database holds."""
        await self.db.shards.update_many({}, {"$set": {"until": START - timedelta(days=1)}})
        self.owner = secrets.token_bytes(16)
        self.breakers = MongoBreakers(self.db, RULES, holder=self.owner)
        await take(self.db, self.owner, count=SHARDS, lease_s=1e9)
        self.epochs = await owned(self.db, self.owner)

    @property
    def now(self) -> datetime:
        assert self.db.now.literal is not None
        return self.db.now.literal

    @property
    def now_s(self) -> float:
        return (self.now - START).total_seconds()

    async def send(self, count: int) -> None:
        for _ in range(count):
            self.sent += 1
            activity = activity_of({"id": f"https://a.test/{self.sent}", "type": "Like"}, max_bytes=1000)
            handover = await hand_over(
                self.db, activity, sender="https://a.test/u", priority=Priority.FANOUT, kept_s=1e9
            )
            jobs = [NewJob(authority=HOST, inbox=f"https://{HOST}/inbox", shared=False, ref=None)]
            async for _ in enqueue(self.db, jobs, handover):
                pass

    async def run(self, sends: Sequence[tuple[float, int]], *, until_s: float) -> None:
        """Live through the time until `until_s`, sending so many deliveries at each of the times of `sends`."""
        waiting = [item for item in sends if item[0] >= self.now_s]
        while True:
            row = await self.db.hosts.find_one({"_id": HOST}, {"ready": 1})
            ready: datetime = row["ready"]["1"] if row else NEVER
            send_at = START + timedelta(seconds=waiting[0][0]) if waiting else NEVER
            moment = max(self.now, min(ready, send_at))
            if (moment - START).total_seconds() > until_s:
                self.db.now.turn(START + timedelta(seconds=until_s))
                return
            self.db.now.turn(moment)
            if send_at <= ready:
                await self.send(waiting.pop(0)[1])
            else:
                await self.look()

    async def look(self) -> None:
        """Claim once, and make the attempts, one after the other."""
        hosts = await ready_hosts(self.db, shards=range(SHARDS), priority=Priority.FANOUT, busy=[], quick=9, others=9)
        (host,) = hosts
        probe = None
        if host.is_open:
            (answer,) = await self.breakers.admit([HOST], hold_s=LEASE_S)
            assert answer.verdict is Verdict.PROBE
            probe = answer.probe
        jobs, probe_id = await self.claim(host, probed=probe is not None)
        is_open = probe is not None
        for job in jobs:
            if is_open and job.id != probe_id:
                await hand_back(self.db, {job.stamp: [job.id]})
                continue
            well = self.up(self.now_s)
            self.events.append(Event(round(self.now_s * 1000), job.id == probe_id, well))
            result = BreakerResult(
                key=HOST,
                signal=Signal.SUCCESS if well else Signal.FAILURE,
                probe=probe if job.id == probe_id else None,
            )
            (answer,) = await self.breakers.record([result])
            is_open = answer.verdict is Verdict.HOLD
            await self.settle(job, well=well, free=job.id == probe_id)

    async def claim(self, host: ReadyHost, *, probed: bool) -> tuple[list[Job], bytes | None]:
        claimed = await claim(
            self.db,
            [host],
            owner=self.owner,
            stamp=secrets.token_bytes(16),
            epochs=self.epochs,
            priority=Priority.FANOUT,
            share=lambda _, foreign: (1 if host.recovering else 2) - foreign,
            lease_s=LEASE_S,
            max_age_s=365 * 24 * HOUR_S,
            probed=[HOST] if probed else [],
        )
        return (list(claimed[0].jobs), claimed[0].probe) if claimed else ([], None)

    async def settle(self, job: Job, *, well: bool, free: bool) -> None:
        told: Any = {"status": None, "reason": "", "scheme": None}
        if well:
            end = Ended(job=job, outcome=SettledOutcome.DELIVERED, spent=True, **told)
            assert await write_ends(self.db, [end], tell=False, kept_s=1e9)
        else:
            delay_s = 0.0 if free else backoff_s(job.tries + 1, self.dice)
            assert await write_retries(self.db, [Retried(job=job, delay_s=delay_s, spent=not free, **told)])


def expected(
    sends: Sequence[tuple[float, int]], up: Callable[[float], bool], dice: random.Random, *, until_s: float
) -> list[Event]:
    """The same by a heap and four numbers. Times are whole milliseconds, as the database keeps them."""
    jobs: list[tuple[int, int, int]] = []
    events: list[Event] = []
    waiting = [(round(at_s * 1000), count) for at_s, count in sends]
    now = number = failures = step = to_go = 0
    until: int | None = None
    while True:
        ready = (jobs[0][0] if until is None else until) if jobs else None
        if waiting and (ready is None or waiting[0][0] <= max(now, ready)):
            now, count = waiting.pop(0)
            for _ in range(count):
                number += 1
                heapq.heappush(jobs, (now, number, 0))
            continue
        if ready is None or max(now, ready) > until_s * 1000:
            return events
        now = max(now, ready)
        _, seq, tries = heapq.heappop(jobs)
        well, probe = up(now / 1000), until is not None
        events.append(Event(now, probe, well))
        if well:
            if probe:
                until, to_go = None, 8
            elif to_go:
                to_go -= 1
                step = step if to_go else 0
            failures = 0
            continue
        if probe:
            heapq.heappush(jobs, (now, seq, tries))
        else:
            heapq.heappush(jobs, (now + round(backoff_s(tries + 1, dice) * 1000), seq, tries + 1))
            failures += 1
        if probe or to_go or failures == 10:
            step, failures, to_go = step + 1, 0, 0
            until = now + min(2 ** (step - 1), 168) * 3_600_000


@pytest.fixture
async def simulate(db: QueueDatabase):
    async def make(up: Callable[[float], bool], *, seed: int = 1, client: Any = None) -> Simulation:
        turned = QueueDatabase(client or db.client, db.name, now=Now(START))
        made = Simulation(db=turned, up=up, dice=random.Random(seed))
        await made.restart()
        return made

    return make


def hours(events: Sequence[Event]) -> list[float]:
    return [event.at_ms / 3_600_000 for event in events]


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_week_of_a_host_that_dies_flaps_and_recovers(simulate, db: QueueDatabase, seed: int):
    downs = [(0.0, 40.0), (80.0, 83.3), (84.4, 84.6), (100.0, 100.2), (110.0, 113.0), (114.5, 118.0), (130.0, 150.0)]

    def up(at_s: float) -> bool:
        return not any(start <= at_s / HOUR_S < end for start, end in downs)

    sends = [(0.0, 30), *((hour * HOUR_S + 600, 1) for hour in range(70, 160))]
    week = 168 * HOUR_S
    simulation = await simulate(up, seed=seed)
    await simulation.run(sends, until_s=week)
    assert simulation.events == expected(sends, up, random.Random(seed), until_s=week)
    # The first death, in hours: ten attempts, five probes in vain, one that gets through, and everything at once.
    first = [event for event in simulation.events if event.at_ms < 70 * 3_600_000]
    assert [(event.probe, event.well) for event in first] == [
        *[(False, False)] * 10,
        *[(True, False)] * 5,
        (True, True),
        *[(False, True)] * 29,
    ]
    assert hours(first) == [*[0.0] * 10, 1, 3, 7, 15, 31, *[63.0] * 30]
    probes = sum(event.probe for event in simulation.events)
    assert probes > 10
    assert not all(event.well for event in simulation.events if event.probe and event.at_ms > 70 * 3_600_000)
    states = Counter([row["state"] async for row in db.jobs.find({}, {"state": 1})])
    assert states["delivered"] + states["queued"] == simulation.sent == 120


class Rows(CommandListener):
    """Counts the rows that are written."""

    def __init__(self) -> None:
        self.count = 0

    def started(self, event: Any) -> None:
        """Its reply tells."""

    def succeeded(self, event: Any) -> None:
        if event.command_name == "update":
            self.count += event.reply["nModified"]

    def failed(self, event: Any) -> None:
        """Nothing was written."""


async def test_r40_three_weeks_of_a_dead_host_cost_one_attempt_and_a_few_rows_a_probe(
    simulate, db: QueueDatabase, mongod_url: str
):
    """Field report R40: a failed probe re-opened the breaker without counting, so the waiting time never grew."""
    rows = Rows()
    client = connect(mongod_url, event_listeners=[rows])
    dead_h = 24 * 21
    simulation = await simulate(lambda at_s: at_s >= dead_h * HOUR_S, client=client)
    await simulation.send(50)
    written: list[int] = []
    ends_h = [1, 3, 7, 15, 31, 63, 127, 255, 423]
    sends = [(hour * HOUR_S + 1800, 1) for hour in range(0, dead_h, 3)]
    for number, end_h in enumerate(ends_h):
        await simulation.run(sends, until_s=end_h * HOUR_S - 0.001)
        if number == 2:
            await simulation.restart()
        rows.count = 0
        await simulation.run([], until_s=end_h * HOUR_S)
        written.append(rows.count)
    assert len(set(written)) == 1, "as many with 51 waiting as with 191"
    assert written[0] <= 10
    assert hours(simulation.events) == [*[0.0] * 10, *ends_h]
    assert [event.probe for event in simulation.events] == [False] * 10 + [True] * 9
    assert Counter([row["tries"] async for row in db.jobs.find({}, {"tries": 1})]) == {0: 181, 1: 10}
    # It heals; the probe a week later gets through, and the next quarantine would be an hour again.
    await simulation.run(sends, until_s=591 * HOUR_S)
    assert await db.jobs.count_documents({"state": "delivered"}) == simulation.sent
    simulation.up = lambda _: False
    await simulation.send(10)
    await simulation.run([], until_s=591 * HOUR_S)
    host = await db.hosts.find_one({"_id": HOST})
    assert host is not None
    assert host["breaker"]["ends"] == simulation.now + timedelta(hours=1)
    await client.close()
