# SPDX-License-Identifier: Apache-2.0
"""Workers that do not know the same: a worker never leases a kind that it has no handler for (field report R25)."""

from collections import Counter

import pytest
from tests.integration.jobs.conftest import SHORT, Make, running
from tests.waiting import until

from ojak import DelivererConfig, DeliveryAttempt, HandledJob, Handler
from ojak.model.outcome import AttemptOutcome
from ojak.store.database import QueueDatabase

SENDER = "https://a.test/u"
LONG = DelivererConfig(lease_s=6, request_s=3, reap_every_s=1, shard_lease_s=9)
"""Twenty renewals are a minute."""


@pytest.mark.parametrize(
    ("renewals", "config"), [(2, SHORT), pytest.param(20, LONG, marks=pytest.mark.long)], ids=["scaled", "full"]
)
async def test_r25_a_worker_without_the_handler_leaves_jobs_alone_and_what_it_does_not_know_in_place(
    make: Make, db: QueueDatabase, *, renewals: int, config: DelivererConfig
):
    attempted: list[DeliveryAttempt] = []
    a, queueing = make(on_attempt=attempted.append, config=config), make(keys=None)
    for n in range(20):
        await queueing.enqueue("archive", {"n": n}, key=str(n))
        await queueing.send(
            {"id": f"https://a.test/{n}", "type": "Like"}, f"{SENDER}{n}", [f"http://127.0.0.{n + 1}:9/inbox"]
        )
    # What a later version writes, and this one does not know.
    await db.jobs.update_many({}, {"$set": {"later": {"field": [1]}}})
    ran: Counter[int] = Counter()

    async def archive(job: HandledJob) -> None:
        ran[job.json()["n"]] += 1

    async with running(a):

        async def all_attempted() -> bool:
            # Each was leased, and written to: the source of keys fails for each sender, so that nothing is sent.
            return len(attempted) >= 20 and await db.jobs.count_documents({"last.reason": "key-source-failed"}) == 20

        await until(all_attempted)
        # Longer than a lease and many polls: had it wanted one, it would have one.
        await polled(db, renewals)
        archives = await db.jobs.find({"kind": "archive"}).to_list()
        assert {(row["state"], row["tries"], row["leases"], row["deaths"]) for row in archives} == {("queued", 0, 0, 0)}
        (status,) = await a.kinds()
        assert (status.kind, status.unfinished, status.workers) == ("archive", 20, 0)
        assert status.oldest_s > 0
        b = make(Handler(kind="archive", call=archive), config=config)
        async with running(b):

            async def all_done() -> bool:
                return await db.jobs.count_documents({"kind": "archive", "state": "done"}) == 20

            await until(all_done)
            (status,) = await b.kinds()
            assert (status.unfinished, status.workers) == (0, 1)
    assert ran == Counter(range(20))
    assert {attempt.outcome for attempt in attempted} == {AttemptOutcome.OWN_FAULT}
    assert await db.jobs.count_documents({"later": {"field": [1]}}) == 40


async def polled(db: QueueDatabase, renewals: int) -> None:
    """Wait until the worker has renewed its shards so often, each of which takes longer than its polls."""
    seen = {row["until"] async for row in db.shards.find({}, {"until": 1})}

    async def renewed() -> bool:
        now = {row["until"] async for row in db.shards.find({}, {"until": 1})}
        return not now & seen

    for _ in range(renewals):
        await until(renewed)
        seen = {row["until"] async for row in db.shards.find({}, {"until": 1})}
