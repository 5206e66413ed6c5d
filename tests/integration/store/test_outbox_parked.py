# SPDX-License-Identifier: Apache-2.0
"""What can never be queued of the outbox was promised all the same: its deliveries end, and somebody is told."""

import asyncio

import pytest
from tests.integration.test_sessions import (
    INBOXES,
    KEPT_S,
    SENDER,
    activity,
    app,
    deliverer_with,
    first_waiting,
    is_empty,
    running,
    transaction,
)
from tests.waiting import until

from ojak import Batch, DelivererConfig, DeliveryFailure, PortableInbox, SentState
from ojak.errors import StoreError
from ojak.model.outcome import FailureReason
from ojak.store import enqueue, outbox_queue
from ojak.store.outbox_parked import park_send
from ojak.store.outbox_rows import read_waiting

__all__ = ["app", "deliverer_with"]

GATEWAYS = PortableInbox(
    "ap://did:key:z6MkjchhfUsD6mmvni8mCdXHw216Xrm9bQe2mBH1P5RDjVJG/actor/inbox", ["https://g1.test", "https://g2.test"]
)


@pytest.fixture
async def conflicting(app, db, deliverer_with):
    """Two transactions that were committed with one id and other bytes: neither saw the other."""
    deliverer = deliverer_with()
    async with transaction(app) as session:
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
        other = {**activity("1"), "summary": "other"}
        sent = await deliverer.send_batch(other, SENDER, INBOXES, Batch(tag="t"), session=session)
        assert sent.count(SentState.PENDING) == 2
    return deliverer


async def test_the_second_of_two_with_one_id_and_other_bytes_is_told_as_failed(db, conflicting, deliverer_with):
    told: asyncio.Queue[DeliveryFailure] = asyncio.Queue()
    config = DelivererConfig(poll_every_s=0.05, sweep_every_s=1)
    # The first is not sent anywhere, or it could have ended before the second is queued.
    await conflicting.pause_sender(SENDER, by="test")
    async with running(deliverer_with(on_failure=told.put, config=config)):
        ends = [await asyncio.wait_for(told.get(), 20) for _ in INBOXES]
    assert sorted(end.inbox for end in ends) == INBOXES
    assert {(end.activity_id, end.outcome, end.reason, end.end, end.sender) for end in ends} == {
        ("https://a.test/1", FailureReason.PARKED, "conflict", 1, SENDER)
    }
    row = await db.outbox.find_one({})
    assert row is not None
    assert row["state"] == "parked"
    rows = db.jobs.find({"state": "parked"})
    assert [("expire_at" in row, row["told"]) async for row in rows] == [(True, True)] * 2, "they are not kept for ever"


async def test_what_was_parked_is_explained_and_followed(db, conflicting):
    for _ in range(2):
        await outbox_queue.queue_pending(db, await first_waiting(db), kept_s=KEPT_S)
    explanation = await conflicting.explain("https://a.test/1")
    assert explanation.counts == {"queued": 2, "parked": 2}
    parked = [one for one in explanation.deliveries if one.state == "parked"]
    assert [(one.inbox, one.reason, one.attempts) for one in parked] == [(inbox, "conflict", 0) for inbox in INBOXES]
    assert "with other bytes" in parked[0].detail
    progress = await conflicting.follow("t")
    assert (progress.counts, progress.unfinished) == ({"parked": 2}, 0)
    assert [failure.reason for failure in progress.failures] == ["conflict"] * 2
    replayed = await conflicting.replay(batch="t")
    assert (replayed.count, replayed.without_body) == (0, 2), "its bytes are in the outbox alone"
    assert (await conflicting.cancel(activity="https://a.test/1")).count == 2


