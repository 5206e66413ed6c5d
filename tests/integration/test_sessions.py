# SPDX-License-Identifier: Apache-2.0
"""`send(…, session=)`: one row in the application's own transaction, queued by a worker after its commit."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import PyMongoError
from tests.waiting import until

from ojak import (
    Batch,
    ConfigError,
    ConflictingActivity,
    Deliverer,
    DelivererConfig,
    FolderSenderKeys,
    Inbox,
    InputError,
    InvalidActivity,
    PortableInbox,
    Priority,
    QueueFull,
    SentState,
    Settled,
    UnknownSender,
)
from ojak.store import enqueue as enqueue_module
from ojak.store.database import QueueDatabase
from ojak.store.embedded import embedded_mongod
from ojak.store.outbox import Pending
from ojak.store.outbox_queue import queue_pending
from ojak.store.outbox_rows import read_waiting, waiting_heads

SENDER = "https://a.test/u"
INBOXES = ["http://127.0.0.1:9/inbox/1", "http://127.0.0.1:9/inbox/2"]
"""The guard refuses these: deliveries end at once, and nothing is sent anywhere."""
KEPT_S = 1_209_600.0


def activity(name: str, kind: str = "Create", about: str = "post") -> dict[str, str]:
    return {"id": f"https://a.test/{name}", "type": kind, "object": f"https://a.test/{about}"}


@pytest.fixture
async def app(mongod_url: str) -> AsyncIterator[AsyncMongoClient[dict[str, Any]]]:
    """The application's own client, with options of its own."""
    async with AsyncMongoClient[dict[str, Any]](mongod_url, w=1, uuidRepresentation="pythonLegacy") as client:
        yield client


@pytest.fixture
async def deliverer_with(db: QueueDatabase, mongod_url: str, tmp_path) -> AsyncIterator[Callable[..., Deliverer]]:
    keys = FolderSenderKeys(tmp_path / "keys")
    keys.generate(SENDER)
    async with AsyncExitStack() as stack:

        def make(**options: Any) -> Deliverer:
            made = Deliverer(mongod_url, database=db.name, keys=keys, **options)
            stack.push_async_callback(made.close)
            return made

        yield make


@asynccontextmanager
async def transaction(client: AsyncMongoClient[dict[str, Any]]) -> AsyncIterator[AsyncClientSession]:
    async with client.start_session() as session, await session.start_transaction():
        yield session


@asynccontextmanager
async def running(deliverer: Deliverer) -> AsyncIterator[None]:
    run = asyncio.create_task(deliverer.run())
    try:
        yield
    finally:
        await deliverer.stop()
        await run


async def first_waiting(db: QueueDatabase) -> Pending:
    """What a worker has read that is paused before it queues it."""
    heads = [head async for head in waiting_heads(db)]
    item = await read_waiting(db, heads[0].row_id)
    assert isinstance(item, Pending)
    return item


async def queue_everything(db: QueueDatabase) -> None:
    for head in [head async for head in waiting_heads(db)]:
        item = await read_waiting(db, head.row_id)
        assert isinstance(item, Pending)
        await queue_pending(db, item, kept_s=KEPT_S)


async def is_empty(db: QueueDatabase) -> bool:
    return await db.outbox.count_documents({"state": "waiting"}) == 0


async def test_a_send_in_a_transaction_is_queued_and_sent_after_the_commit(app, db, deliverer_with):
    told: asyncio.Queue[Settled] = asyncio.Queue()
    deliverer = deliverer_with(on_settled=told.put, config=DelivererConfig(poll_every_s=60))
    async with running(deliverer):
        async with transaction(app) as session:
            sent = await deliverer.send(activity("1"), SENDER, [*INBOXES, "ftp://x"], session=session)
            assert sent.activity_id == "https://a.test/1"
            assert [sent.inboxes[inbox].state for inbox in INBOXES] == [SentState.PENDING] * 2
            assert sent.count(SentState.REFUSED) == 1
            assert await db.outbox.count_documents({}) == 0, "others do not see it yet"
            assert await db.jobs.count_documents({}) == 0
        ends = [await asyncio.wait_for(told.get(), 20) for _ in INBOXES]
        await until(lambda: is_empty(db))
    assert sorted(end.inbox for end in ends) == INBOXES


