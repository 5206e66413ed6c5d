# SPDX-License-Identifier: Apache-2.0
"""Hosts that fail are left alone, tried with one delivery, and come back one delivery at a time (SPEC section 4)."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from pymongo.monitoring import CommandListener
from tests.waiting import until

from ojak import (
    AttemptOutcome,
    CircuitBreaker,
    DelivererConfig,
    DeliveryAttempt,
    FolderSenderKeys,
    MemoryBreakers,
    Settled,
    SettledOutcome,
)
from ojak.farm import FarmHandle
from ojak.farm.behaviour import Respond
from ojak.store.counts import count_by_state
from ojak.store.database import connect

from .conftest import SENDER, running
from .quarantine import HOUR_S, WORKS, arrived, config, hurry, is_open, send


@pytest.mark.parametrize("kept", ["shared", None], ids=["shared", "memory"])
async def test_a_dead_host_costs_ten_attempts_and_then_a_probe_at_the_end_of_each_longer_quarantine(
    farm, deliverer_to, db, ended, *, kept
):
    here = farm({"status:503": 1})
    attempts: list[DeliveryAttempt] = []
    deliverer = deliverer_to(here, config=config(breaker_first_s=0.3), breakers=kept, on_attempt=attempts.append)
    await send(deliverer, here.inboxes(), 30)
    async with running(deliverer):
        await until(lambda: is_open(db))
        first = len(here.ledger().arrivals)
        assert first in (10, 11), "one more may have been on the wire"
        await until(lambda: arrived(here, first + 3))
        spent = sum([row["tries"] async for row in db.jobs.find({}, {"tries": 1})])
        assert spent == first, "probes spend no attempt"
        arrivals = sorted(here.ledger().arrivals, key=lambda arrival: arrival.seq)
        times = [arrivals[first - 1].arrived_s, *(arrival.arrived_s for arrival in arrivals[first : first + 3])]
        for (before, after), expected in zip(pairwise(times), (0.3, 0.6, 1.2), strict=True):
            assert expected - 0.1 < after - before < expected + 0.6
        assert len({arrival.activity for arrival in arrivals[first:]}) == len(arrivals) - first, "each with another job"
        here.client.behave("status:503", WORKS)
        await hurry(db)
        await ended(30)
    assert await count_by_state(db) == {"delivered": 30}
    assert Counter(attempt.outcome for attempt in attempts)[AttemptOutcome.OWN_FAULT] == 0
    well = [arrival for arrival in sorted(here.ledger().arrivals, key=lambda one: one.seq) if arrival.accepted]
    assert {arrival.open_requests for arrival in well[:9]} == {1}, "the probe, and eight in a row"
    assert max(arrival.open_requests for arrival in well[9:]) == 2
    host = await db.hosts.find_one()
    assert "breaker" not in host


async def test_a_failure_while_it_recovers_closes_it_again_for_longer(farm, deliverer_to, db):
    here = farm({"status:503": 1})
    deliverer = deliverer_to(here, config=config(breaker_first_s=0.3, breaker_growth=10), breakers="shared")
    await send(deliverer, here.inboxes(), 30)
    async with running(deliverer):
        await until(lambda: is_open(db))
        here.client.behave("status:503", Respond(status=202, latency_ms=100))
        await until(lambda: _accepted(here, 3))
        here.client.behave("status:503", Respond(status=500))
        await until(lambda: is_open(db))
    (host,) = [row async for row in db.hosts.find()]
    assert host["breaker"]["step"] == 2
    assert 2.0 < (host["breaker"]["ends"] - host["last_failure"]).total_seconds() < 4.0
    assert max(arrival.open_requests for arrival in here.ledger().arrivals if arrival.seq > 11) == 1


async def _accepted(farm: FarmHandle, count: int) -> bool:
    return sum(arrival.accepted for arrival in farm.ledger().arrivals) >= count


class Counting(CommandListener):
    """Counts the rows that writes changed, by collection."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self.collections: dict[int, str] = {}

    def started(self, event: Any) -> None:
        if event.command_name in ("update", "insert", "delete"):
            self.collections[event.request_id] = event.command[event.command_name]

    def succeeded(self, event: Any) -> None:
        if (collection := self.collections.pop(event.request_id, None)) is not None:
            self.rows[collection] += event.reply.get("nModified", event.reply.get("n", 0))

    def failed(self, event: Any) -> None:
        self.collections.pop(event.request_id, None)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("waiting", [20, 2000, pytest.param(100_000, marks=pytest.mark.long)])
