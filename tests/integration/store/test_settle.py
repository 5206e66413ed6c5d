# SPDX-License-Identifier: Apache-2.0
import dataclasses
import secrets

import pytest

from ojak.model.job import Job, Priority
from ojak.model.outcome import SettledOutcome
from ojak.shard import SHARDS
from ojak.store.claim import claim, ready_hosts
from ojak.store.database import QueueDatabase
from ojak.store.ends import mark_rows_told, mark_told, untold
from ojak.store.reap import bury, reap_expired
from ojak.store.settle import Ended, Retried, write_ends, write_retries
from ojak.store.shards import owned, take


@pytest.fixture
def lease(db: QueueDatabase, put):
    """Queue deliveries and lease them all."""

    async def lease(count: int, lease_s: float = 120, owner: bytes | None = None) -> list[Job]:
        owner = owner or secrets.token_bytes(16)
        await take(db, owner, count=SHARDS, lease_s=45)
        await put([f"https://h.test/{n}" for n in range(count)])
        hosts = await ready_hosts(db, shards=range(SHARDS), priority=Priority.FANOUT, busy=[], quick=9, others=9)
        claimed = await claim(
            db,
            hosts,
            owner=owner,
            stamp=secrets.token_bytes(16),
            epochs=await owned(db, owner),
            priority=Priority.FANOUT,
            share=lambda host, foreign: 100,
            lease_s=lease_s,
            max_age_s=86_400,
        )
        return [job for item in claimed for job in item.jobs]

    return lease


def ended(job: Job, outcome: SettledOutcome = SettledOutcome.DELIVERED, status: int = 202) -> Ended:
    return Ended(job=job, outcome=outcome, spent=True, status=status, reason="", scheme="cavage")


def retried(job: Job, delay_s: float = 60.0) -> Retried:
    return Retried(job=job, delay_s=delay_s, spent=True, status=503, reason="status-503", scheme="cavage")


async def test_ends_are_written_once_and_expire_when_nobody_is_to_be_told(db: QueueDatabase, lease):
    jobs = await lease(5)
    stored = await write_ends(db, [ended(job) for job in jobs], tell=False, kept_s=60)
    assert stored == {job.id for job in jobs}
    async for row in db.jobs.find():
        assert (row["state"], row["end"], row["tries"], row["told"]) == ("delivered", 1, 1, True)
        assert row["last"]["status"] == 202
        assert "lease" not in row
        assert row["expire_at"] > row["finished_at"]


async def test_an_end_that_is_to_be_told_does_not_expire_before(db: QueueDatabase, lease):
    (job,) = await lease(1)
    await write_ends(db, [ended(job)], tell=True, kept_s=60)
    row = await db.jobs.find_one()
    assert row is not None
    assert row["told"] is False
    assert "expire_at" not in row
    (item,) = await untold(db, older_s=0)
    assert item.end.delivery_id == job.id.hex()
    assert item.end.outcome is SettledOutcome.DELIVERED
    await mark_told(db, [item], kept_s=60)
    assert await untold(db, older_s=0) == []
    row = await db.jobs.find_one()
    assert row is not None
    assert "expire_at" in row


async def test_telling_an_older_end_does_not_tell_the_newer_one(db: QueueDatabase, lease):
    (job,) = await lease(1)
    await write_ends(db, [ended(job)], tell=True, kept_s=60)
    await mark_rows_told(db, {2: [job.id]}, kept_s=60)
    assert len(await untold(db, older_s=0)) == 1


async def test_an_owed_end_is_told_and_pulled(db: QueueDatabase, lease, put):
    (job,) = await lease(1)
    await write_ends(db, [ended(job, SettledOutcome.RECIPIENT_GONE, 410)], tell=True, kept_s=60)
    await put(["https://h.test/0"])
    (item,) = await untold(db, older_s=0)
    assert (item.owed, item.end.end, item.end.outcome) == (True, 1, SettledOutcome.RECIPIENT_GONE)
    await mark_told(db, [item], kept_s=60)
    assert await untold(db, older_s=0) == []
    assert await db.jobs.count_documents({"state": "queued"}) == 1


