# SPDX-License-Identifier: Apache-2.0
"""What an operator sets for a host: it is in the host's record before anything is sent, and never expires."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ojak.breaker.admission import Verdict
from ojak.breaker.circuit import Signal
from ojak.breaker.rules import CircuitBreaker
from ojak.breaker.store import BreakerResult
from ojak.model.explanation import WaitsFor
from ojak.model.host import ContentForm, HostFilter, HostSort, HostState, UnknownHost
from ojak.model.job import Priority
from ojak.shard import SHARDS
from ojak.store import host_settings
from ojak.store.breakers import MongoBreakers
from ojak.store.claim import ReadyHost, ready_hosts
from ojak.store.database import QueueDatabase
from ojak.store.explain import list_deliveries
from ojak.store.host_settings import (
    copy_settings,
    mend_settings,
    pause_host,
    resume_host,
    set_for_host,
    settings_of,
)
from ojak.store.host_views import host_record, list_hosts, pauses
from ojak.store.hosts import Due, lower_due
from ojak.store.notices import pause_everything, resume_everything

from .claiming import Hand

HOST = "h.test"
INBOXES = ["https://h.test/a", "https://h.test/b", "https://g.test/a"]


@pytest.fixture
async def clock(db: QueueDatabase) -> Callable[[float], None]:
    """Turn the database's clock."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    db.now.turn(now)

    def turn(seconds: float) -> None:
        nonlocal now
        now += timedelta(seconds=seconds)
        db.now.turn(now)

    return turn


async def ready(db: QueueDatabase) -> dict[str, ReadyHost]:
    found: dict[str, ReadyHost] = {}
    for priority in Priority:
        hosts = await ready_hosts(db, shards=range(SHARDS), priority=priority, busy=[], quick=100, others=100)
        found |= {host.authority: host for host in hosts}
    return found


async def test_a_paused_host_is_not_ready_whoever_makes_it_due_and_is_when_it_is_resumed(db, put):
    await put(INBOXES)
    await pause_host(db, HOST, by="ann", for_s=None)
    await put(INBOXES, activity_id="https://a.test/2", priority=Priority.SMALL)
    await lower_due(db, [Due(authority=HOST, priority=Priority.FANOUT)])
    assert set(await ready(db)) == {"g.test"}
    assert await resume_host(db, HOST)
    assert set(await ready(db)) == {"g.test", HOST}
    assert not await resume_host(db, HOST)
    assert await db.host_settings.count_documents({}) == 0


async def test_a_host_that_nobody_sent_to_is_paused_too(db, put):
    await pause_host(db, HOST, by="ann", for_s=None)
    await put(INBOXES)
    assert set(await ready(db)) == {"g.test"}


async def test_a_timed_pause_ends_by_itself_and_keeps_its_beginning_when_it_is_made_longer(db, put, clock):
    await put(INBOXES)
    await pause_host(db, HOST, by="ann", for_s=60)
    clock(30)
    await pause_host(db, HOST, by="bob", for_s=60)
    (pause,) = await pauses(db)
    assert (pause.host, pause.by, pause.waiting) == (HOST, "bob", 2)
    assert pause.until is not None
    assert (pause.until - pause.since).total_seconds() == 90
    clock(59)
    assert HOST not in await ready(db)
    clock(1)
    assert HOST in await ready(db)
    assert await pauses(db) == []
    assert (await host_record(db, HOST)).state is HostState.DUE
    assert await mend_settings(db) == 0
    assert await db.host_settings.count_documents({}) == 0
    assert await db.hosts.count_documents({"settings": {"$exists": True}}) == 0
    clock(-1000)
    assert HOST not in (await ready(db)), "as due as it was"


async def test_what_is_paused_is_not_given_up_on_and_its_probe_cannot_be_had(db, put, clock):
    await put(INBOXES[:1])
    breakers = MongoBreakers(db, CircuitBreaker(threshold=1, first_s=10, longest_s=10, unavailable_after_s=20))
    await breakers.record([BreakerResult(key=HOST, signal=Signal.FAILURE)])
    await pause_host(db, HOST, by="ann", for_s=None)
    clock(100)
    assert await ready(db) == {}
    assert not await breakers.probe_now(HOST)
    (answer,) = await breakers.admit([HOST], hold_s=60)
    assert answer.verdict is Verdict.HOLD
    await resume_host(db, HOST)
    assert (await ready(db))[HOST].is_open
    (answer,) = await breakers.admit([HOST], hold_s=60)
    assert answer.verdict is Verdict.PROBE


async def test_a_record_with_settings_never_expires_and_one_without_does_when_it_is_idle(db, put):
    await set_for_host(db, HOST, scheme="rfc9421", per_host=6, form=ContentForm.LD_JSON.value)
    hand = Hand(db)
    await put(INBOXES[:1])
    (host,) = (await ready(db)).values()
    assert (host.overrides.scheme, host.overrides.per_host, host.overrides.form) == ("rfc9421", 6, ContentForm.LD_JSON)
    await hand.end(*await hand.claim())
    await db.hosts.update_one({}, [{"$set": {"due.1": "$$NOW"}}, {"$set": {"ready.1": "$$NOW"}}])
    assert await hand.claim() == []
    row = await db.hosts.find_one({"_id": HOST})
    assert row is not None
    assert "expire_at" not in row
    await set_for_host(db, HOST, scheme=None, per_host=None, form=None)
    row = await db.hosts.find_one({"_id": HOST})
    assert row is not None
    assert "expire_at" in row
    assert "settings" not in row
    # It expires, comes back with a send, and is set again by what an operator sets.
    await db.hosts.delete_one({"_id": HOST})
    await set_for_host(db, HOST, per_host=3)
    assert (await host_record(db, HOST)).overrides.per_host == 3


