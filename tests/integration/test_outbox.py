# SPDX-License-Identifier: Apache-2.0
"""What is committed and not queued yet: cancelled with the rest, kept while the database refuses, read once."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import AutoReconnect, OperationFailure
from pymongo.monitoring import CommandListener, CommandStartedEvent
from tests.integration.test_sessions import (
    INBOXES,
    KEPT_S,
    SENDER,
    activity,
    app,
    deliverer_with,
    first_waiting,
    is_empty,
    queue_everything,
    running,
    transaction,
)
from tests.waiting import until

from ojak import Batch, DelivererConfig, FolderSenderKeys, PortableInbox
from ojak.errors import QueueUnavailable, StoreError
from ojak.store import enqueue, outbox_queue, outbox_rows, outbox_selected
from ojak.store.batches import UnknownBatch
from ojak.store.database import QueueDatabase
from ojak.store.explain import UnknownActivity
from ojak.store.outbox import Pending

__all__ = ["app", "deliverer_with"]

OUT_OF_DISK_SPACE = 14031
URI = "ap://did:key:z6MkjchhfUsD6mmvni8mCdXHw216Xrm9bQe2mBH1P5RDjVJG/actor/inbox"


@pytest.mark.parametrize(
    "which",
    [
        {"activity": "https://a.test/1"},
        {"object": "https://a.test/post"},
        {"sender": SENDER},
        {"host": "127.0.0.1:9"},
        {"batch": "t"},
    ],
    ids=lambda which: next(iter(which)),
)
async def test_cancel_ends_what_is_committed_and_not_queued_yet(app, db, deliverer_with, tmp_path, which):
    other_sender = f"{SENDER}2"
    FolderSenderKeys(tmp_path / "keys").generate(other_sender)
    deliverer = deliverer_with()
    async with transaction(app) as session:
        await deliverer.send_batch(activity("1"), SENDER, INBOXES, Batch(tag="t"), session=session)
    async with transaction(app) as session:
        other = {"id": "https://a.test/2", "type": "Like", "object": "https://c.test/p"}
        await deliverer.send(other, other_sender, ["https://b.test/i"], session=session)
    cancelled = await deliverer.cancel(**which)
    assert (cancelled.count, cancelled.on_wire) == (2, 0)
    assert await db.jobs.count_documents({"state": "cancelled", "told": False}) == 2, "their ends are told as any"
    assert await db.jobs.count_documents({}) == 2
    assert await db.outbox.count_documents({"sender": other_sender, "state": "waiting"}) == 1


async def test_cancel_by_host_finds_gateways_and_no_host_that_only_looks_like_it(app, db, deliverer_with):
    deliverer = deliverer_with()
    async with transaction(app) as session:
        near = ["https://b.test.example/i", "https://xb.test/i", "https://b.test:8443/i", "https://c.test/b.test/i"]
        await deliverer.send(activity("1"), SENDER, near, session=session)
    async with transaction(app) as session:
        inbox = PortableInbox(URI, ["https://b.test"])
        await deliverer.send_portable(activity("2", about="p2"), SENDER, [inbox], session=session)
    assert (await deliverer.cancel(host="b.test")).count == 1
    assert await db.outbox.count_documents({"activity_id": "https://a.test/1"}) == 1


async def test_a_worker_that_was_paused_in_the_middle_revives_nothing_that_was_cancelled(app, db, deliverer_with):
    deliverer = deliverer_with()
    async with transaction(app) as session:
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
    paused = await first_waiting(db)
    assert (await deliverer.cancel(sender=SENDER)).count == 2
    await outbox_queue.queue_pending(db, paused, kept_s=KEPT_S)
    assert await db.jobs.count_documents({"state": "cancelled"}) == 2
    assert await db.jobs.count_documents({}) == 2


async def test_what_a_plain_send_queued_and_a_cancel_ended_is_not_revived_by_a_worker_that_was_paused(
    app, db, deliverer_with
):
    """The row that stands is of the plain send, and keeps no mark of the outbox row that meant the same delivery."""
    deliverer = deliverer_with()
    await deliverer.send(activity("1"), SENDER, INBOXES)
    async with transaction(app) as session:
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
    paused = await first_waiting(db)
    assert (await deliverer.cancel(sender=SENDER)).count == 2
    await outbox_queue.queue_pending(db, paused, kept_s=KEPT_S)
    assert await db.jobs.count_documents({"state": "cancelled", "end": 1}) == 2
    assert await db.jobs.count_documents({}) == 2


async def test_what_was_cancelled_again_while_a_worker_was_about_to_revive_it_stays_so(
    app, db, deliverer_with, monkeypatch
):
    """The worker has seen that its row still waits, and is paused before it writes: the end has another number then."""
    deliverer = deliverer_with()
    await deliverer.send(activity("1"), SENDER, INBOXES)
    assert (await deliverer.cancel(sender=SENDER)).count == 2
    async with transaction(app) as session:
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
    paused = await first_waiting(db)
    still_waits = enqueue._still_waits

    async def looked_and_paused(*args: Any) -> bool:
        found = await still_waits(*args)
        monkeypatch.setattr(enqueue, "_still_waits", still_waits)
        assert (await deliverer.cancel(sender=SENDER)).count == 2
        return found

    monkeypatch.setattr(enqueue, "_still_waits", looked_and_paused)
    await outbox_queue.queue_pending(db, paused, kept_s=KEPT_S)
    assert await db.jobs.count_documents({"state": "cancelled", "end": 2}) == 2
    assert await db.jobs.count_documents({}) == 2


async def test_a_cancel_goes_on_past_what_the_database_refuses_to_queue(app, db, deliverer_with, monkeypatch):
    """It says so in the end; everything else is cancelled by then."""
    deliverer = deliverer_with()
    await deliverer.send(activity("0", about="p0"), SENDER, INBOXES)
    for name in ("1", "2", "3"):
        async with transaction(app) as session:
            await deliverer.send(activity(name, about=f"p{name}"), SENDER, INBOXES, session=session)
    queue = outbox_queue._queue

    async def refuse_one(db: QueueDatabase, send: Pending, *, kept_s: float) -> None:
        if send.activity.identity == "https://a.test/2":
            raise OperationFailure("no space left", OUT_OF_DISK_SPACE, {"errmsg": "no space left"})
        await queue(db, send, kept_s=kept_s)

    monkeypatch.setattr(outbox_queue, "_queue", refuse_one)
    with pytest.raises(StoreError, match="no space left"):
        await deliverer.cancel(sender=SENDER)
    assert await db.jobs.count_documents({"state": "cancelled"}) == 6
    assert await db.jobs.count_documents({}) == 6
    assert await db.outbox.count_documents({"state": "waiting", "activity_id": "https://a.test/2"}) == 1
    monkeypatch.setattr(outbox_queue, "_queue", queue)
    assert (await deliverer.cancel(sender=SENDER)).count == 2


async def test_a_cancel_of_a_database_that_is_away_for_the_outbox_still_ends_what_is_queued(
    app, db, deliverer_with, monkeypatch
):
    deliverer = deliverer_with()
    await deliverer.send(activity("0", about="p0"), SENDER, INBOXES)
    for name in ("1", "2"):
        async with transaction(app) as session:
            await deliverer.send(activity(name, about=f"p{name}"), SENDER, INBOXES, session=session)
    asked = Counter[str]()

    async def away(_: object, send: Pending, **__: object) -> None:
        asked[send.activity.identity] += 1
        raise AutoReconnect("gone")

    monkeypatch.setattr(outbox_queue, "_queue", away)
    with pytest.raises(QueueUnavailable):
        await deliverer.cancel(sender=SENDER)
    assert await db.jobs.count_documents({"state": "cancelled"}) == 2
    assert asked.total() == 1, "it is not asked a thousand times"


async def test_a_cancel_of_much_that_waits_ends_page_by_page(app, db, deliverer_with, monkeypatch):
    """Else workers begin the first while the last is being queued."""
    deliverer = deliverer_with()
    for n in range(5):
        async with transaction(app) as session:
            await deliverer.send(activity(str(n), about=f"p{n}"), SENDER, INBOXES, session=session)
    queue, waited = outbox_queue._queue, list[int]()

    async def counted(db: QueueDatabase, send: Pending, *, kept_s: float) -> None:
        waited.append(await db.jobs.count_documents({"state": "queued"}))
        await queue(db, send, kept_s=kept_s)

    monkeypatch.setattr(outbox_queue, "_queue", counted)
    monkeypatch.setattr(outbox_selected, "_AT_A_TIME", 2)
    assert (await deliverer.cancel(sender=SENDER)).count == 10
    assert waited == [0, 2, 0, 2, 0]


async def test_purging_a_host_ends_what_is_committed_for_it_and_not_queued_yet(app, db, deliverer_with):
    deliverer = deliverer_with()
    async with transaction(app) as session:
        await deliverer.send(activity("1"), SENDER, [*INBOXES, "https://b.test/i"], session=session)
    assert (await deliverer.purge_host("127.0.0.1:9")).count == 2
    assert await db.jobs.count_documents({"state": "cancelled"}) == 2
    assert await db.jobs.count_documents({"state": "queued", "lane": "b.test"}) == 1


@pytest.mark.parametrize("by", ["send", "cancel"])
async def test_what_is_about_the_same_by_another_key_is_queued_before_it(app, db, deliverer_with, by):
    """The Delete has a key of the application's beside its object: through it, that key leads to the Create."""
    deliverer = deliverer_with()
    async with transaction(app) as session:
        await deliverer.send(activity("c", "Create"), SENDER, INBOXES, session=session)
    async with transaction(app) as session:
        await deliverer.send(activity("d", "Delete"), SENDER, INBOXES, order_key="b", session=session)
    async with transaction(app) as session:
        await deliverer.send(activity("later", "Update"), SENDER, INBOXES, session=session)
    if by == "send":
        await deliverer.send(activity("x", "Like", about="y"), SENDER, INBOXES, order_key="b")
    else:
        assert (await deliverer.cancel(activity="https://a.test/d")).count == 2
    await queue_everything(db)
    ends = {row["state"] async for row in db.jobs.find({"activity": "https://a.test/c"})}
    assert ends == {"superseded"}
    create = await db.jobs.find_one({"activity": "https://a.test/c"}, sort=[("seq", -1)])
    delete = await db.jobs.find_one({"activity": "https://a.test/d"}, sort=[("seq", 1)])
    assert create is not None
    assert delete is not None
    assert create["seq"] < delete["seq"]


