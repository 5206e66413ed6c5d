# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, WriteConcernError

from ojak.model.job import Priority
from ojak.shard import shard_of
from ojak.store.database import QueueDatabase
from ojak.store.hosts import Due, lower_due
from ojak.store.now import NEVER

OLD, NEW, LATE = "old.test", "new.test", "late.test"


def dues(*names: str, delay_s: float = 0.0) -> list[Due]:
    return [Due(authority=name, priority=Priority.SMALL, delay_s=delay_s) for name in names]


async def asks(db: QueueDatabase) -> dict[str, int]:
    return {row["_id"]: row["asks"] async for row in db.hosts.find({})}


def instead(monkeypatch: pytest.MonkeyPatch, db: QueueDatabase, act: Callable[[], Any]) -> None:
    """Let something happen once at the statement that lowers what has records."""
    plain = type(db.hosts).update_many

    async def update_many(self: Any, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(type(db.hosts), "update_many", plain)
        result = await plain(self, *args, **kwargs)
        await act()
        return result

    monkeypatch.setattr(type(db.hosts), "update_many", update_many)


async def test_hosts_with_and_without_records_become_due_together(db: QueueDatabase):
    await lower_due(db, dues(OLD))
    before = await asks(db)
    await lower_due(db, dues(OLD, NEW, LATE))
    assert (await asks(db))[OLD] == before[OLD] + 1
    rows = await db.hosts.find({"_id": {"$in": [NEW, LATE]}}).to_list()
    assert {(row["_id"], row["shard"], row["quick"]) for row in rows} == {
        (NEW, shard_of(NEW), False),
        (LATE, shard_of(LATE), False),
    }
    assert all(row["due"]["0"] < NEVER <= row["due"]["1"] and row["ready"]["0"] == row["due"]["0"] for row in rows)


async def test_what_is_due_later_does_not_put_off_what_is_due_earlier(db: QueueDatabase):
    await lower_due(db, dues(OLD, NEW))
    early = {row["_id"]: row["due"]["0"] async for row in db.hosts.find({})}
    await lower_due(db, dues(OLD, NEW, delay_s=3600.0))
    assert {row["_id"]: row["due"]["0"] async for row in db.hosts.find({})} == early


async def test_a_record_that_is_made_between_the_statements_is_lowered_too(monkeypatch, db: QueueDatabase):
    """A host that is found to have a record was not there when those with records were lowered."""
    await lower_due(db, dues(OLD))
    made: dict[str, int] = {}

    async def make() -> None:
        await lower_due(db, dues(LATE))
        made.update(await asks(db))

    instead(monkeypatch, db, make)
    await lower_due(db, dues(OLD, NEW, LATE))
    assert (await asks(db))[LATE] > made[LATE]


@pytest.mark.parametrize("says", [AutoReconnect("not primary"), WriteConcernError("stepped down", 189)])
async def test_a_change_of_the_primary_in_between_is_made_up_for(monkeypatch, db: QueueDatabase, says: Exception):
    await lower_due(db, dues(OLD))
    before = await asks(db)

    async def step_down() -> None:
        raise says

    instead(monkeypatch, db, step_down)
    await lower_due(db, dues(OLD, NEW))
    after = await asks(db)
    assert after[OLD] > before[OLD]
    assert NEW in after


async def test_a_record_that_somebody_made_by_hand_is_mended(db: QueueDatabase):
    await db.hosts.insert_one({"_id": OLD})
    await lower_due(db, dues(OLD, NEW))
    row = await db.hosts.find_one({"_id": OLD})
    assert row is not None
    assert row["shard"] == shard_of(OLD)
    assert isinstance(row["asks"], int)


async def test_retries_each_at_a_time_of_its_own_go_in_one_statement(monkeypatch, db: QueueDatabase):
    """A hundred dead servers, and the ends of what was delivered wait behind their retries."""
    plain, calls = type(db.hosts).bulk_write, 0

    async def bulk_write(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        return await plain(self, *args, **kwargs)

    monkeypatch.setattr(type(db.hosts), "bulk_write", bulk_write)
    later = [Due(authority=f"h{number}.test", priority=Priority.SMALL, delay_s=60 + number) for number in range(100)]
    await lower_due(db, later)
    assert (calls, await db.hosts.count_documents({})) == (1, 100)


async def test_known_hosts_of_a_fan_out_cost_one_statement(monkeypatch, db: QueueDatabase):
    names = [f"h{number}.test" for number in range(500)]
    await lower_due(db, dues(*names))
    before = await asks(db)

    async def no_bulk(*_: Any, **__: Any) -> None:
        raise AssertionError("each for itself")

    monkeypatch.setattr(type(db.hosts), "bulk_write", no_bulk)
    await lower_due(db, dues(*names))
    assert await asks(db) == {name: count + 1 for name, count in before.items()}