async def test_what_waits_for_a_dead_host_costs_no_write_a_job(
    farm, deliverer_to, db, mongod_url, keys_dir, *, waiting
):
    """With a hundred or five thousand times as many jobs the same few rows are written, those of the probes."""
    here = farm({"status:503": 1})
    counting = Counting()
    client = connect(mongod_url, event_listeners=[counting])
    deliverer = deliverer_to(
        here, queue=client, config=config(breaker_first_s=0.5, breaker_growth=1), breakers="shared"
    )
    inboxes = [here.inboxes(path=f"/users/{number}/inbox")[0] for number in range(waiting)]
    await deliverer.send({"id": "https://a.test/1", "type": "Create"}, SENDER, inboxes)
    async with running(deliverer):
        await until(lambda: is_open(db))
        first = len(here.ledger().arrivals)
        await until(lambda: arrived(here, first + 1))
        counting.rows.clear()
        await until(lambda: arrived(here, first + 4))
        rows = dict(counting.rows)
    await client.close()
    # A probe: leased, put back; its host: probe taken, shown, decided, lowered, noted.
    assert rows["jobs"] <= 4 * 3
    assert rows["hosts"] <= 4 * 6
    assert await db.jobs.count_documents({"state": "queued", "tries": {"$lte": 1}}) == waiting


async def test_r37_a_host_that_heals_is_tried_when_a_verified_request_came_from_it(farm, deliverer_to, db, ended):
    """Field report R37: a recovered host waited for hours, and only a change in the database ended it."""
    here = farm({"status:503": 1})
    deliverer = deliverer_to(here, config=config(breaker_first_s=HOUR_S), breakers="shared")
    other = deliverer_to(here, breakers="shared")
    authority = here.hosts[0].inbox("/").removeprefix("http://").removesuffix("/")
    await send(deliverer, here.inboxes(), 12)
    async with running(deliverer):
        await until(lambda: is_open(db))
        first = len(here.ledger().arrivals)
        assert await other.heard_from(authority), "told to a process that sends nothing"
        await until(lambda: arrived(here, first + 1), within_s=5)
        # Its probe failed: once in a quarantine, and the quarantine is no longer than it was.
        await until(lambda: _probe_is_over(db))
        assert not await other.heard_from(authority)
        (host,) = [row async for row in db.hosts.find()]
        assert (host["breaker"]["open"], host["breaker"]["step"]) == (True, 1)
        here.client.behave("status:503", WORKS)
        await db.hosts.update_one({}, {"$set": {"breaker.heard": False}})
        assert await other.heard_from(authority)
        assert await other.heard_from("unknown.test") is False
        await hurry(db)
        await ended(12)
    await other.close()
    assert await count_by_state(db) == {"delivered": 12}


async def _probe_is_over(db: Any) -> bool:
    return await db.hosts.count_documents({"breaker.open": True, "breaker.probe": {"$exists": False}}) == 1


async def test_r37_a_worker_started_while_the_host_is_dead_holds_no_stale_copy(farm, deliverer_to, db, ended):
    """Field report R37, second part: workers read the list of dead hosts once, at their start."""
    here = farm({"status:503": 1})
    rules = config(breaker_first_s=HOUR_S)
    deliverer = deliverer_to(here, config=rules, breakers="shared")
    await send(deliverer, here.inboxes(), 12)
    async with running(deliverer):
        await until(lambda: is_open(db))
    heir = deliverer_to(here, config=rules, breakers="shared")
    authority = here.hosts[0].inbox("/").removeprefix("http://").removesuffix("/")
    async with running(heir):
        await until(lambda: _owned(db))
        here.client.behave("status:503", WORKS)
        outside = deliverer_to(here, config=rules, breakers="shared")
        assert await outside.heard_from(authority)
        await outside.close()
        await hurry(db)
        await ended(12)


async def _owned(db: Any) -> bool:
    return await db.shards.count_documents({"owner": {"$ne": None}}) == 256


@pytest.mark.parametrize("kept", ["shared", None], ids=["shared", "memory"])
async def test_r38_a_restart_does_not_try_every_dead_host_at_once(farm, deliverer_to, db, ended, *, kept):
    """Field report R38: an upgrade reset all breakers."""
    here = farm({"status:500": 20, "accept:20": 5})
    dead, living = here.inboxes("status:500"), here.inboxes("accept:20")
    rules = config(breaker_first_s=HOUR_S, breaker_threshold=3, concurrency=64, concurrency_max=64)
    first = deliverer_to(here, config=rules, breakers=kept)
    await send(first, dead, 6)
    async with running(first):
        await until(lambda: is_open(db, len(dead)))
    before = len(here.ledger().arrivals)
    for generation in range(3):
        heir = deliverer_to(here, config=rules, breakers=kept)
        async with running(heir):
            await send(heir, [*dead, *living], 4, what=f"g{generation}-")
            await ended((generation + 1) * 4 * len(living))
    arrivals = here.ledger().arrivals[before:] if kept else here.ledger().arrivals
    names = {host.name for host in here.labelled("status:500")}
    late = [arrival for arrival in arrivals if arrival.host in names]
    if kept:
        assert late == []
    else:
        # A fresh memory knows nothing, but the host records hold what was held.
        assert len(late) == before
    assert await is_open(db, len(dead))