async def test_only_what_goes_before_it_is_queued_for_a_send(app, db, deliverer_with):
    """What is about the same and was handed over after it waits for its worker."""
    deliverer = deliverer_with()
    async with transaction(app) as session:
        await deliverer.send(activity("c", "Create"), SENDER, INBOXES, order_key="b", session=session)
    async with transaction(app) as session:
        await deliverer.send(activity("u", "Update"), SENDER, INBOXES, session=session)
    await deliverer.send(activity("x", "Like", about="y"), SENDER, INBOXES, order_key="b")
    waiting = [row["activity_id"] async for row in db.outbox.find({"state": "waiting"})]
    assert waiting == ["https://a.test/u"]


async def test_what_is_committed_and_not_queued_yet_is_followed_and_explained(app, db, deliverer_with):
    deliverer = deliverer_with()
    batch = Batch(tag="t", deadline=timedelta(hours=1))
    for name in ("1", "2"):
        async with transaction(app) as session:
            await deliverer.send_batch(activity(name, about=f"p{name}"), SENDER, INBOXES, batch, session=session)
    # As a version wrote it that did not count.
    await db.outbox.update_one({"activity_id": "https://a.test/2"}, {"$unset": {"count": ""}})
    progress = await deliverer.follow("t")
    assert (progress.counts, progress.total, progress.unfinished) == ({"pending": 4}, 4, 4)
    assert progress.deadline is not None
    assert timedelta(minutes=59) < progress.deadline - progress.began_at <= timedelta(minutes=61)
    assert progress.ends_at is None
    explanation = await deliverer.explain("https://a.test/1")
    assert (explanation.counts, explanation.total, explanation.deliveries) == ({"pending": 2}, 2, ())
    head = await first_waiting(db)
    await outbox_queue.queue_pending(db, head, kept_s=KEPT_S)
    assert (await deliverer.follow("t")).counts == {"queued": 2, "pending": 2}
    assert (await deliverer.explain("https://a.test/1")).counts == {"queued": 2}
    await queue_everything(db)
    assert (await deliverer.follow("t")).counts == {"queued": 4}
    with pytest.raises(UnknownBatch):
        await deliverer.follow("nothing")
    with pytest.raises(UnknownActivity):
        await deliverer.explain("https://a.test/nothing")