async def test_a_finish_with_a_stale_stamp_changes_nothing(db: QueueDatabase, lease):
    jobs = await lease(3)
    stale = [dataclasses.replace(job, stamp=secrets.token_bytes(16)) for job in jobs]
    before = [row async for row in db.jobs.find().sort("_id", 1)]
    assert await write_ends(db, [ended(job) for job in stale], tell=False, kept_s=60) == set()
    assert await write_retries(db, [retried(job) for job in stale]) == set()
    assert [row async for row in db.jobs.find().sort("_id", 1)] == before


async def test_what_was_taken_is_told_from_what_was_stored(db: QueueDatabase, lease):
    jobs = await lease(4)
    await db.jobs.update_one({"_id": jobs[0].id}, {"$set": {"lease.stamp": secrets.token_bytes(16)}})
    await db.jobs.update_one({"_id": jobs[1].id}, {"$set": {"lease.stamp": secrets.token_bytes(16)}})
    assert await write_ends(db, [ended(jobs[0]), ended(jobs[2])], tell=False, kept_s=60) == {jobs[2].id}
    assert await write_retries(db, [retried(jobs[1]), retried(jobs[3])]) == {jobs[3].id}


async def test_an_outcome_may_be_written_twice(db: QueueDatabase, lease):
    jobs = await lease(2)
    batch = [ended(jobs[0])]
    assert await write_ends(db, batch, tell=False, kept_s=60) == await write_ends(db, batch, tell=False, kept_s=60)
    retry = [retried(jobs[1])]
    assert await write_retries(db, retry) == await write_retries(db, retry) == {jobs[1].id}
    assert sorted([row["tries"] async for row in db.jobs.find()]) == [1, 1]


async def test_a_retry_makes_its_host_due_when_it_is(db: QueueDatabase, lease):
    (job,) = await lease(1)
    await write_retries(db, [retried(job, delay_s=17.0)])
    row, host = await db.jobs.find_one(), await db.hosts.find_one()
    assert row is not None
    assert host is not None
    assert abs((row["run_at"] - host["due"]["1"]).total_seconds()) < 1
    assert (row["state"], row["tries"]) == ("queued", 1)


async def test_the_reaper_returns_only_what_has_run_out(db: QueueDatabase, lease):
    jobs = await lease(2)
    assert await reap_expired(db, max_deaths=5) == 0
    await db.jobs.update_one({"_id": jobs[0].id}, [{"$set": {"lease.until": {"$subtract": ["$$NOW", 1]}}}])
    assert await reap_expired(db, max_deaths=5) == 1
    row = await db.jobs.find_one({"_id": jobs[0].id})
    assert row is not None
    assert (row["state"], row["deaths"], row["tries"]) == ("queued", 1, 0)
    assert "told" not in row
    assert await db.jobs.count_documents({"state": "leased"}) == 1


async def test_a_job_that_killed_its_worker_five_times_is_parked_and_told(db: QueueDatabase, lease):
    (job,) = await lease(1)
    await db.jobs.update_one({}, [{"$set": {"lease.until": {"$subtract": ["$$NOW", 1]}, "deaths": 4}}])
    await reap_expired(db, max_deaths=5)
    (item,) = await untold(db, older_s=0)
    assert (item.end.outcome, item.end.reason, item.end.end) == ("parked", "crashed-workers", 1)
    assert item.end.delivery_id == job.id.hex()


async def test_an_obituary_ends_the_leases_of_the_dead_and_counts_only_what_had_begun(db: QueueDatabase, lease):
    owner = secrets.token_bytes(16)
    jobs = await lease(3, owner=owner)
    assert await bury(db, secrets.token_bytes(16), [], max_deaths=5) == 0
    assert await bury(db, owner, [jobs[0].id], max_deaths=5) == 3
    deaths = {bytes(row["_id"]): row["deaths"] async for row in db.jobs.find({"state": "queued"})}
    assert deaths == {jobs[0].id: 1, jobs[1].id: 0, jobs[2].id: 0}
