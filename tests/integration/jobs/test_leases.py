# SPDX-License-Identifier: Apache-2.0
"""Leases, with a short one: what runs long runs once, what was taken stops, what is stale changes nothing."""

import asyncio
import secrets
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from tests.integration.jobs.conftest import SHORT, Make, running
from tests.waiting import until

from ojak import Deliverer, HandledJob, Handler
from ojak.model.kind_job import JobOutcome
from ojak.store.database import QueueDatabase
from ojak.store.kind_claim import claim_jobs
from ojak.store.kind_settle import KindEnded, KindRetried, write_kind_outcomes

THREE_LEASES_S = SHORT.lease_s * 3
TWO_LEASES_S = SHORT.lease_s * 2


async def runs_once(db: QueueDatabase, runner: Deliverer, others: Deliverer, ran: list[int]) -> None:
    """Have a long job run beside a second worker that reaps five times a second and would take what it finds."""
    async with running(runner, others):
        queued = await runner.enqueue("long", {})

        async def is_done() -> bool:
            return (await runner.job(queued.id)).state == "done"

        await until(is_done)
    row = await db.jobs.find_one({})
    assert row is not None
    # The reaper found nothing: a death would be counted, and a second lease.
    assert (len(ran), row["leases"], row["deaths"], row["tries"]) == (1, 1, 0, 1)


async def test_a_job_three_leases_long_runs_once_and_the_reaper_finds_nothing(make: Make, db: QueueDatabase):
    ran: list[int] = []

    async def work(job: HandledJob) -> None:
        ran.append(1)
        # The one thing that is measured here is time.
        await asyncio.sleep(THREE_LEASES_S)

    handler = Handler(kind="long", call=work)
    await runs_once(db, make(handler), make(handler), ran)


async def test_a_plain_function_that_blocks_its_thread_for_three_leases_runs_once(make: Make, db: QueueDatabase):
    ran: list[int] = []

    def work(job: HandledJob) -> None:
        ran.append(1)
        assert not job.stopping.wait(THREE_LEASES_S)

    handler = Handler(kind="long", call=work)
    await runs_once(db, make(handler), make(handler), ran)


async def test_a_handler_that_blocks_its_loop_for_two_leases_runs_once(make: Make, db: QueueDatabase, mongod_url: str):
    ran: list[int] = []

    async def block(job: HandledJob) -> None:
        ran.append(1)
        time.sleep(TWO_LEASES_S)  # noqa: ASYNC251 - the fault that is tested

    # The other worker has a loop of its own, which goes on meanwhile.
    other, ready, stop = make(Handler(kind="long", call=block)), threading.Event(), threading.Event()
    fault: list[BaseException] = []

    def elsewhere() -> None:
        async def run() -> None:
            deliverer = Deliverer(
                mongod_url,
                database=db.name,
                keys=NoKeysHere(),
                config=SHORT,
                handlers=[Handler(kind="long", call=block)],
            )
            loop = asyncio.create_task(deliverer.run())
            ready.set()
            await asyncio.to_thread(stop.wait)
            await deliverer.close()
            await loop

        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001 - told below
            fault.append(error)

    class NoKeysHere:
        async def keys_of(self, sender: str):
            raise RuntimeError

    thread = threading.Thread(target=elsewhere)
    thread.start()
    try:
        await asyncio.to_thread(ready.wait)
        async with running(other):
            queued = await other.enqueue("long", {})

            async def is_done() -> bool:
                return (await other.job(queued.id)).state == "done"

            await until(is_done)
    finally:
        stop.set()
        await asyncio.to_thread(thread.join)
    assert fault == []
    row = await db.jobs.find_one({})
    assert row is not None
    assert (len(ran), row["leases"], row["deaths"]) == (1, 1, 0)


async def steal(db: QueueDatabase) -> None:
    """Take the lease away, as a reaper and another worker would, for an hour."""
    until = datetime.now(UTC) + timedelta(hours=1)
    lease = {"stamp": secrets.token_bytes(16), "by": secrets.token_bytes(16), "until": until}
    result = await db.jobs.update_one({"state": "leased"}, {"$set": {"lease": lease}})
    assert result.modified_count == 1


async def test_a_stolen_lease_stops_its_handler_and_drops_its_outcome(make: Make, db: QueueDatabase):
    began, stopped = asyncio.Event(), asyncio.Event()

    async def work(job: HandledJob) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            assert job.stopping.is_set()
            stopped.set()

    deliverer = make(Handler(kind="archive", call=work))
    async with running(deliverer):
        await deliverer.enqueue("archive", {})
        await began.wait()
        await steal(db)
        await asyncio.wait_for(stopped.wait(), 20)
    row = await db.jobs.find_one({})
    assert row is not None
    assert (row["state"], row["tries"], "last" in row) == ("leased", 0, False)


async def test_a_stolen_lease_asks_a_thread_to_stop_keeps_its_slot_and_drops_what_it_comes_to(
    make: Make, db: QueueDatabase
):
    began, go_on = threading.Event(), threading.Event()
    asked: list[bool] = []

    def work(job: HandledJob) -> None:
        began.set()
        if not asked:
            asked.append(job.stopping.wait(20))
        assert go_on.wait(20)

    deliverer = make(Handler(kind="archive", call=work, concurrency=1))
    async with running(deliverer):
        await deliverer.enqueue("archive", {})
        await asyncio.to_thread(began.wait)
        await steal(db)

        async def was_asked() -> bool:
            return bool(asked)

        await until(was_asked)
        second = await deliverer.enqueue("archive", {})
        assert (await deliverer.job(second.id)).state == "queued"
        # Its slot is taken: the second one is not even leased.
        assert await db.jobs.count_documents({"state": "leased"}) == 1
        go_on.set()

        async def second_done() -> bool:
            return (await deliverer.job(second.id)).state == "done"

        await until(second_done)
    assert asked[0] is True
    assert await db.jobs.count_documents({"state": "leased", "tries": 0}) == 1


@pytest.mark.parametrize("how", ["ended", "retried"])
async def test_a_finish_with_a_stale_stamp_changes_nothing(make: Make, db: QueueDatabase, how: str):
    deliverer = make()
    await deliverer.enqueue("archive", {})
    old, new = secrets.token_bytes(16), secrets.token_bytes(16)
    claim = await claim_jobs(db, {"archive": 4}, owner=b"a" * 16, stamp=old, lease_s=120)
    (job,) = claim.jobs
    await db.jobs.update_one({}, {"$set": {"lease.stamp": new}})
    before = await db.jobs.find_one({})
    outcome = (
        KindEnded(job=job, outcome=JobOutcome.DONE, spent=True)
        if how == "ended"
        else KindRetried(job=job, delay_s=0, spent=True, reason="handler-raised")
    )
    assert await write_kind_outcomes(db, [outcome], kept_s=60) == set()
    assert await db.jobs.find_one({}) == before


async def test_the_same_outcome_written_twice_counts_once(make: Make, db: QueueDatabase):
    deliverer = make()
    await deliverer.enqueue("archive", {})
    claim = await claim_jobs(db, {"archive": 4}, owner=b"a" * 16, stamp=b"s" * 16, lease_s=120)
    (job,) = claim.jobs
    outcome = KindRetried(job=job, delay_s=60, spent=True, reason="handler-raised")
    for _ in range(2):
        assert await write_kind_outcomes(db, [outcome], kept_s=60) == {job.id}
    row = await db.jobs.find_one({})
    assert row is not None
    assert (row["tries"], row["state"]) == (1, "queued")