async def test_what_is_aborted_was_never_handed_over(app, db, deliverer_with):
    deliverer = deliverer_with()
    async with app.start_session() as session:
        await session.start_transaction()
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
        await session.abort_transaction()
    assert await db.outbox.count_documents({}) == 0
    # The same id with other bytes: nothing of the first is known.
    assert (await deliverer.send({**activity("1"), "summary": "other"}, SENDER, INBOXES)).new == 2


async def test_bad_input_is_refused_at_once_and_leaves_the_transaction_usable(app, db, deliverer_with):
    deliverer = deliverer_with(config=DelivererConfig(max_queued=2))
    async with transaction(app) as session:
        for bad, kind in (
            ({"activity": b"["}, InvalidActivity),
            ({"sender": "https://a.test/nobody"}, UnknownSender),
            ({"inboxes": "https://b.test/inbox"}, InputError),
            ({"priority": 5}, InputError),
            ({"order_key": ""}, InputError),
            ({"inboxes": [*INBOXES, "https://b.test/inbox"]}, QueueFull),
            ({"inboxes": [Inbox(f"https://b.test/{n}", ref="x" * 4000) for n in range(5000)]}, InputError),
        ):
            given: dict[str, Any] = {"activity": activity("1"), "sender": SENDER, "inboxes": INBOXES, **bad}
            roomy = deliverer if kind is QueueFull else deliverer_with()
            with pytest.raises(kind):
                await roomy.send(**given, session=session)
        await deliverer.send(activity("2"), SENDER, INBOXES, session=session)
    assert await db.outbox.count_documents({}) == 1


async def test_a_session_has_to_be_of_an_async_client_of_the_same_mongodb(
    app, db, deliverer_with, mongod_url, tmp_path_factory
):
    deliverer = deliverer_with()
    with MongoClient[dict[str, Any]](mongod_url) as blocking, blocking.start_session() as session:
        wrong: Any
        for wrong in ("a session", session):
            with pytest.raises(InputError, match=r"session is a .*; allowed is one of an AsyncMongoClient"):
                await deliverer.send(activity("1"), SENDER, INBOXES, session=wrong)
    with embedded_mongod(tmp_path_factory.mktemp("other")) as other:
        async with AsyncMongoClient[dict[str, Any]](other.url) as elsewhere, transaction(elsewhere) as session:
            with pytest.raises(ConfigError, match="session belongs to a client of another MongoDB"):
                await deliverer.send(activity("1"), SENDER, INBOXES, session=session)


async def test_what_the_driver_raises_passes_so_that_a_transaction_can_be_repeated(app, db, deliverer_with):
    deliverer = deliverer_with()
    async with app.start_session() as session:
        await session.start_transaction()
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
        await app.admin.command("killAllSessions", [])
        with pytest.raises(PyMongoError) as raised:
            await deliverer.send(activity("2"), SENDER, INBOXES, session=session)
        assert raised.value.has_error_label("TransientTransactionError")


async def test_everything_that_a_send_carries_travels_in_the_row(app, db, deliverer_with):
    deliverer = deliverer_with()
    batch = Batch(tag="t", deadline=timedelta(hours=1), order_key="k")
    body = b'{ "id": "https://a.test/1", "type": "Create" }'
    shared = Inbox("HTTPS://B.test:443/inbox", shared=True, ref="r")
    before = datetime.now(UTC)
    async with transaction(app) as session:
        await deliverer.send_batch(body, SENDER, [shared], batch, priority=Priority.FANOUT, session=session)
    # It waited here for a while.
    await db.outbox.update_many({}, {"$set": {"ignored": "a field of a later version"}})
    await queue_everything(db)
    row = await db.jobs.find_one({})
    assert row is not None
    assert (row["inbox"], row["shared"], row["ref"]) == ("https://b.test/inbox", True, "r")
    assert (row["sender"], row["priority"], row["batch"], row["activity"]) == (SENDER, 1, "t", "https://a.test/1")
    assert abs(row["give_up_at"] - before - timedelta(hours=1)) < timedelta(minutes=1)
    stored = await db.bodies.find_one({})
    assert stored is not None
    assert stored["bytes"] == body
    assert (await deliverer.follow("t")).deadline == row["give_up_at"]
    assert "order" in row