async def test_r38_a_fresh_memory_finds_out_with_two_at_a_time_when_the_quarantine_is_over(farm, deliverer_to, db):
    here = farm({"status:500": 1})
    rules = config(breaker_first_s=1.0, breaker_threshold=4)
    first = deliverer_to(here, config=rules)
    await send(first, here.inboxes(), 12)
    async with running(first):
        await until(lambda: is_open(db))
    before = len(here.ledger().arrivals)
    second = deliverer_to(here, config=rules, breakers=MemoryBreakers(CircuitBreaker(threshold=4, first_s=HOUR_S)))
    async with running(second):
        await until(lambda: arrived(here, before + 4))
        await until(lambda: is_open(db))
    late = [arrival for arrival in here.ledger().arrivals if arrival.seq > before]
    assert len(late) in (4, 5)
    assert max(arrival.open_requests for arrival in late) <= 2


async def test_what_goes_to_a_host_that_was_not_there_for_a_month_ends_at_once_but_the_probe(
    farm, deliverer_to, db, ended
):
    here = farm({"status:503": 1})
    told: asyncio.Queue[Settled] = asyncio.Queue()
    rules = DelivererConfig(poll_every_s=0.05)
    deliverer = deliverer_to(here, config=rules, breakers="shared", on_settled=told.put)
    async with running(deliverer):
        await send(deliverer, here.inboxes(), 1, what="first")
        await until(lambda: arrived(here, 1))
    now = datetime.now(UTC)
    await _quarantine(db, now, until=now + timedelta(days=3))
    deliverer = deliverer_to(here, config=rules, breakers="shared", on_settled=told.put)
    async with running(deliverer):
        await send(deliverer, here.inboxes(), 3)
        ends = [await asyncio.wait_for(told.get(), 20) for _ in range(3)]
        assert {(end.outcome, end.attempts, end.reason) for end in ends} == {
            (SettledOutcome.HOST_UNAVAILABLE, 0, "host-unavailable")
        }
        assert len(here.ledger().arrivals) == 1
        # The week is over: one delivery is the probe, and fails; it and the others end as before.
        await db.hosts.update_one({}, {"$set": {"breaker.until": now, "breaker.ends": now, "hold_until": now}})
        await send(deliverer, here.inboxes(), 3, what="week")
        ends = [await asyncio.wait_for(told.get(), 20) for _ in range(3)]
        assert {end.outcome for end in ends} == {SettledOutcome.HOST_UNAVAILABLE}
        assert len(here.ledger().arrivals) == 2
        (host,) = [row async for row in db.hosts.find()]
        assert (host["breaker"]["ends"] - now).days in (6, 7)
        # A probe that gets through ends it.
        here.client.behave("status:503", WORKS)
        await db.hosts.update_one({}, {"$set": {"breaker.until": now, "breaker.ends": now, "hold_until": now}})
        await send(deliverer, here.inboxes(), 5, what="back")
        while (end := await asyncio.wait_for(told.get(), 20)).outcome is SettledOutcome.HOST_UNAVAILABLE:
            pass
        assert end.outcome is SettledOutcome.DELIVERED
        await send(deliverer, here.inboxes(), 3, what="well")
        await ended(14)


async def _quarantine(db: Any, now: datetime, *, until: datetime) -> None:
    breaker = {
        "rev": b"seeded",
        "open": True,
        "failures": 0,
        "step": 9,
        "to_go": 0,
        "until": until,
        "ends": until,
        "heard": False,
        "quiet_since": now - timedelta(days=40),
        "unavailable_at": now - timedelta(days=10),
    }
    await db.hosts.update_one({}, {"$set": {"breaker": breaker, "hold_until": until}})


async def test_a_probe_without_a_key_is_given_back_and_no_attempt_is_made(farm, deliverer_to, db, keys_dir, ended):
    leaver = "https://a.test/users/gone"
    FolderSenderKeys(keys_dir).generate(leaver)
    here = farm({"status:503": 1})
    deliverer = deliverer_to(here, config=config(breaker_first_s=0.3, breaker_threshold=3), breakers="shared")
    await send(deliverer, here.inboxes(), 5, what="leaver", sender=leaver)
    await send(deliverer, here.inboxes(), 5)
    for path in FolderSenderKeys(keys_dir).paths_of(leaver):
        path.unlink(missing_ok=True)
    async with running(deliverer):
        await until(lambda: is_open(db))
        here.client.behave("status:503", WORKS)
        await hurry(db)
        await ended(5)
    assert await db.jobs.count_documents({"sender": leaver, "state": "aside", "tries": 0}) == 5
    (host,) = [row async for row in db.hosts.find()]
    assert host.get("breaker", {}).get("open") is not True


async def test_a_store_that_raises_stops_nothing(farm, deliverer_to, db, ended, caplog):
    class Broken(MemoryBreakers):
        async def admit(self, keys, *, hold_s):
            raise RuntimeError("redis is away")

        async def record(self, results):
            raise RuntimeError("redis is away")

    here = farm({"accept": 2, "status:503": 1})
    deliverer = deliverer_to(here, config=config(), breakers=Broken())
    async with running(deliverer):
        await send(deliverer, here.inboxes(), 3)
        await ended(6)
        await until(lambda: _tried(db))
    assert "breakers could not be asked" in caplog.text


async def _tried(db: Any) -> bool:
    return await db.jobs.count_documents({"state": "queued", "tries": 1}) == 3
