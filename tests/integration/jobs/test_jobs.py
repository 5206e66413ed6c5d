# SPDX-License-Identifier: Apache-2.0
"""An application's own kinds of job: queued, run, retried, ended."""

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta

import pytest
from tests.integration.jobs.conftest import Make, running
from tests.waiting import until

from ojak import (
    HandledJob,
    Handler,
    InputError,
    JobOutcome,
    JobRefused,
    SentState,
    UnknownJob,
)
from ojak.store.database import QueueDatabase


async def ended(db: QueueDatabase, count: int = 1) -> None:
    unfinished = {"$in": ["queued", "leased", "blocked"]}

    async def enough() -> bool:
        return await db.jobs.count_documents({"state": {"$not": unfinished}}) >= count

    await until(enough)


async def test_a_job_runs_with_what_was_handed_over(make: Make, db: QueueDatabase):
    ran: list[HandledJob] = []

    async def archive(job: HandledJob) -> None:
        ran.append(job)

    deliverer = make(Handler(kind="archive", call=archive))
    async with running(deliverer):
        queued = await deliverer.enqueue("archive", {"user": 7}, key="user 7")
        await ended(db)
    (job,) = ran
    assert (queued.state, queued.id, queued.kind) == (SentState.NEW, job.id, "archive")
    assert (job.kind, job.key, job.json(), job.attempt, job.is_last, job.deaths) == (
        "archive",
        "user 7",
        {"user": 7},
        1,
        False,
        0,
    )
    state = await deliverer.job(queued.id)
    assert (state.state, state.attempts, state.reason) == ("done", 1, "")
    row = await db.jobs.find_one({})
    assert row is not None
    assert row["told"] is True
    assert row["expire_at"] > row["finished_at"] + timedelta(days=6)
    assert "lease" not in row
    assert "{" not in repr(job)


async def test_a_plain_function_runs_in_a_thread_and_bytes_stay_bytes(make: Make, db: QueueDatabase):
    loop_thread = asyncio.current_task()
    seen: list[tuple[bytes, bool]] = []

    def shrink(job: HandledJob) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            seen.append((job.payload, False))
        else:
            seen.append((job.payload, True))
        with pytest.raises(InputError, match="is no JSON object"):
            job.json()

    deliverer = make(Handler(kind="media", call=shrink))
    async with running(deliverer):
        await deliverer.enqueue("media", b"\xff\x00raw")
        await ended(db)
    assert loop_thread is not None
    assert seen == [(b"\xff\x00raw", False)]


async def test_one_key_is_one_job(make: Make, db: QueueDatabase):
    deliverer = make()
    answers = await asyncio.gather(*(deliverer.enqueue("archive", {"n": n}, key="k") for n in range(8)))
    assert sorted(answer.state for answer in answers) == ["duplicate"] * 7 + ["new"]
    assert len({answer.id for answer in answers}) == 1
    assert (await deliverer.enqueue("media", {}, key="k")).state is SentState.NEW
    assert (await deliverer.enqueue("media", {})).id != (await deliverer.enqueue("media", {})).id
    assert await db.jobs.count_documents({}) == 4


async def test_what_is_done_stands_and_what_failed_is_queued_again(make: Make, db: QueueDatabase):
    async def fail(job: HandledJob) -> None:
        if job.json()["bad"]:
            raise ValueError("secret text")

    deliverer = make(Handler(kind="archive", call=fail, max_attempts=1))
    async with running(deliverer):
        await deliverer.enqueue("archive", {"bad": False}, key="good")
        failed = await deliverer.enqueue("archive", {"bad": True}, key="bad")
        await ended(db, 2)
        again = await deliverer.enqueue("archive", {"bad": False}, key="good")
        assert (again.state, again.outcome) == (SentState.ENDED, JobOutcome.DONE)
        state = await deliverer.job(failed.id)
        assert (state.state, state.attempts, state.reason) == ("out-of-retries", 1, "handler-raised")
        assert state.detail == "ValueError"
        revived = await deliverer.enqueue("archive", {"bad": False}, key="bad")
        assert (revived.state, revived.id) == (SentState.NEW, failed.id)

        async def is_done() -> bool:
            return (await deliverer.job(failed.id)).state == "done"

        await until(is_done)
    state = await deliverer.job(failed.id)
    assert state.attempts == 1


