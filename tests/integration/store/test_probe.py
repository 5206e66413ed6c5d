# SPDX-License-Identifier: Apache-2.0
"""A probe takes the oldest job whatever its time, once, and nothing else of its host (rule F)."""

import asyncio
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from ojak.breaker.admission import Admission, Probe, Verdict
from ojak.breaker.circuit import Signal
from ojak.breaker.rules import CircuitBreaker
from ojak.breaker.store import BreakerResult
from ojak.model.hold import Hold, HoldKind
from ojak.model.job import Priority
from ojak.shard import SHARDS
from ojak.store.aside import let_go_all
from ojak.store.breakers import MongoBreakers
from ojak.store.claim import ClaimedHost, ReadyHost, claim, ready_hosts
from ojak.store.database import QueueDatabase
from ojak.store.holds import put_holds
from ojak.store.hosts import Due, HostNews, lower_due, write_news
from ojak.store.met import Behind
from ojak.store.now import NEVER, Now
from ojak.store.renew import Renewals
from ojak.store.shards import bury_owner, owned, take

HOST = "h.test"
START = datetime(2026, 11, 30, 12, tzinfo=UTC)
LEASE_S = 120.0
RULES = CircuitBreaker()
DAY_S = 86_400.0


class World:
    """A worker that owns every shard, over a clock that stands still."""

    def __init__(self, db: QueueDatabase, put: Any) -> None:
        self.db = QueueDatabase(db.client, db.name, now=Now(START))
        self.put = put
        self.owner = secrets.token_bytes(16)
        self.breakers = MongoBreakers(self.db, RULES, holder=self.owner)
        self.epochs: dict[int, int] = {}

    async def own(self) -> None:
        await take(self.db, self.owner, count=SHARDS, lease_s=1e9)
        self.epochs = await owned(self.db, self.owner)

    def turn(self, seconds: float) -> None:
        assert self.db.now.literal is not None
        self.db.now.turn(self.db.now.literal + timedelta(seconds=seconds))

    async def fail(self, times: int = 10) -> None:
        await self.breakers.record([BreakerResult(key=HOST, signal=Signal.FAILURE)] * times)

    async def ready(self, priority: Priority = Priority.FANOUT) -> list[ReadyHost]:
        return await ready_hosts(self.db, shards=range(SHARDS), priority=priority, busy=[], quick=100, others=100)

    async def ask(self) -> Admission:
        return (await self.breakers.admit([HOST], hold_s=LEASE_S))[0]

    async def probe(self) -> Probe:
        answer = await self.ask()
        assert answer.probe is not None
        return answer.probe

    async def claim(
        self,
        hosts: list[ReadyHost],
        *,
        priority: Priority = Priority.FANOUT,
        max_age_s: float = 7 * DAY_S,
        behind: Behind | None = None,
    ) -> list[ClaimedHost]:
        return await claim(
            self.db,
            hosts,
            owner=self.owner,
            stamp=secrets.token_bytes(16),
            epochs=self.epochs,
            priority=priority,
            share=lambda _, foreign: max(0, 2 - foreign),
            lease_s=LEASE_S,
            max_age_s=max_age_s,
            probed=[host.authority for host in hosts],
            behind=behind,
        )

    async def host(self) -> dict[str, Any]:
        row = await self.db.hosts.find_one({"_id": HOST})
        assert row is not None
        return row

    async def age(self, inbox: str, **fields: Any) -> None:
        result = await self.db.jobs.update_one({"inbox": f"https://{HOST}/{inbox}"}, {"$set": fields})
        assert result.matched_count == 1


@pytest.fixture
async def world(db: QueueDatabase, put: Any) -> World:
    made = World(db, put)
    await made.own()
    # Rows are queued by the database's own clock: everything starts where that stands.
    made.db.now.turn(await db.server_clock())
    return made


def paths(claimed: list[ClaimedHost]) -> list[str]:
    return [job.inbox.rpartition("/")[2] for item in claimed for job in item.jobs]


async def test_an_open_host_is_ready_at_the_end_of_its_quarantine_though_nothing_is_due(world: World):
    await world.put([f"https://{HOST}/a", f"https://{HOST}/b"])
    now = world.db.now.literal
    assert now is not None
    await world.db.jobs.update_many({}, {"$set": {"run_at": now + timedelta(days=2)}})
    await world.db.hosts.update_one({}, {"$set": {"due.1": now + timedelta(days=2)}})
    await world.fail()
    world.turn(3599)
    assert await world.ready() == []
    world.turn(1)
    (host,) = await world.ready()
    assert (host.is_open, host.troubled, host.recovering) == (True, True, False)
    assert await world.ready(Priority.SMALL) == [], "nothing waits in that line"
    await world.probe()
    assert await world.ready() == []


