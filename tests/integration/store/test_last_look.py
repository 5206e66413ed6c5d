# SPDX-License-Identifier: Apache-2.0
"""What slips between two reads of a claim is not written down as nothing (DESIGN section 3, rules B and C)."""

from datetime import UTC, datetime

import pytest
from tests.integration.store.claiming import Hand

from ojak.model.activity import activity_of
from ojak.model.job import Priority
from ojak.store import claim as claim_module
from ojak.store.database import QueueDatabase
from ojak.store.enqueue import NewJob, enqueue
from ojak.store.hand_back import undo_claim
from ojak.store.handover import hand_over
from ojak.store.lane import lane_heads
from ojak.store.now import NEVER, utc
from ojak.store.settle import Retried, write_retries


async def put(db: QueueDatabase, name: str = "1", *, order_key: str | None = None) -> None:
    activity = activity_of({"id": f"https://a.test/{name}", "type": "Note"}, max_bytes=1 << 16)
    handover = await hand_over(
        db, activity, sender="https://a.test/u", priority=Priority.FANOUT, kept_s=60, order_key=order_key
    )
    job = NewJob(authority="h.test", inbox="https://h.test/i", shared=False, ref=None)
    async for _ in enqueue(db, [job], handover):
        pass


async def due_in_s(db: QueueDatabase) -> float | None:
    """In how many seconds the host is due; None for never."""
    row = await db.hosts.find_one({"_id": "h.test"})
    assert row is not None
    due = utc(row["due"]["1"])
    return None if due == NEVER else (due - datetime.now(UTC)).total_seconds()


async def test_what_is_leased_between_the_two_reads_of_a_claim_keeps_its_host_due(db: QueueDatabase, monkeypatch):
    """Whoever leased it may die: a host that is never due would leave it to the sweep."""
    await put(db)
    hand = Hand(db)
    heads = lane_heads

    async def leased_meanwhile(*args, **kwargs):
        monkeypatch.setattr(claim_module, "lane_heads", heads)
        await db.hosts.update_many({}, {"$set": {"ready": {"0": NEVER, "1": datetime(2000, 1, 1, tzinfo=UTC)}}})
        assert len(await hand.claim()) == 1
        return await heads(*args, **kwargs)

    monkeypatch.setattr(claim_module, "lane_heads", leased_meanwhile)
    assert await hand.claim() == []
    due = await due_in_s(db)
    assert due is not None
    assert 100 < due <= 120


async def test_what_was_put_off_since_it_was_read_is_not_leased(db: QueueDatabase, monkeypatch):
    await put(db)
    hand = Hand(db)
    lease = claim_module._lease

    async def put_off_meanwhile(*args, **kwargs):
        monkeypatch.setattr(claim_module, "_lease", lease)
        await db.hosts.update_many({}, {"$set": {"ready": {"0": NEVER, "1": datetime(2000, 1, 1, tzinfo=UTC)}}})
        (job,) = await hand.claim()
        retry = Retried(job=job, delay_s=900, spent=True, status=503, reason="status-503", scheme=None)
        await write_retries(db, [retry])
        return await lease(*args, **kwargs)

    monkeypatch.setattr(claim_module, "_lease", put_off_meanwhile)
    assert await hand.claim() == []
    row = await db.jobs.find_one()
    assert row is not None
    assert (row["state"], row["leases"]) == ("queued", 1)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_claim_that_is_undone_lets_what_waits_behind_a_cancelled_row_go(db: QueueDatabase, cancelled: bool):
    hand = Hand(db)
    await put(db, "1", order_key="k")
    await put(db, "2", order_key="k")
    (job,) = await hand.claim()
    if cancelled:
        await db.jobs.update_one({"_id": job.id}, {"$set": {"cancel": True}})
    assert await undo_claim(db, ["h.test"], stamp=job.stamp, lease_s=120) == 1
    assert await hand.states() == (
        {"1 i": "cancelled", "2 i": "queued"} if cancelled else {"1 i": "queued", "2 i": "blocked"}
    )


async def test_a_host_of_which_nothing_is_left_is_never_due(db: QueueDatabase):
    hand = Hand(db)
    await put(db)
    await hand.end(*await hand.claim())
    await db.hosts.update_many({}, {"$set": {"ready.1": datetime(2000, 1, 1, tzinfo=UTC)}})
    assert await hand.claim() == []
    assert await due_in_s(db) is None