async def test_the_small_and_the_many_stand_in_their_lines(app, db, deliverer_with):
    deliverer = deliverer_with(config=DelivererConfig(small_send=2))
    async with transaction(app) as session:
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
        await deliverer.send(activity("2", about="p2"), SENDER, [*INBOXES, "https://b.test/i"], session=session)
    await queue_everything(db)
    assert await db.jobs.count_documents({"priority": 0}) == 2
    assert await db.jobs.count_documents({"priority": 1}) == 3


async def test_a_crash_between_queueing_and_taking_out_queues_nothing_twice_and_revives_nothing(
    app, db, deliverer_with
):
    deliverer = deliverer_with()
    async with transaction(app) as session:
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
    (row,) = [row async for row in db.outbox.find({})]
    await queue_everything(db)
    await db.jobs.update_one({"inbox": INBOXES[0]}, {"$set": {"state": "recipient-gone", "end": 1, "told": True}})
    # The process died before its last statement.
    await db.outbox.insert_one(row)
    await queue_everything(db)
    assert await is_empty(db)
    assert await db.jobs.count_documents({}) == 2
    assert await db.jobs.count_documents({"state": "recipient-gone", "end": 1}) == 1
    # A new send of the same counts again.
    async with transaction(app) as session:
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
    await queue_everything(db)
    assert await db.jobs.count_documents({"state": "queued"}) == 2


async def test_two_that_empty_the_outbox_at_once_queue_nothing_twice(app, db, deliverer_with, monkeypatch):
    """The first stops after it has read the row; the second queues it and all that comes after it."""
    deliverer = deliverer_with()
    async with transaction(app) as session:
        await deliverer.send(activity("c", "Create"), SENDER, INBOXES, session=session)
    create = await first_waiting(db)
    async with transaction(app) as session:
        await deliverer.send(activity("d", "Delete"), SENDER, INBOXES, session=session)
    await queue_everything(db)
    await queue_pending(db, create, kept_s=KEPT_S)
    assert await db.jobs.count_documents({"activity": "https://a.test/c", "state": "superseded"}) == 2
    assert await db.jobs.count_documents({"activity": "https://a.test/d", "state": "queued"}) == 2
    assert enqueue_module.FIRST_CHUNK > 2


async def test_what_is_about_the_same_keeps_its_order_and_a_large_send_holds_up_no_other(app, db, deliverer_with):
    deliverer = deliverer_with()
    many = [f"https://h{n}.test/i" for n in range(3000)]
    async with transaction(app) as session:
        await deliverer.send(activity("c", "Create"), SENDER, many, session=session)
        for n in range(5):
            await deliverer.send(activity(f"u{n}", "Update"), SENDER, ["https://h0.test/i"], session=session)
        await deliverer.send(activity("x", "Create", about="other"), SENDER, ["https://h1.test/i"], session=session)
    async with running(deliverer_with(config=DelivererConfig(poll_every_s=0.05, concurrency=1))):
        await until(lambda: is_empty(db))
    names = ["c", *(f"u{n}" for n in range(5))]
    rows = db.jobs.find({"inbox": "https://h0.test/i"}).sort("seq")
    assert [row["activity"].rpartition("/")[2] async for row in rows] == names
    other = await db.jobs.find_one({"activity": "https://a.test/x"})
    last = await db.jobs.find_one({"activity": "https://a.test/c"}, sort=[("seq", -1)])
    assert other is not None
    assert last is not None
    assert other["seq"] < last["seq"]