async def test_a_handler_that_raises_is_tried_again_on_the_curve(make: Make, db: QueueDatabase, caplog):
    async def fail(job: HandledJob) -> None:
        raise ValueError

    deliverer = make(Handler(kind="archive", call=fail))
    async with running(deliverer):
        queued = await deliverer.enqueue("archive", {})

        async def failed_once() -> bool:
            return (await deliverer.job(queued.id)).attempts == 1

        await until(failed_once)
    state = await deliverer.job(queued.id)
    assert state.state == "queued"
    assert state.next_try is not None
    waits_s = (state.next_try - datetime.now(UTC)).total_seconds()
    assert 13 < waits_s < 27
    assert any("a handler failed" in record.message for record in caplog.records)


async def test_a_job_that_is_refused_is_final(make: Make, db: QueueDatabase):
    def refuse(job: HandledJob) -> None:
        raise JobRefused("no\nimage " + "x" * 500)

    deliverer = make(Handler(kind="media", call=refuse))
    async with running(deliverer):
        queued = await deliverer.enqueue("media", {}, key="k")
        await ended(db)
    state = await deliverer.job(queued.id)
    assert (state.state, state.reason) == ("refused", "refused")
    assert state.detail.startswith("no image xxx")
    assert len(state.detail) <= 200
    assert (await deliverer.enqueue("media", {}, key="k")).outcome is JobOutcome.REFUSED


async def test_a_handler_over_its_time_has_failed(make: Make, db: QueueDatabase):
    async def hang(job: HandledJob) -> None:
        await asyncio.Event().wait()

    def heed(job: HandledJob) -> None:
        assert job.stopping.wait(20)
        raise ValueError

    deliverer = make(
        Handler(kind="slow", call=hang, timeout_s=0.1, max_attempts=1),
        Handler(kind="plain", call=heed, timeout_s=0.1, max_attempts=1),
    )
    async with running(deliverer):
        await deliverer.enqueue("slow", {})
        await deliverer.enqueue("plain", {})
        await ended(db, 2)
    states = await deliverer.jobs()
    assert [(state.state, state.reason) for state in states] == [("out-of-retries", "handler-timeout")] * 2


async def test_a_plain_function_around_an_asynchronous_one_has_its_time_too(make: Make, db: QueueDatabase):
    """As a decorator without `async` makes one: what it gave was awaited without an end."""
    ended_by: list[str] = []
    began = asyncio.Event()

    async def hang(job: HandledJob) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended_by.append(job.kind)
            raise

    def decorated(job: HandledJob) -> Awaitable[None]:
        return hang(job)

    deliverer = make(
        Handler(kind="slow", call=decorated, timeout_s=0.1, max_attempts=1),
        Handler(kind="long", call=decorated),
    )
    async with running(deliverer):
        slow = await deliverer.enqueue("slow", {})
        await ended(db)
        assert (await deliverer.job(slow.id)).reason == "handler-timeout"
        began.clear()
        long = await deliverer.enqueue("long", {})
        await began.wait()
        await deliverer.cancel_jobs(job=long.id)
        await ended(db, 2)
    assert ended_by == ["slow", "long"]
    assert (await deliverer.job(long.id)).state == "cancelled"


class LibraryTimeout(BaseException):
    """Some libraries have one that nobody is to catch by mistake."""


RAISED = [
    SystemExit(3),
    asyncio.CancelledError(),
    StopIteration(),
    GeneratorExit(),
    KeyboardInterrupt(),
    LibraryTimeout(),
]


