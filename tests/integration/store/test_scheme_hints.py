# SPDX-License-Identifier: Apache-2.0
"""What a host shows of itself is remembered, and does not fill the store."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ojak.clock import ManualClock
from ojak.store import scheme_hints
from ojak.store.database import QueueDatabase
from ojak.store.host_views import host_record
from ojak.store.hosts import HostNews, write_news
from ojak.store.scheme_hints import SchemeHints

HOST = "h.test"
KEPT_S = 1000.0
START = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    def __init__(self, db: QueueDatabase) -> None:
        self.db = db
        self.clock = ManualClock()
        self.hints = SchemeHints(db, self.clock, kept_s=KEPT_S)
        self.turn(0)

    def turn(self, seconds: float) -> None:
        self.clock.turn(seconds)
        self.db.now.turn(START + timedelta(seconds=self.clock.boot_s()))

    async def scheme(self) -> str | None:
        return (await host_record(self.db, HOST)).scheme

    async def pair(self, scheme: str) -> None:
        news = HostNews(
            authority=HOST, proven=True, quick=True, answer_ms=1, scheme=scheme, scheme_kept_s=KEPT_S, scheme_firm_s=100
        )
        await write_news(self.db, [news])

    async def row(self) -> Any:
        return await self.db.hosts.find_one({"_id": HOST})


@pytest.fixture
def world(db: QueueDatabase) -> World:
    return World(db)


async def test_a_hint_counts_until_its_time_is_over_and_makes_a_record_that_expires(world: World):
    await world.hints.take(HOST, "rfc9421")
    assert await world.scheme() == "rfc9421"
    row = await world.row()
    assert row["expire_at"] > START
    assert row["due"]["0"].year == 9999
    world.turn(KEPT_S + 1)
    assert await world.scheme() is None


async def test_a_hint_does_not_change_what_a_pair_showed_within_its_time_and_does_afterwards(world: World):
    await world.hints.take(HOST, "rfc9421")
    await world.pair("cavage")
    await SchemeHints(world.db, world.clock, kept_s=KEPT_S).take(HOST, "rfc9421")
    assert await world.scheme() == "cavage"
    world.turn(101)
    await SchemeHints(world.db, world.clock, kept_s=KEPT_S).take(HOST, "rfc9421")
    assert await world.scheme() == "rfc9421"


async def test_what_was_told_is_not_written_again_within_an_hour_nor_what_is_remembered_for_long(world: World):
    await world.hints.take(HOST, "rfc9421")
    written = await world.row()
    await world.db.hosts.update_one({"_id": HOST}, {"$unset": {"scheme": ""}})
    await world.hints.take(HOST, "rfc9421")
    assert await world.scheme() is None, "asked for nothing"
    world.turn(3601)
    await world.hints.take(HOST, "rfc9421")
    assert await world.scheme() == "rfc9421"
    assert (await world.row())["scheme"]["until"] > written["scheme"]["until"]
    again = SchemeHints(world.db, world.clock, kept_s=KEPT_S)
    stands = await world.row()
    world.turn(10)
    await again.take(HOST, "rfc9421")
    assert await world.row() == stands


async def test_where_there_are_many_hosts_a_hint_makes_no_record(world: World, monkeypatch):
    monkeypatch.setattr(scheme_hints, "_RECORDS_MAX", 0)
    await world.hints.take(HOST, "rfc9421")
    assert await world.row() is None


async def test_what_is_remembered_of_telling_is_bounded(world: World, monkeypatch):
    monkeypatch.setattr(scheme_hints, "_TOLD", 3)
    for number in range(10):
        await world.hints.take(f"h{number}.test", "rfc9421")
    assert len(world.hints._told) == 3
