# SPDX-License-Identifier: Apache-2.0
"""The outbox goes on past what the database refuses, what a later version wrote, and what is nobody's."""

import logging

import pytest
from bson import Timestamp
from pymongo.errors import OperationFailure
from tests.integration.test_sessions import (
    INBOXES,
    SENDER,
    activity,
    app,
    deliverer_with,
    is_empty,
    running,
    transaction,
)
from tests.waiting import until

from ojak import DelivererConfig
from ojak.errors import StoreError
from ojak.store import outbox_queue
from ojak.store.database import QueueDatabase
from ojak.store.outbox import Pending

__all__ = ["app", "deliverer_with"]

CONFIG = DelivererConfig(poll_every_s=0.05)


async def put(app, deliverer, name: str, *, about: str | None = None) -> None:
    async with transaction(app) as session:
        await deliverer.send(activity(name, about=about or name), SENDER, INBOXES, session=session)


async def waiting(db: QueueDatabase) -> set[str]:
    return {row["activity_id"].rpartition("/")[2] async for row in db.outbox.find({"state": "waiting"})}


async def test_what_the_database_keeps_refusing_stops_only_what_is_about_the_same(app, db, deliverer_with, monkeypatch):
    deliverer = deliverer_with(config=CONFIG)
    queue = outbox_queue._queue

    async def refuse(db: QueueDatabase, send: Pending, *, kept_s: float) -> None:
        if "/bad" in send.activity.identity:
            raise OperationFailure("refused", 20, {"errmsg": "refused"})
        await queue(db, send, kept_s=kept_s)

    monkeypatch.setattr(outbox_queue, "_queue", refuse)
    bad = {f"bad{n}" for n in range(12)}
    for name in sorted(bad):
        await put(app, deliverer, name)
    await put(app, deliverer, "behind", about="bad3")
    await put(app, deliverer, "good")

    async def only_these_wait() -> bool:
        return await waiting(db) == {*bad, "behind"}

    async with running(deliverer):
        await until(only_these_wait)
        assert {row["activity"] async for row in db.jobs.find({})} == {"https://a.test/good"}
        monkeypatch.setattr(outbox_queue, "_queue", queue)
        await until(lambda: is_empty(db))
    first = await db.jobs.find_one({"activity": "https://a.test/bad3"}, sort=[("seq", -1)])
    then = await db.jobs.find_one({"activity": "https://a.test/behind"}, sort=[("seq", 1)])
    assert first is not None
    assert then is not None
    assert first["seq"] < then["seq"]


@pytest.mark.parametrize("row_id", [{"a": 1}, 7, "text"], ids=["document", "number", "text"])
async def test_a_row_whose_id_is_nothing_of_ours_is_parked_and_in_nobodys_way(app, db, deliverer_with, row_id):
    deliverer = deliverer_with(config=CONFIG)
    await put(app, deliverer, "1")
    await db.outbox.insert_one({"_id": row_id, "seq": Timestamp(1, 1), "state": "waiting", "about": ["x"]})
    async with running(deliverer):
        await until(lambda: is_empty(db))
    (row,) = await db.outbox.find({}).to_list()
    assert (row["_id"], row["state"]) == (row_id, "parked")
    assert row["reason"].startswith("its id is a ")
    assert await db.jobs.count_documents({}) == 2


async def test_such_a_row_stops_no_send_and_no_cancel_either(app, db, deliverer_with):
    deliverer = deliverer_with()
    await put(app, deliverer, "1", about="x")
    about = {"about": ["https://a.test/x"], "sender": SENDER}
    for n, row_id in enumerate(({"a": 1}, {"a": 2})):
        await db.outbox.insert_one({"_id": row_id, "seq": Timestamp(1, n + 1), "state": "waiting", **about})
    await deliverer.send(activity("2", about="x"), SENDER, INBOXES)
    assert await db.outbox.count_documents({"state": "parked"}) == 2
    await db.outbox.insert_one({"_id": {"a": 3}, "seq": Timestamp(1, 1), "state": "waiting", **about})
    assert (await deliverer.cancel(sender=SENDER)).count == 4
    assert await db.outbox.count_documents({"state": "parked"}) == 3


async def test_what_a_later_version_wrote_waits_for_its_workers(app, db, deliverer_with, caplog):
    """During an upgrade both have the outbox: what one cannot read is not lost for the other."""
    deliverer = deliverer_with(config=CONFIG)
    for name in ("new", "old"):
        await put(app, deliverer, name)
    await db.outbox.update_one({"activity_id": "https://a.test/new"}, {"$set": {"form": 2, "sender": {"id": "other"}}})

    async def only_it_waits() -> bool:
        return await waiting(db) == {"new"}

    with caplog.at_level(logging.WARNING, logger="ojak.worker.outbox"):
        async with running(deliverer):
            await until(only_it_waits)
            # What is about the same is not held up by what this version cannot read.
            await deliverer.send(activity("again", about="new"), SENDER, INBOXES)
            assert await waiting(db) == {"new"}
    said = [record for record in caplog.records if "later version" in record.message]
    assert [record.waiting for record in said] == [1]
    settings = await deliverer.queue_settings()
    assert (settings.outbox_waiting, settings.outbox_newer, settings.outbox_parked) == (1, 1, 0)
    assert (await deliverer.explain("https://a.test/new")).counts == {"pending": 2}


async def test_a_cancel_says_that_it_does_not_cover_what_a_later_version_wrote(app, db, deliverer_with):
    deliverer = deliverer_with()
    for name in ("new", "old"):
        await put(app, deliverer, name)
    await db.outbox.update_one({"activity_id": "https://a.test/new"}, {"$set": {"form": 2}})
    with pytest.raises(StoreError, match="1 of the sends that wait in the outbox were written by a later version"):
        await deliverer.cancel(sender=SENDER)
    assert await waiting(db) == {"new"}
    assert await db.jobs.count_documents({"state": "cancelled"}) == 2
    assert (await deliverer.cancel(activity="https://a.test/old")).count == 0
