# SPDX-License-Identifier: Apache-2.0
"""Claims of other kinds, with another process between any two of their steps."""

import asyncio
import dataclasses
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.errors import AutoReconnect
from tests.integration.jobs.conftest import SHORT, Make, running
from tests.waiting import until

from ojak import HandledJob, Handler
from ojak.model.kind_job import KindJob
from ojak.store import kind_claim
from ojak.store.database import QueueDatabase
from ojak.store.kind_claim import claim_jobs, undo_kind_claim
from ojak.store.kind_lanes import take_lanes
from ojak.store.now import NEVER
from ojak.store.reap import bury
from ojak.store.shards import bury_owner
from ojak.store.sweep import mend_dues

LEASE_S = 120.0


async def claim(db: QueueDatabase, count: int = 100, *, owner: bytes = b"o" * 16) -> list[KindJob]:
    stamp = secrets.token_bytes(16)
    jobs = (await claim_jobs(db, {"archive": count}, owner=owner, stamp=stamp, lease_s=LEASE_S)).jobs
    return list(jobs)


async def dues(db: QueueDatabase) -> list[datetime]:
    return [min(row["due"].values()) async for row in db.lanes.find({})]


def between(monkeypatch: pytest.MonkeyPatch, step: str, act: Callable[[], Awaitable[Any]]) -> None:
    """Have something else happen right before a step of the next claim."""
    original = getattr(kind_claim, step)

    async def with_another(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(kind_claim, step, original)
        await act()
        return await original(*args, **kwargs)

    monkeypatch.setattr(kind_claim, step, with_another)


STEPS = ["take_lanes", "leased_in", "_read_heads", "_lease", "_show"]


@pytest.mark.parametrize("step", STEPS)
async def test_a_job_that_is_queued_in_the_middle_of_a_claim_is_due_after_it(
    make: Make, db: QueueDatabase, monkeypatch, step: str
):
    deliverer = make()
    await deliverer.enqueue("archive", {}, order_key="one lane")
    await db.jobs.update_many({}, {"$unset": {"order": 1}})

    async def enqueue() -> None:
        await deliverer.enqueue("archive", {}, order_key="one lane")

    between(monkeypatch, step, enqueue)
    first = await claim(db)
    # Whether the claim saw it or not: it is leased by now, or found by the next one.
    second = await claim(db)
    assert len({job.id for job in (*first, *second)}) == 2


@pytest.mark.parametrize("step", STEPS)
async def test_two_claims_of_one_lane_lease_each_job_once(make: Make, db: QueueDatabase, monkeypatch, step: str):
    deliverer = make()
    for _ in range(6):
        await deliverer.enqueue("archive", {})
    await db.jobs.update_many({}, {"$set": {"lane": "archive#00"}})
    other: list[KindJob] = []

    async def claim_beside() -> None:
        # As if the first were slower than a lease: the lanes are not hidden any more.
        now = datetime(2020, 1, 1, tzinfo=UTC)
        lane = {"due": {"0": NEVER, "1": now}, "asks": 1}
        await db.lanes.update_one({"_id": "archive#00"}, {"$set": lane}, upsert=True)
        other.extend(await claim(db, 4, owner=b"p" * 16))

    now = datetime(2020, 1, 1, tzinfo=UTC)
    await db.lanes.delete_many({})
    await db.lanes.insert_one({"_id": "archive#00", "due": {"0": NEVER, "1": now}, "asks": 1})
    between(monkeypatch, step, claim_beside)
    first = await claim(db, 4)
    assert len(first) + len(other) == len({job.id for job in (*first, *other)})
    assert {row["leases"] async for row in db.jobs.find({"state": "leased"})} == {1}
    # And whatever is left is due, or will be when a lease ends.
    latest = datetime.now(UTC) + timedelta(seconds=LEASE_S + 1)
    assert all(due < latest for due in await dues(db))
    rest = await claim(db, 10)
    if await db.jobs.count_documents({"state": "queued"}):
        await db.lanes.update_many({}, {"$set": {"due.1": now}})
        rest += await claim(db, 10)
    assert len({job.id for job in (*first, *other, *rest)}) == 6


@pytest.mark.parametrize("step", ["take_lanes", "_read_heads", "_lease", "_show"])
async def test_a_database_that_goes_away_in_the_middle_of_a_claim_costs_no_lease(
    make: Make, db: QueueDatabase, monkeypatch, step: str
):
    original = getattr(kind_claim, step)
    failed = asyncio.Event()

    async def applied_and_lost(*args: Any, **kwargs: Any) -> Any:
        answer = await original(*args, **kwargs)
        if not failed.is_set():
            failed.set()
            raise AutoReconnect("connection closed")
        return answer

    monkeypatch.setattr(kind_claim, step, applied_and_lost)
    ran: list[str] = []

    async def archive(job: HandledJob) -> None:
        ran.append(job.id)

    from ojak import DelivererConfig

    # Leases of two minutes: only what is undone runs within this test.
    deliverer = make(Handler(kind="archive", call=archive), config=DelivererConfig(poll_every_s=0.1))
    queued = [(await deliverer.enqueue("archive", {})).id for _ in range(5)]
    async with running(deliverer):

        async def all_ran() -> bool:
            return len(ran) >= 5

        await until(all_ran)
    assert failed.is_set()
    assert sorted(ran) == sorted(queued)


async def test_what_a_dead_worker_had_taken_is_due_again_with_its_obituary(make: Make, db: QueueDatabase):
    deliverer = make()
    for _ in range(5):
        await deliverer.enqueue("archive", {})
    lanes = [row["_id"] async for row in db.lanes.find({})]
    await take_lanes(db, lanes, owner=b"dead" * 4, stamp=b"s" * 16, lease_s=LEASE_S)
    assert await claim(db) == []
    await bury_owner(db, b"dead" * 4, begun=0, lease_s=LEASE_S)
    assert len(await claim(db)) == 5


async def test_a_claim_that_is_undone_leaves_everything_as_it_was(make: Make, db: QueueDatabase):
    deliverer = make()
    for _ in range(3):
        await deliverer.enqueue("archive", {})
    stamp = b"s" * 16
    assert len((await claim_jobs(db, {"archive": 9}, owner=b"o" * 16, stamp=stamp, lease_s=LEASE_S)).jobs) == 3
    assert await undo_kind_claim(db, ["archive"], stamp=stamp, lease_s=LEASE_S) == 3
    assert await db.jobs.count_documents({"state": "queued", "tries": 0, "deaths": 0}) == 3
    assert len(await claim(db)) == 3


async def test_only_what_had_begun_counts_as_a_death(make: Make, db: QueueDatabase):
    deliverer = make()
    for _ in range(4):
        await deliverer.enqueue("archive", {})
    jobs = await claim(db, owner=b"dead" * 4)
    assert await bury(db, b"dead" * 4, [jobs[0].id], max_deaths=5) == 4
    deaths = {row["_id"]: row["deaths"] async for row in db.jobs.find({})}
    assert deaths == {job.id: int(job is jobs[0]) for job in jobs}
    assert len(await claim(db)) == 4


async def test_the_sweep_mends_a_lane_that_is_not_due_though_it_has_work(make: Make, db: QueueDatabase):
    deliverer = make()
    await deliverer.enqueue("archive", {})
    assert await mend_dues(db, lease_s=LEASE_S) == 0
    # Whoever queued it died before he had said so.
    await db.lanes.delete_many({})
    assert await mend_dues(db, lease_s=LEASE_S) == 1
    assert len(await claim(db)) == 1
    assert await db.hosts.count_documents({}) == 0


async def test_suspects_do_not_run_beside_each_other_and_innocents_do(make: Make, db: QueueDatabase):
    suspects = most = 0
    innocent, hold = asyncio.Event(), asyncio.Event()

    async def work(job: HandledJob) -> None:
        nonlocal suspects, most
        if not job.deaths:
            innocent.set()
            return
        suspects += 1
        most = max(most, suspects)
        await hold.wait()
        suspects -= 1

    deliverer = make(Handler(kind="archive", call=work))
    for n in range(3):
        await deliverer.enqueue("archive", {}, key=str(n))
    await db.jobs.update_many({"key": {"$ne": "2"}}, {"$set": {"deaths": 1}})
    async with running(deliverer):
        await asyncio.wait_for(innocent.wait(), 20)

        async def other_set_aside() -> bool:
            return await db.jobs.count_documents({"last.reason": "suspect", "state": "queued"}) == 1

        await until(other_set_aside)
        hold.set()
        now = datetime(2020, 1, 1, tzinfo=UTC)
        await db.jobs.update_many({"state": "queued"}, {"$set": {"run_at": now}})
        await db.lanes.update_many({}, {"$set": {"due.1": now}})

        async def all_done() -> bool:
            return await db.jobs.count_documents({"state": "done"}) == 3

        await until(all_done)
    assert most == 1
    assert {row["tries"] async for row in db.jobs.find({})} == {1}


async def test_a_suspect_begins_when_the_one_before_it_is_stored(make: Make, db: QueueDatabase):
    """Until then a death of the worker counts as a death of both, though one of them had ended."""
    begun: list[int] = []

    async def work(job: HandledJob) -> None:
        begun.append(await db.jobs.count_documents({"state": "done"}))

    deliverer = make(Handler(kind="archive", call=work), config=dataclasses.replace(SHORT, settle_every_s=0.3))
    for n in range(3):
        await deliverer.enqueue("archive", {}, key=str(n))
    await db.jobs.update_many({}, {"$set": {"deaths": 1}})
    async with running(deliverer):

        async def all_done() -> bool:
            return await db.jobs.count_documents({"state": "done"}) == 3

        await until(all_done)
    assert begun == [0, 1, 2]