async def test_the_oldest_of_both_lines_is_leased_and_nothing_else(world: World):
    await world.put([f"https://{HOST}/{name}" for name in "abc"])
    await world.put([f"https://{HOST}/small"], activity_id="https://a.test/2", priority=Priority.SMALL)
    now = world.db.now.literal
    assert now is not None
    for days, name in ((3, "a"), (1, "b"), (2, "c"), (0.5, "small")):
        await world.age(name, run_at=now + timedelta(days=days))
    await world.fail()
    world.turn(3600)
    hosts = await world.ready()
    await world.probe()
    claimed = await world.claim(hosts)
    assert paths(claimed) == ["small"]
    assert claimed[0].probe == claimed[0].jobs[0].id
    assert await world.db.jobs.count_documents({"state": "leased"}) == 1


async def test_what_waits_for_a_key_is_set_aside_and_what_is_too_old_comes_along(world: World):
    await world.put([f"https://{HOST}/{name}" for name in ("keyless", "old", "good", "late")])
    now = world.db.now.literal
    assert now is not None
    hold = Hold(kind=HoldKind.KEY, of="https://a.test/keyless", reason="key-missing", for_s=300)
    await put_holds(world.db, [hold])
    await world.age("keyless", sender=hold.of)
    await world.age("old", run_at=now, queued_at=now - timedelta(days=8))
    await world.age("good", run_at=now + timedelta(hours=5))
    await world.age("late", run_at=now + timedelta(hours=6))
    await world.fail()
    world.turn(3600)
    hosts = await world.ready()
    probe = await world.probe()
    claimed = await world.claim(hosts, behind=lambda sender, *_: hold.id if sender == hold.of else None)
    assert paths(claimed) == ["old", "good"]
    assert await world.db.jobs.count_documents({"state": "aside", "behind": hold.id}) == 1
    assert [job.too_old for item in claimed for job in item.jobs] == [True, False]
    assert claimed[0].probe == claimed[0].jobs[1].id
    await world.breakers.give_back([probe], after_s=0)
    await let_go_all(world.db, hold.id)
    world.turn(1)
    hosts = await world.ready()
    await world.probe()
    assert paths(await world.claim(hosts)) == ["keyless"], "its key is back"


async def test_of_two_claimers_at_once_one_gets_the_probe_and_its_host_is_hidden_from_everybody(world: World):
    await world.put([f"https://{HOST}/a"])
    await world.put([f"https://{HOST}/b"], activity_id="https://a.test/2", priority=Priority.SMALL)
    await world.fail()
    world.turn(3600)
    answers = await asyncio.gather(*(world.ask() for _ in range(5)))
    assert [answer.verdict for answer in answers].count(Verdict.PROBE) == 1
    # A send meanwhile lowers `due`, and changes nothing.
    await world.put([f"https://{HOST}/c"], activity_id="https://a.test/3")
    assert await world.ready() == await world.ready(Priority.SMALL) == []
    world.turn(LEASE_S)
    assert [host.authority for host in await world.ready()] == [HOST], "a holder that died is over with its lease"


async def test_the_obituary_of_its_holder_frees_a_probe_at_once(world: World):
    await world.put([f"https://{HOST}/a"])
    await world.fail()
    world.turn(3600)
    await world.probe()
    await bury_owner(world.db, world.owner, begun=0, lease_s=LEASE_S)
    assert [host.authority for host in await world.ready()] == [HOST]
    assert "probe" not in (await world.host())["breaker"]


async def test_the_thread_that_renews_leases_renews_probes(world: World):
    await world.put([f"https://{HOST}/a"])
    await world.fail()
    world.turn(3600)
    probe = await world.probe()
    renewals = Renewals(world.db)
    try:
        world.turn(100)
        scope = world.breakers.scope
        held = await asyncio.to_thread(renewals.renew_probes, [probe], hold_s=LEASE_S, scope=scope)
        assert held == {HOST}
        world.turn(100)
        assert (await world.ask()).hold_s == pytest.approx(20)
        world.turn(20)
        await world.probe()
        assert await asyncio.to_thread(renewals.renew_probes, [probe], hold_s=LEASE_S, scope=scope) == set()
    finally:
        renewals.close()


async def test_a_probe_that_finds_no_job_leaves_the_host_idle_and_to_expire(world: World):
    await world.put([f"https://{HOST}/a"])
    await world.fail()
    await world.db.jobs.delete_many({})
    world.turn(3600)
    hosts = await world.ready()
    probe = await world.probe()
    assert await world.claim(hosts) == []
    await world.breakers.give_back([probe], after_s=0)
    host = await world.host()
    assert host["ready"] == {"0": NEVER, "1": NEVER}
    assert (host["expire_at"] - world.db.now.literal).days == 30
    assert host["breaker"]["open"] is True
    await world.put([f"https://{HOST}/b"], activity_id="https://a.test/2")
    assert [item.authority for item in await world.ready()] == [HOST], "the next send is the probe"
    assert "expire_at" not in await world.host()


