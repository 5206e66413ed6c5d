# SPDX-License-Identifier: Apache-2.0
"""Handlers that are ended before they end by themselves, and runs that end before their handlers."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable
from contextvars import ContextVar
from dataclasses import replace

import pytest
from tests.integration.jobs.conftest import SHORT, Make, running
from tests.waiting import until

from ojak import HandledJob, Handler
from ojak.model.kind import DELIVERY
from ojak.store.database import QueueDatabase
from ojak.store.hosts import dues_of, lower_due
from ojak.store.kind_settle import UNTOLD_KINDS, let_ends_expire

CALLER: ContextVar[str] = ContextVar("CALLER")


async def test_a_run_that_is_cancelled_hands_back_what_waits_and_what_runs_unspent(make: Make, db: QueueDatabase):
    began = asyncio.Semaphore(0)
    ended: list[str] = []

    async def hang(job: HandledJob) -> None:
        began.release()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(job.id)

    deliverer = make(Handler(kind="archive", call=hang, concurrency=2))
    for _ in range(5):
        await deliverer.enqueue("archive", {})
    run = asyncio.create_task(deliverer.run())
    await began.acquire()
    await began.acquire()
    before = {task.get_name() for task in asyncio.all_tasks()}
    assert any(name.startswith("ojak-") for name in before)
    run.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await run
    assert len(ended) == 2
    assert await db.jobs.count_documents({"state": "queued", "tries": 0, "deaths": 0}) == 5
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("ojak-")]
    # They are due at once, for whoever runs next.
    done = asyncio.Semaphore(0)

    async def work(job: HandledJob) -> None:
        done.release()

    async with running(make(Handler(kind="archive", call=work))):
        async with asyncio.timeout(20):
            for _ in range(5):
                await done.acquire()


async def test_a_thread_that_goes_on_after_its_run_keeps_its_job_from_others_for_a_lease(make: Make, db: QueueDatabase):
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def hang(job: HandledJob) -> None:
        began.set()
        assert go_on.wait(20)
        ended.set()

    deliverer = make(Handler(kind="archive", call=hang), config=replace(SHORT, drain_s=0.1, lease_s=60.0))
    async with running(deliverer):
        queued = await deliverer.enqueue("archive", {})
        await asyncio.to_thread(began.wait)
    state = await deliverer.job(queued.id)
    assert (state.state, state.attempts, state.deaths, state.reason) == ("queued", 0, 0, "cut-off")
    assert state.next_try is not None
    assert (state.next_try - await db.server_clock()).total_seconds() > 50
    go_on.set()
    # What it comes to after that reaches nobody, and does no harm.
    assert await asyncio.to_thread(ended.wait, 20)
    assert (await deliverer.job(queued.id)).state == "queued"


async def test_a_job_that_comes_back_while_a_thread_still_has_it_waits_for_that(make: Make, db: QueueDatabase):
    began, go_on = threading.Event(), threading.Event()
    now = most = 0

    def work(job: HandledJob) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        began.set()
        assert go_on.wait(20)
        now -= 1

    deliverer = make(Handler(kind="archive", call=work))
    async with running(deliverer):
        queued = await deliverer.enqueue("archive", {})
        await asyncio.to_thread(began.wait)
        # As a reaper would have returned it.
        await db.jobs.update_one({}, {"$set": {"state": "queued"}, "$unset": {"lease": 1}})
        await lower_due(db, await dues_of(db, {}))

        async def came_back() -> bool:
            return (await deliverer.job(queued.id)).reason == "still-running"

        await until(came_back)
        go_on.set()
        await db.jobs.update_one({}, {"$set": {"run_at": await db.server_clock()}})
        await lower_due(db, await dues_of(db, {}))

        async def is_done() -> bool:
            return (await deliverer.job(queued.id)).state == "done"

        await until(is_done)
    assert most == 1


async def test_a_handler_that_ends_well_although_it_was_cancelled_is_done(make: Make, db: QueueDatabase):
    began = asyncio.Event()

    async def stubborn(job: HandledJob) -> None:
        began.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    deliverer = make(Handler(kind="archive", call=stubborn))
    async with running(deliverer):
        queued = await deliverer.enqueue("archive", {})
        await began.wait()
        cancelled = await deliverer.cancel_jobs(job=queued.id)
        assert (cancelled.count, cancelled.on_wire) == (0, 1)

        async def is_done() -> bool:
            return (await deliverer.job(queued.id)).state == "done"

        await until(is_done)


async def test_a_plain_function_that_is_cancelled_is_asked_to_stop(make: Make, db: QueueDatabase):
    began = threading.Event()

    def heed(job: HandledJob) -> None:
        began.set()
        assert job.stopping.wait(20)
        raise RuntimeError("stopped")

    deliverer = make(Handler(kind="archive", call=heed))
    async with running(deliverer):
        queued = await deliverer.enqueue("archive", {})
        await asyncio.to_thread(began.wait)
        await deliverer.cancel_jobs(kind="archive")

        async def is_cancelled() -> bool:
            return (await deliverer.job(queued.id)).state == "cancelled"

        await until(is_cancelled)


async def test_ends_that_nobody_is_told_of_expire_all_the_same(make: Make, db: QueueDatabase):
    deliverer = make(config=replace(SHORT, sweep_every_s=0.1), on_settled=lambda _: None)
    queued = await deliverer.enqueue("archive", {})
    await deliverer.cancel_jobs(job=queued.id)
    async with running(deliverer):

        async def expires() -> bool:
            return await db.jobs.count_documents({"state": "cancelled", "expire_at": {"$exists": True}}) == 1

        await until(expires)


async def test_handlers_run_in_the_context_of_their_run(make: Make, db: QueueDatabase):
    seen: list[str] = []

    async def in_loop(job: HandledJob) -> None:
        seen.append(CALLER.get())

    def in_thread(job: HandledJob) -> None:
        seen.append(CALLER.get())

    def in_both(job: HandledJob) -> Awaitable[None]:
        # A plain function that gives something to await: that is awaited in the loop.
        return in_loop(job)

    deliverer = make(
        Handler(kind="a", call=in_loop),
        Handler(kind="b", call=in_thread),
        Handler(kind="c", call=in_both),
    )
    for kind in "abc":
        await deliverer.enqueue(kind, {})
    CALLER.set("me")
    async with running(deliverer):

        async def all_done() -> bool:
            return await db.jobs.count_documents({"state": "done"}) == 3

        await until(all_done)
    assert seen == ["me"] * 3


async def test_a_handler_may_queue_further_jobs(make: Make, db: QueueDatabase):
    ran: list[str] = []

    async def work(job: HandledJob) -> None:
        ran.append(job.kind)
        if job.kind == "first":
            await deliverer.enqueue("second", {}, key=job.id)

    deliverer = make(Handler(kind="first", call=work), Handler(kind="second", call=work))
    await deliverer.enqueue("first", {})
    async with running(deliverer):

        async def all_done() -> bool:
            return await db.jobs.count_documents({"state": "done"}) == 2

        await until(all_done)
    assert ran == ["first", "second"]


@pytest.mark.parametrize("deliveries", [0, 2000])
async def test_letting_ends_expire_does_not_read_what_deliveries_have_untold(
    make: Make, db: QueueDatabase, deliveries: int
):
    """While an application's callbacks are down these can be millions, and this is asked each minute."""
    deliverer = make()
    await deliverer.enqueue("archive", {})
    await deliverer.cancel_jobs(kind="archive")
    if deliveries:
        untold = [
            {"_id": number.to_bytes(16, "big"), "state": "delivered", "kind": DELIVERY, "told": False, "end": number}
            for number in range(deliveries)
        ]
        await db.jobs.insert_many(untold, ordered=False)
    found = (await db.jobs.find(UNTOLD_KINDS).explain())["executionStats"]
    assert found["nReturned"] == 1
    assert found["totalKeysExamined"] <= 4
    await let_ends_expire(db, kept_s=60)
    assert await db.jobs.count_documents({"told": False}) == deliveries