async def test_a_send_without_a_session_does_not_overtake_what_was_committed_before_it(app, db, deliverer_with):
    """No worker runs: the Create waits in the outbox when its Delete is sent by another process."""
    deliverer, other = deliverer_with(), deliverer_with()
    async with transaction(app) as session:
        await deliverer.send(activity("c", "Create"), SENDER, INBOXES, session=session)
    await other.send(activity("d", "Delete"), SENDER, INBOXES)
    assert await is_empty(db)
    assert await db.jobs.count_documents({"activity": "https://a.test/c", "state": "superseded"}) == 2
    assert await db.jobs.count_documents({"activity": "https://a.test/d", "state": "queued"}) == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"form": 0}, "its form is 0, not 1"),
        ({"form": "two"}, "its form is 'two', not 1"),
        ({"activity": b"["}, "activity is not JSON"),
        ({"inboxes": [{"url": "nonsense", "shared": False, "ref": None}]}, "inbox url is"),
        ({"activity": 10**15}, "where bytes are allowed"),
        ({"inboxes": 7}, "TypeError"),
        ({"priority": 7}, "7 is not a valid Priority"),
        ({"sender": None}, "sender is None;"),
        ({"batch": {"tag": "t", "colour": 1}}, "TypeError"),
    ],
)
async def test_a_row_that_cannot_be_read_is_parked_with_its_reason_and_in_nobodys_way(
    app, db, deliverer_with, change, reason
):
    deliverer = deliverer_with(config=DelivererConfig(poll_every_s=0.05))
    async with transaction(app) as session:
        await deliverer.send(activity("1"), SENDER, INBOXES, session=session)
    await db.outbox.update_one({}, {"$set": change})
    async with transaction(app) as session:
        await deliverer.send(activity("2", about="p2"), SENDER, INBOXES, session=session)
    async with running(deliverer):
        await until(lambda: is_empty(db))
    (row,) = [row async for row in db.outbox.find({})]
    assert row["state"] == "parked"
    assert reason in row["reason"]
    assert row["expire_at"] - row["parked_at"] == timedelta(days=30)
    assert {row["activity"] async for row in db.jobs.find({})} == {"https://a.test/2"}


async def test_an_id_that_is_being_delivered_with_other_bytes_is_refused_at_once_or_else_parked(
    app, db, deliverer_with
):
    deliverer = deliverer_with()
    other = {**activity("1"), "summary": "other"}
    async with transaction(app) as session:
        await deliverer.send(other, SENDER, INBOXES, session=session)
    await db.outbox.update_one({}, {"$set": {"state": "held back"}})
    await deliverer.send(activity("1"), SENDER, INBOXES)
    async with transaction(app) as session:
        with pytest.raises(ConflictingActivity):
            await deliverer.send(other, SENDER, INBOXES, session=session)
    await db.outbox.update_one({}, {"$set": {"state": "waiting"}})
    await queue_everything(db)
    row = await db.outbox.find_one({"state": "parked"})
    assert row is not None
    assert "was handed over before with other bytes" in row["reason"]


async def test_portable_inboxes_travel_with_their_gateways(app, db, deliverer_with):
    deliverer = deliverer_with()
    uri = "ap://did:key:z6MkjchhfUsD6mmvni8mCdXHw216Xrm9bQe2mBH1P5RDjVJG/actor/inbox"
    inbox = PortableInbox(uri, ["https://G1.test/", "https://g2.test"], ref="r")
    async with transaction(app) as session:
        sent = await deliverer.send_portable(activity("1"), SENDER, [inbox], session=session)
    assert [told.state for told in sent.inboxes.values()] == [SentState.PENDING]
    await queue_everything(db)
    handed = await db.jobs.find_one({})
    await db.jobs.delete_many({})
    assert (await deliverer.send_portable(activity("1"), SENDER, [inbox])).new == 1
    direct = await db.jobs.find_one({})
    assert handed is not None
    assert direct is not None
    same = ("_id", "lane", "dest", "inbox", "gateways", "ref", "portable", "at", "priority")
    assert {name: handed.get(name) for name in same} == {name: direct.get(name) for name in same}


async def test_what_waits_in_the_outbox_takes_room_in_the_queue(app, db, deliverer_with):
    for n in range(3):
        async with transaction(app) as session:
            await deliverer_with().send(activity(str(n), about=str(n)), SENDER, INBOXES, session=session)
    config = DelivererConfig(max_queued=5)
    with pytest.raises(QueueFull, match="holds about 3 deliveries and 3 more"):
        await deliverer_with(config=config).send(activity("9"), SENDER, [f"https://b.test/{n}" for n in range(3)])
    deliverer = deliverer_with(config=config)
    async with transaction(app) as session:
        await deliverer.send(activity("9"), SENDER, INBOXES, session=session)
        with pytest.raises(QueueFull):
            await deliverer.send(activity("10"), SENDER, INBOXES, session=session)