@pytest.mark.parametrize("raised", RAISED)
async def test_nothing_that_a_plain_handler_raises_ends_the_run(make: Make, db: QueueDatabase, raised: BaseException):
    def fail(job: HandledJob) -> None:
        raise raised

    deliverer = make(Handler(kind="bad", call=fail, max_attempts=1))
    async with running(deliverer) as (loop,):
        queued = await deliverer.enqueue("bad", {})
        await ended(db)
        assert not loop.done()
    state = await deliverer.job(queued.id)
    assert (state.reason, state.detail) == ("handler-raised", type(raised).__name__)


@pytest.mark.parametrize("raised", RAISED)
async def test_nothing_that_an_asynchronous_handler_raises_ends_the_run(
    make: Make, db: QueueDatabase, raised: BaseException
):
    async def fail(job: HandledJob) -> None:
        raise raised

    deliverer = make(Handler(kind="bad", call=fail, max_attempts=1))
    async with running(deliverer) as (loop,):
        await deliverer.enqueue("bad", {})
        await ended(db)
        assert not loop.done()


async def test_no_more_of_a_kind_run_at_a_time_than_it_allows_and_all_run_once(make: Make, db: QueueDatabase):
    now = most = 0
    ran: list[int] = []

    async def work(job: HandledJob) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        ran.append(job.json()["n"])
        now -= 1

    handler = Handler(kind="archive", call=work, concurrency=3)
    first, second = make(handler), make(handler)
    await asyncio.gather(*(first.enqueue("archive", {"n": n}) for n in range(100)))
    async with running(first, second):
        await ended(db, 100)
    assert sorted(ran) == list(range(100))
    assert 1 < most <= 6


async def test_jobs_of_an_order_run_one_after_another_also_across_a_retry(make: Make, db: QueueDatabase):
    ran: list[int] = []

    async def work(job: HandledJob) -> None:
        if job.json()["n"] == 1 and job.attempt == 1:
            raise ValueError
        ran.append(job.json()["n"])

    deliverer = make(Handler(kind="archive", call=work))
    for n in range(4):
        await deliverer.enqueue("archive", {"n": n}, order_key="user 7")
    assert sorted([state.state for state in await deliverer.jobs()]) == ["blocked", "blocked", "blocked", "queued"]
    async with running(deliverer):

        async def one_failed() -> bool:
            return await db.jobs.count_documents({"tries": 1, "state": "queued"}) == 1

        await until(one_failed)
        assert ran == [0]
        now = datetime.now(UTC)
        await db.jobs.update_one({"state": "queued"}, {"$set": {"run_at": now}})
        await db.lanes.update_many({}, {"$set": {"due.1": now}})
        await ended(db, 4)
    assert ran == [0, 1, 2, 3]


async def test_a_job_runs_at_its_time(make: Make, db: QueueDatabase):
    ran: list[str] = []

    async def work(job: HandledJob) -> None:
        ran.append(job.json()["when"])

    deliverer = make(Handler(kind="archive", call=work))
    soon = datetime.now(UTC) + timedelta(seconds=0.5)
    async with running(deliverer):
        await deliverer.enqueue("archive", {"when": "later"}, run_at=datetime.now(UTC) + timedelta(days=40))
        await deliverer.enqueue("archive", {"when": "soon"}, delay_s=0.5)
        await ended(db)
        assert datetime.now(UTC) >= soon
    assert ran == ["soon"]


async def test_small_jobs_go_first(make: Make, db: QueueDatabase):
    from ojak import Priority

    ran: list[str] = []

    async def work(job: HandledJob) -> None:
        ran.append(job.json()["n"])

    deliverer = make(Handler(kind="archive", call=work, concurrency=1))
    for n in range(3):
        await deliverer.enqueue("archive", {"n": f"fanout {n}"}, order_key=None)
    small = await deliverer.enqueue("archive", {"n": "small"}, priority=Priority.SMALL)
    # All in one lane, whose two lines are read together.
    await db.jobs.update_many({}, {"$set": {"lane": "archive#00"}})
    await db.lanes.delete_many({})
    await db.lanes.insert_one(
        {"_id": "archive#00", "due": dict.fromkeys("01", datetime(2020, 1, 1, tzinfo=UTC)), "asks": 1}
    )
    async with running(deliverer):
        await ended(db, 4)
    assert small.state is SentState.NEW
    assert ran == ["small", "fanout 0", "fanout 1", "fanout 2"]