async def test_doing_it_again_after_a_crash_ends_nothing_twice(db, conflicting):
    await outbox_queue.queue_pending(db, await first_waiting(db), kept_s=KEPT_S)
    (row,) = await db.outbox.find({}).to_list()
    await outbox_queue.queue_pending(db, await first_waiting(db), kept_s=KEPT_S)
    first = await db.jobs.find({"state": "parked"}).sort("_id").to_list()
    # It died before its last statement.
    await db.outbox.replace_one({"_id": row["_id"]}, row)
    await outbox_queue.queue_pending(db, await first_waiting(db), kept_s=KEPT_S)
    assert await db.jobs.find({"state": "parked"}).sort("_id").to_list() == first
    assert await is_empty(db)


async def test_one_that_was_paused_ends_nothing_that_another_queued(app, db, deliverer_with):
    """He met a conflict, and wakes when the other has queued the send, which has been delivered since."""
    deliverer = deliverer_with()
    async with transaction(app) as session:
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
    paused = await first_waiting(db)
    await outbox_queue.queue_pending(db, paused, kept_s=KEPT_S)
    await db.jobs.update_many({}, {"$set": {"state": "delivered", "end": 1, "told": True}})
    await park_send(db, paused, reason="conflict", detail="by then")
    assert await db.jobs.count_documents({"state": "delivered"}) == await db.jobs.count_documents({}) == 2


async def test_a_fault_in_the_middle_ends_what_was_not_queued_by_then(app, db, deliverer_with, monkeypatch):
    monkeypatch.setattr(enqueue, "FIRST_CHUNK", 1)

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(outbox_queue, "wake", broken)
    deliverer = deliverer_with()
    async with transaction(app) as session:
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
    await outbox_queue.queue_pending(db, await first_waiting(db), kept_s=KEPT_S)
    rows = await db.jobs.find({}).sort("inbox").to_list()
    assert [(row["inbox"], row["state"]) for row in rows] == list(zip(INBOXES, ("queued", "parked"), strict=True))
    assert rows[1]["last"]["reason"] == "internal-error"


async def test_portable_inboxes_end_too_with_their_gateways(app, db, deliverer_with):
    deliverer = deliverer_with()
    async with transaction(app) as session:
        await deliverer.send_portable(activity("1"), SENDER, [GATEWAYS], session=session)
    paused = await first_waiting(db)
    await park_send(db, paused, reason="conflict", detail="with other bytes")
    (delivery,) = (await deliverer.explain("https://a.test/1")).deliveries
    assert [gateway.origin for gateway in delivery.gateways] == ["https://g1.test", "https://g2.test"]
    assert (await deliverer.replay(host="g1.test", outcomes=[FailureReason.PARKED])).without_body == 1


@pytest.mark.parametrize("lacking", [MemoryError(), OSError(24, "Too many open files")])
async def test_what_this_process_lacks_is_no_fault_of_the_row(app, db, deliverer_with, monkeypatch, lacking):
    deliverer = deliverer_with(config=DelivererConfig(poll_every_s=0.05))
    asked = asyncio.Event()

    async def fail(*_: object, **__: object) -> None:
        asked.set()
        raise lacking

    monkeypatch.setattr(outbox_queue, "hand_over", fail)
    async with transaction(app) as session:
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
    with pytest.raises(StoreError, match="cannot queue a row of the outbox now"):
        await outbox_queue.queue_pending(db, await first_waiting(db), kept_s=KEPT_S)
    asked.clear()
    async with running(deliverer):
        await asyncio.wait_for(asked.wait(), 20)
        assert await db.outbox.count_documents({"state": "waiting"}) == 1
        monkeypatch.undo()
        await until(lambda: is_empty(db))
    assert await db.jobs.count_documents({"state": {"$ne": "parked"}}) == 2


async def test_a_row_that_nobody_can_decode_waits(app, db, deliverer_with, monkeypatch):
    deliverer = deliverer_with()
    async with transaction(app) as session:
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
    paused = await first_waiting(db)

    async def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(outbox_queue, "read_waiting", fail)
    with pytest.raises(StoreError, match="it still waits"):
        await outbox_queue.queue_row(db, paused.row_id, kept_s=KEPT_S)
    assert await read_waiting(db, paused.row_id) == paused