async def test_of_two_copies_under_way_the_later_setting_stays(db, monkeypatch):
    """The first operator's process stops between its row and the record; the second one's goes through."""
    copy = host_settings._copying

    async def second() -> None:
        monkeypatch.setattr(host_settings, "_copying", copy)
        await set_for_host(db, HOST, per_host=4)

    waiting: list[Any] = []

    def held_up(database: QueueDatabase, row: Any) -> Any:
        waiting.append(copy(database, row))
        return waiting[-1]

    monkeypatch.setattr(host_settings, "_copying", held_up)
    await set_for_host(db, HOST, per_host=3)
    await second()
    await db.hosts.bulk_write([waiting[0]])
    assert (await host_record(db, HOST)).overrides.per_host == 4
    await set_for_host(db, HOST, per_host=None)
    await db.hosts.bulk_write([waiting[0]])
    assert (await host_record(db, HOST)).overrides.per_host is None, "also after it was taken away"


async def test_whoever_dies_between_a_setting_and_its_copy_is_mended(db, put, monkeypatch):
    async def dies(*_: object) -> None:
        raise KeyboardInterrupt

    await put(INBOXES)
    monkeypatch.setattr(host_settings, "copy_settings", dies)
    with pytest.raises(KeyboardInterrupt):
        await pause_host(db, HOST, by="ann", for_s=None)
    monkeypatch.setattr(host_settings, "copy_settings", copy_settings)
    assert HOST in await ready(db)
    assert await mend_settings(db) == 1
    assert HOST not in await ready(db)
    assert await mend_settings(db) == 0
    # Somebody dropped the records: with the next look they are back.
    await db.hosts.delete_many({})
    assert await mend_settings(db) == 1
    assert (await settings_of(db, [HOST]))[HOST].paused


async def test_what_a_record_says_is_shown_in_words(db, put, clock):
    await put(INBOXES)
    await put(["https://i.test/in"], priority=Priority.SMALL)
    breakers = MongoBreakers(db, CircuitBreaker(threshold=1, first_s=100))
    await breakers.record([BreakerResult(key="g.test", signal=Signal.FAILURE)])
    await pause_host(db, HOST, by="ann", for_s=60)
    await set_for_host(db, "set.test", per_host=1)
    everyone = await list_hosts(db, None, sort=HostSort.NAME, limit=10)
    assert {host.authority: (host.state, host.total_waiting, host.waiting_small) for host in everyone} == {
        "g.test": (HostState.QUARANTINED, 1, 0),
        HOST: (HostState.PAUSED, 2, 0),
        "i.test": (HostState.DUE, 1, 1),
        "set.test": (HostState.IDLE, 0, 0),
    }
    for which, expected in {
        HostFilter.HELD: {"g.test", HOST},
        HostFilter.OPEN: {"g.test"},
        HostFilter.PAUSED: {HOST},
        HostFilter.FAILING: set(),
        HostFilter.SET: {HOST, "set.test"},
    }.items():
        found = await list_hosts(db, which, sort=HostSort.HELD, limit=10)
        assert {host.authority for host in found} == expected
    assert [host.authority for host in await list_hosts(db, None, sort=HostSort.NAME, limit=2)] == ["g.test", HOST]
    quarantined = await host_record(db, "g.test")
    assert quarantined.breaker is not None
    assert (quarantined.breaker.state, quarantined.breaker.quarantine) == ("open", 1)
    assert quarantined.held_until == quarantined.breaker.until
    await breakers.admit(["g.test"], hold_s=60)
    clock(200)
    await breakers.admit(["g.test"], hold_s=60)
    assert (await host_record(db, "g.test")).state is HostState.PROBING
    assert (await host_record(db, HOST)).state is HostState.DUE
    with pytest.raises(UnknownHost, match=r"unknown\.test"):
        await host_record(db, "unknown.test")


async def test_the_pause_of_everything_is_shown_with_what_waits(db, put):
    await put(INBOXES)
    await pause_everything(db, by="ann", for_s=None)
    await pause_host(db, HOST, by="bob", for_s=None)
    assert [(pause.host, pause.by, pause.until, pause.waiting) for pause in await pauses(db)] == [
        (None, "ann", None, 3),
        (HOST, "bob", None, 2),
    ]
    assert await resume_everything(db)
    assert not await resume_everything(db)
    assert [pause.host for pause in await pauses(db)] == [HOST]


async def test_r56_what_waits_for_a_pause_says_so(db, put):
    await put(INBOXES)
    await pause_host(db, HOST, by="ann", for_s=None)
    waits = {
        one.inbox: (one.waits_for, one.next_try) for one in await list_deliveries(db, None, states=["queued"], limit=9)
    }
    assert waits[INBOXES[0]] == (WaitsFor.PAUSE, None)
    assert waits[INBOXES[2]][0] is WaitsFor.TURN
    await resume_host(db, HOST)
    await pause_everything(db, by="ann", for_s=60)
    for one in await list_deliveries(db, None, states=["queued"], limit=9):
        assert one.waits_for is WaitsFor.PAUSE
        assert one.next_try is not None