async def test_cancel_by_kind_ends_what_waits_and_stops_what_runs(make: Make, db: QueueDatabase):
    began = asyncio.Event()

    async def hang(job: HandledJob) -> None:
        began.set()
        await asyncio.Event().wait()

    deliverer = make(Handler(kind="archive", call=hang, concurrency=1))
    async with running(deliverer):
        for _ in range(5):
            await deliverer.enqueue("archive", {})
        other = await deliverer.enqueue("media", {})
        await began.wait()
        cancelled = await deliverer.cancel_jobs(kind="archive")
        # What ran was stopped, and may be stored as cancelled by now.
        assert cancelled.count + cancelled.on_wire == 5
        assert cancelled.on_wire <= 1
        await ended(db, 5)
        assert {state.state for state in await deliverer.jobs("archive")} == {"cancelled"}
        assert (await deliverer.job(other.id)).state == "queued"
        done = await deliverer.cancel_jobs(job=other.id)
        assert (done.count, done.on_wire) == (1, 0)


async def test_ended_jobs_are_replayed(make: Make, db: QueueDatabase):
    good = False

    async def work(job: HandledJob) -> None:
        if not good:
            raise JobRefused("not yet")

    deliverer = make(Handler(kind="archive", call=work))
    async with running(deliverer):
        queued = [await deliverer.enqueue("archive", {}) for _ in range(3)]
        await ended(db, 3)
        good = True
        assert await deliverer.replay_jobs(job=queued[0].id) == 1
        assert await deliverer.replay_jobs(kind="archive") == 2
        await ended(db, 3)
        assert [state.state for state in await deliverer.jobs("archive")] == ["done"] * 3
        assert await deliverer.replay_jobs(kind="archive") == 0


async def test_a_row_that_cannot_be_read_is_parked_and_stops_no_other(make: Make, db: QueueDatabase):
    ran = asyncio.Event()

    async def work(job: HandledJob) -> None:
        ran.set()

    deliverer = make(Handler(kind="archive", call=work))
    bad = [await deliverer.enqueue("archive", {}, order_key="k") for _ in range(1)]
    await deliverer.enqueue("archive", {}, order_key="k")
    await db.jobs.update_one({"_id": bytes.fromhex(bad[0].id)}, {"$set": {"payload": "text", "end": "x"}})
    async with running(deliverer):
        await ended(db, 2)
    state = await deliverer.job(bad[0].id)
    assert (state.state, state.reason, state.detail) == (
        "parked",
        "unreadable",
        "payload is a str; allowed is bytes",
    )
    assert ran.is_set()


async def test_a_drain_hands_back_what_runs_unspent(make: Make, db: QueueDatabase):
    began = asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()

    async def hang(job: HandledJob) -> None:
        began.release()
        await asyncio.Event().wait()

    def heed(job: HandledJob) -> None:
        loop.call_soon_threadsafe(began.release)
        assert job.stopping.wait(20)
        raise RuntimeError("asked to stop")

    from dataclasses import replace

    from tests.integration.jobs.conftest import SHORT

    deliverer = make(
        Handler(kind="slow", call=hang),
        Handler(kind="plain", call=heed),
        config=replace(SHORT, drain_s=0.2),
    )
    async with running(deliverer):
        await deliverer.enqueue("slow", {})
        await deliverer.enqueue("plain", {})
        await began.acquire()
        await began.acquire()
    states = await deliverer.jobs()
    assert [(state.state, state.attempts, state.deaths, state.reason) for state in states] == [
        ("queued", 0, 0, "cut-off")
    ] * 2


async def test_what_is_not_known_is_said(make: Make):
    deliverer = make()
    with pytest.raises(UnknownJob, match=r"job '0+' is not known"):
        await deliverer.job("0" * 32)
    with pytest.raises(InputError, match="state is 'lost'; allowed are queued"):
        await deliverer.jobs(states=["lost"])