async def test_a_gate_holds_a_probe_too_and_a_sign_of_life_does_not_open_it(world: World):
    await world.put([f"https://{HOST}/a"])
    await write_news(world.db, [HostNews(authority=HOST, proven=False, quick=False, answer_ms=None, hold_s=7200)])
    await world.fail()
    assert await world.breakers.heard_from(HOST)
    assert await world.ready() == []
    assert (await world.ask()).verdict is Verdict.HOLD
    world.turn(7199)
    assert await world.ready() == []
    world.turn(1)
    assert [host.authority for host in await world.ready()] == [HOST]
    await world.probe()


async def test_an_operator_may_ask_for_a_probe_as_often_as_wished_or_forget_the_breaker(world: World):
    await world.put([f"https://{HOST}/a"])
    assert not await world.breakers.probe_now(HOST)
    await world.fail()
    for _ in range(3):
        assert await world.breakers.probe_now(HOST)
        probe = await world.probe()
        await world.breakers.record([BreakerResult(key=HOST, signal=Signal.FAILURE, probe=probe)])
        assert (await world.host())["breaker"]["step"] == 1
    assert await world.breakers.reset(HOST)
    assert not await world.breakers.reset(HOST)
    world.turn(5)
    assert [host.troubled for host in await world.ready()] == [False]


async def test_an_unavailable_host_is_ready_for_what_waits_though_it_is_held(world: World):
    await world.put([f"https://{HOST}/a"])
    await world.fail()
    circuit = RULES
    while (await world.host())["breaker"].get("unavailable_at", NEVER) > world.db.now.literal:
        world.turn((await world.ask()).hold_s)
        await world.breakers.record([BreakerResult(key=HOST, signal=Signal.FAILURE, probe=await world.probe())])
        host = await world.host()
        if "unavailable_at" in host["breaker"]:
            assert host["breaker"]["unavailable_at"] - host["breaker"]["quiet_since"] == timedelta(
                seconds=circuit.unavailable_after_s
            )
    (ready,) = await world.ready()
    assert ready.is_open
    answer = await world.ask()
    assert (answer.verdict, answer.unavailable) == (Verdict.HOLD, True)


class Lossy:
    """The records of hosts, over a connection that breaks once a write was applied, or before."""

    def __init__(self, rows: Any, *, applied: bool, at: int = 1) -> None:
        self._rows = rows
        self._applied = applied
        self._at = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    async def bulk_write(self, *args: Any, **options: Any) -> Any:
        self._at -= 1
        if self._at == 0 and not self._applied:
            raise AutoReconnect("connection closed")
        answer = await self._rows.bulk_write(*args, **options)
        if self._at == 0:
            raise AutoReconnect("connection closed")
        return answer


@pytest.mark.parametrize("applied", [True, False])
async def test_results_whose_record_was_made_and_not_heard_of_count_once(world: World, monkeypatch, applied: bool):
    await lower_due(world.db, [Due(authority=HOST, priority=Priority.FANOUT)])
    monkeypatch.setattr(world.breakers, "_rows", Lossy(world.db.hosts, applied=applied))
    results = [BreakerResult(key=HOST, signal=Signal.FAILURE) for _ in range(3)]
    with pytest.raises(AutoReconnect):
        await world.breakers.record(results)
    later = BreakerResult(key=HOST, signal=Signal.FAILURE)
    await world.breakers.record([*results, later])
    assert (await world.host())["breaker"]["failures"] == 4
    await world.breakers.record([later])
    assert (await world.host())["breaker"]["failures"] == 5, "what comes after that is news"


async def test_what_was_recorded_before_another_of_the_same_call_was_cut_off_counts_once(world: World, monkeypatch):
    """Somebody else wrote one of two hosts meanwhile; the second try for it is cut off."""
    other = "g.test"
    await lower_due(world.db, [Due(authority=name, priority=Priority.FANOUT) for name in (HOST, other)])
    rows = Lossy(world.db.hosts, applied=True, at=2)
    monkeypatch.setattr(world.breakers, "_rows", rows)
    apply = world.breakers._apply

    async def meanwhile(writes: Any) -> list[str]:
        monkeypatch.setattr(world.breakers, "_apply", apply)
        await MongoBreakers(world.db, RULES).record([BreakerResult(key=other, signal=Signal.FAILURE)])
        return await apply(writes)

    monkeypatch.setattr(world.breakers, "_apply", meanwhile)
    results = [BreakerResult(key=key, signal=Signal.FAILURE) for key in (HOST, other)]
    with pytest.raises(AutoReconnect):
        await world.breakers.record(results)
    await world.breakers.record(results)
    assert (await world.host())["breaker"]["failures"] == 1
    row = await world.db.hosts.find_one({"_id": other})
    assert row is not None
    assert row["breaker"]["failures"] == 2