async def test_what_the_database_refuses_today_still_waits(app, db, deliverer_with, monkeypatch):
    """A full disk, or a right that somebody took away: the send was promised, and is no fault of its row."""
    deliverer = deliverer_with(config=DelivererConfig(poll_every_s=0.05))
    queue, refused = outbox_queue._queue, Counter[bytes]()

    async def refuse(_: object, send: Pending, **__: object) -> None:
        refused[send.row_id] += 1
        raise OperationFailure("no space left", OUT_OF_DISK_SPACE, {"errmsg": "no space left"})

    monkeypatch.setattr(outbox_queue, "_queue", refuse)
    async with transaction(app) as session:
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)

    async def tried_again() -> bool:
        return refused.total() > 1

    async with running(deliverer):
        await until(tried_again)
        assert await db.outbox.count_documents({"state": "waiting"}) == 1
        monkeypatch.setattr(outbox_queue, "_queue", queue)
        await until(lambda: is_empty(db))
    assert await db.outbox.count_documents({}) == 0, "nothing is parked"
    assert await db.jobs.count_documents({}) == 2


async def test_each_row_is_read_whole_once(app, db, deliverer_with, monkeypatch):
    """A row may have 15 MB, and a hundred of them may wait."""
    deliverer = deliverer_with(config=DelivererConfig(poll_every_s=0.05))
    for n in range(40):
        async with transaction(app) as session:
            await deliverer.send(activity(str(n), about=f"p{n}"), SENDER, INBOXES, session=session)
    read, whole = outbox_rows._read, Counter[bytes]()

    def counted(row: dict[str, Any]) -> Pending | outbox_rows.Unreadable:
        whole[row["_id"]] += 1
        return read(row)

    monkeypatch.setattr(outbox_rows, "_read", counted)
    async with running(deliverer):
        await until(lambda: is_empty(db))
    assert (len(whole), max(whole.values())) == (40, 1)


class Inserts(CommandListener):
    def __init__(self) -> None:
        self.concerns: list[object] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.command.get("insert") == "outbox":
            self.concerns.append(event.command.get("writeConcern"))

    def succeeded(self, event: object) -> None: ...

    def failed(self, event: object) -> None: ...


@pytest.fixture
async def watched(mongod_url: str) -> AsyncIterator[tuple[AsyncMongoClient[dict[str, Any]], Inserts]]:
    inserts = Inserts()
    async with AsyncMongoClient[dict[str, Any]](mongod_url, w=1, event_listeners=[inserts]) as client:
        yield client, inserts


async def test_a_session_without_a_transaction_writes_for_a_majority(watched, db, deliverer_with):
    """What the application's own client waits for may be less than what nothing is lost with."""
    client, inserts = watched
    deliverer = deliverer_with()
    async with client.start_session() as session:
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
    async with transaction(client) as session:
        await deliverer.send(activity("2"), SENDER, INBOXES, session=session)
    assert inserts.concerns == [{"w": "majority"}, None], "in a transaction, its commit decides"
    assert await db.outbox.count_documents({}) == 2
