# SPDX-License-Identifier: Apache-2.0
import asyncio

import pytest

from ojak.model.outcome import SentState, SettledOutcome
from ojak.store import enqueue as enqueue_module
from ojak.store.bodies import ConflictingActivity
from ojak.store.database import QueueDatabase
from ojak.store.enqueue import CHUNK
from ojak.store.now import NEVER


async def test_a_send_makes_one_row_an_inbox_and_its_host_due(db: QueueDatabase, put):
    answers = await put(["https://h.test/a", "https://h.test/b", "https://g.test/a"])
    assert [answer.state for answer in answers] == [SentState.NEW] * 3
    assert await db.jobs.count_documents({"state": "queued"}) == 3
    hosts = {row["_id"]: row async for row in db.hosts.find()}
    assert set(hosts) == {"h.test", "g.test"}
    for host in hosts.values():
        assert host["due"]["1"] < NEVER
        assert host["due"]["0"] == NEVER
        assert host["ready"] == host["due"]
        assert "expire_at" not in host


async def test_rows_get_a_rising_seq_from_the_server(db: QueueDatabase, put):
    await put([f"https://h{n}.test/" for n in range(5)])
    seqs = [row["seq"] async for row in db.jobs.find().sort("lane", 1)]
    assert len(set(seqs)) == 5
    assert all(seq.time > 0 for seq in seqs)


async def test_the_same_again_is_a_duplicate_and_queues_nothing(db: QueueDatabase, put):
    await put(["https://h.test/a"])
    answers = await put(["https://h.test/a", "https://h.test/b"])
    assert [answer.state for answer in answers] == [SentState.DUPLICATE, SentState.NEW]
    assert await db.jobs.count_documents({}) == 2


async def test_a_duplicate_makes_its_host_due_again_since_the_first_sender_may_have_died(db: QueueDatabase, put):
    await put(["https://h.test/a"])
    await db.hosts.update_one({"_id": "h.test"}, {"$set": {"due.1": NEVER, "ready.1": NEVER}})
    await put(["https://h.test/a"])
    host = await db.hosts.find_one({"_id": "h.test"})
    assert host is not None
    assert host["ready"]["1"] < NEVER


async def test_a_duplicate_in_the_other_line_makes_its_host_due_in_the_line_where_it_stands(db: QueueDatabase, put):
    """What a sender hands over many of is a fan-out: the second send may stand in another line than the first."""
    await put(["https://h.test/a"])
    await db.jobs.update_one({}, {"$set": {"priority": 0}})
    await db.hosts.delete_many({})
    await put(["https://h.test/a"])
    host = await db.hosts.find_one({"_id": "h.test"})
    assert host is not None
    assert host["ready"]["0"] < NEVER
    assert host["ready"]["1"] == NEVER


@pytest.mark.parametrize("nonsense", [{"a": 1}, [1], "1", 7, None])
async def test_a_duplicate_whose_line_cannot_be_read_makes_its_host_due_in_that_of_the_send(db, put, nonsense):
    await put(["https://h.test/a"])
    await db.jobs.update_one({}, {"$set": {"priority": nonsense}})
    await db.hosts.delete_many({})
    (answer,) = await put(["https://h.test/a"])
    assert answer.state is SentState.DUPLICATE
    host = await db.hosts.find_one({"_id": "h.test"})
    assert host is not None
    assert host["ready"]["1"] < NEVER


async def test_sixteen_senders_at_once_queue_each_delivery_once(db: QueueDatabase, put):
    inboxes = [f"https://h{n % 7}.test/{n}" for n in range(100)]
    answers = await asyncio.gather(*(put(inboxes) for _ in range(16)))
    new = [sum(answer.state is SentState.NEW for answer in of_one) for of_one in answers]
    assert sum(new) == 100
    assert await db.jobs.count_documents({}) == 100


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("delivered", SentState.ENDED),
        ("refused", SentState.ENDED),
        ("recipient-gone", SentState.NEW),
        ("out-of-retries", SentState.NEW),
        ("cancelled", SentState.NEW),
    ],
)
async def test_what_a_new_send_counts_for_depends_on_how_the_first_ended(db: QueueDatabase, put, state, expected):
    await put(["https://h.test/a"])
    before = await db.jobs.find_one()
    await db.jobs.update_one({}, {"$set": {"state": state, "end": 1, "told": True, "tries": 3}})
    (answer,) = await put(["https://h.test/a"])
    assert answer.state is expected
    row = await db.jobs.find_one()
    assert before is not None
    assert row is not None
    if expected is SentState.NEW:
        assert (row["state"], row["tries"]) == ("queued", 0)
        assert row["seq"] > before["seq"]
        assert "told" not in row
    else:
        assert answer.outcome == SettledOutcome(state)
        assert row["state"] == state


async def test_an_untold_end_is_owed_when_its_row_is_revived(db: QueueDatabase, put):
    await put(["https://h.test/a"])
    await db.jobs.update_one({}, {"$set": {"state": "recipient-gone", "end": 1, "told": False, "tries": 2}})
    await put(["https://h.test/a"])
    row = await db.jobs.find_one()
    assert row is not None
    assert [(owed["end"], owed["state"], owed["tries"]) for owed in row["owed"]] == [(1, "recipient-gone", 2)]


async def test_the_same_id_with_other_bytes_is_refused_until_the_first_has_ended(db: QueueDatabase, put):
    await put(["https://h.test/a"], note="first")
    with pytest.raises(ConflictingActivity, match=r"https://a\.test/1"):
        await put(["https://h.test/b"], note="second")
    await db.jobs.update_many({}, {"$set": {"state": "delivered"}})
    (answer,) = await put(["https://h.test/b"], note="second")
    assert answer.state is SentState.NEW


async def test_a_fan_out_of_thousands_goes_in_in_chunks(db: QueueDatabase, put):
    answers = await put([f"https://h{n % 50}.test/{n}" for n in range(CHUNK + 200)])
    assert len(answers) == CHUNK + 200
    assert await db.jobs.count_documents({}) == CHUNK + 200
    assert await db.hosts.count_documents({}) == 50


async def test_a_revived_delivery_is_what_the_new_send_says(db: QueueDatabase, put):
    await put(["https://h.test/a"])
    await db.jobs.update_one(
        {}, {"$set": {"state": "out-of-retries", "end": 1, "told": True, "ref": "old", "sender": "x", "shared": True}}
    )
    await db.jobs.update_one({}, {"$set": {"last": {"status": 410}}})
    (answer,) = await put(["https://h.test/a"])
    row = await db.jobs.find_one()
    assert answer.state is SentState.NEW
    assert row is not None
    assert (row["ref"], row["sender"], row["shared"]) == (None, "https://a.test/u", False)
    assert "last" not in row


async def test_a_row_that_expires_under_a_duplicate_is_queued_again(db: QueueDatabase, put, monkeypatch):
    await put(["https://h.test/a"])
    insert = enqueue_module._insert_new
    calls = 0

    async def insert_and_expire(db, rows, places):
        nonlocal calls
        calls += 1
        taken = await insert(db, rows, places)
        if calls == 1:
            await db.jobs.delete_many({})
        return taken

    monkeypatch.setattr(enqueue_module, "_insert_new", insert_and_expire)
    (answer,) = await put(["https://h.test/a"])
    assert answer.state is SentState.NEW
    assert await db.jobs.count_documents({"state": "queued"}) == 1
