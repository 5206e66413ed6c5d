# SPDX-License-Identifier: Apache-2.0
"""`ojak.sync.Deliverer`: from plain threads, from many at once, inside a transaction, across a fork."""

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from pymongo import MongoClient

from ojak import (
    Batch,
    ConfigError,
    DelivererConfig,
    FolderSenderKeys,
    InputError,
    InvalidActivity,
    Outbound,
    PortableInbox,
    QueueFull,
    QueueUnavailable,
    SentState,
    UnknownSender,
    sync,
)
from ojak.store import database
from ojak.store.database import QueueDatabase

SENDER = "https://a.test/u"
INBOXES = ["https://b.test/inbox", "https://c.test/inbox"]


def activity(name: str) -> dict[str, str]:
    return {"id": f"https://a.test/{name}", "type": "Like", "object": "https://b.test/o"}


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("ojak")}


@pytest.fixture
def queue(db: QueueDatabase, mongod_url: str) -> Iterator[Any]:
    """The queue's database, for a look from outside the loop."""
    with MongoClient[dict[str, Any]](mongod_url) as client:
        yield client[db.name]


@pytest.fixture
def deliverer_with(db: QueueDatabase, mongod_url: str) -> Iterator[Callable[..., sync.Deliverer]]:
    with ExitStack() as stack:

        def make(given: Any = mongod_url, **options: Any) -> sync.Deliverer:
            made = sync.Deliverer(given, database=db.name, **options)
            stack.callback(made.close)
            return made

        yield make
    assert threads() == set()


def test_a_send_is_queued_and_its_answer_is_that_of_the_other_deliverer(deliverer_with, queue):
    with deliverer_with() as deliverer:
        sent = deliverer.send(activity("1"), SENDER, [*INBOXES, "ftp://x"])
        assert (sent.new, len(sent.refused)) == (2, 1)
        assert deliverer.send(activity("1"), SENDER, INBOXES).count(SentState.DUPLICATE) == 2
        assert threads() == {"ojak-sync"}
    assert threads() == set()
    assert queue.jobs.count_documents({}) == 2


def test_blocked_domains_are_refused(deliverer_with, queue):
    deliverer = deliverer_with(outbound=Outbound(blocked_domains=("blocked.test",)))
    sent = deliverer.send(activity("1"), SENDER, [*INBOXES, "https://www.blocked.test/inbox"])
    assert list(sent.refused) == ["https://www.blocked.test/inbox"]
    assert queue.jobs.count_documents({}) == 2


def test_a_batch_has_its_tag_and_its_deadline(deliverer_with, queue):
    deliverer = deliverer_with()
    deliverer.send_batch(activity("1"), SENDER, INBOXES, Batch(tag="t", deadline=timedelta(hours=1)))
    assert queue.jobs.count_documents({"batch": "t", "give_up_at": {"$exists": True}}) == 2
    tag: Any = "t"
    with pytest.raises(InputError, match="batch is a str"):
        deliverer.send_batch(activity("2"), SENDER, INBOXES, tag)


def test_what_is_wrong_is_raised_where_the_call_is(deliverer_with, tmp_path, monkeypatch):
    keys = FolderSenderKeys(tmp_path)
    keys.generate(SENDER)
    deliverer = deliverer_with(keys=keys, config=DelivererConfig(max_queued=1))
    with pytest.raises(InvalidActivity):
        deliverer.send(b"[", SENDER, INBOXES)
    with pytest.raises(UnknownSender):
        deliverer.send(activity("1"), "https://a.test/nobody", INBOXES)
    with pytest.raises(InputError, match="order_key"):
        deliverer.send(activity("1"), SENDER, INBOXES, order_key="")
    with pytest.raises(QueueFull):
        deliverer.send(activity("1"), SENDER, INBOXES)
    monkeypatch.setitem(database._CLIENT_OPTIONS, "serverSelectionTimeoutMS", 100)
    away = deliverer_with("mongodb://nowhere.invalid/")
    for _ in range(2):
        with pytest.raises(QueueUnavailable):
            away.send(activity("1"), SENDER, INBOXES)
    with pytest.raises(QueueUnavailable), away:
        pytest.fail("it was entered")
    with pytest.raises(ConfigError, match="queue is empty"):
        deliverer_with(" ")
    with pytest.raises(ConfigError, match="database is"):
        sync.Deliverer("mongodb://nowhere.invalid/", database="a b")


def test_once_closed_it_says_so_and_closing_again_is_no_fault(deliverer_with):
    deliverer = deliverer_with()
    deliverer.send(activity("1"), SENDER, INBOXES)
    deliverer.close()
    deliverer.close()
    with pytest.raises(ConfigError, match=r"sync\.Deliverer that was closed"):
        deliverer.send(activity("2"), SENDER, INBOXES)


def test_one_that_is_forgotten_leaves_no_thread(db, mongod_url):
    deliverer = sync.Deliverer(mongod_url, database=db.name)
    deliverer.send(activity("1"), SENDER, INBOXES)
    del deliverer
    gc.collect()
    assert threads() == set()


def test_eight_threads_at_once_and_what_is_under_way_ends_before_it_is_closed(deliverer_with, queue):
    deliverer = deliverer_with()
    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(lambda n: deliverer.send(activity(str(n)), SENDER, INBOXES), range(200)))
    assert sum(answer.new for answer in sent) == 400
    assert queue.jobs.count_documents({}) == 400
    many = [f"https://h{n}.test/inbox" for n in range(3000)]
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(lambda: deliverer.send(activity("many"), SENDER, many))
        while queue.jobs.count_documents({}) == 400:
            pass
        deliverer.close()
        assert under_way.result().new == 3000


def test_heard_from_is_answered(deliverer_with, queue):
    deliverer = deliverer_with()
    assert not deliverer.heard_from("b.test")
    assert not deliverer.heard_from("b.test", "rfc9421")
    with pytest.raises(InputError, match="scheme is 'rot13'"):
        deliverer.heard_from("b.test", "rot13")


def test_a_client_of_the_applications_own_is_left_alone(deliverer_with, mongod_url, queue):
    with MongoClient[dict[str, Any]](mongod_url, tz_aware=False, uuidRepresentation="pythonLegacy") as client:
        deliverer = deliverer_with(client)
        assert deliverer.send(activity("1"), SENDER, INBOXES).new == 2
        deliverer.close()
        client.admin.command("ping")


def test_inside_a_transaction_it_writes_one_row_from_the_callers_thread(deliverer_with, mongod_url, queue):
    deliverer = deliverer_with()
    with MongoClient[dict[str, Any]](mongod_url) as client, client.start_session() as session:
        with session.start_transaction():
            sent = deliverer.send(activity("1"), SENDER, [*INBOXES, "ftp://x"], session=session)
            deliverer.send_batch(activity("2"), SENDER, INBOXES, Batch(tag="t"), session=session)
            assert [sent.inboxes[inbox].state for inbox in INBOXES] == [SentState.PENDING] * 2
            assert queue.outbox.count_documents({}) == 0
        assert queue.outbox.count_documents({"state": "waiting"}) == 2
        assert queue.wakeups.count_documents({"outbox": True}) >= 2
        with session.start_transaction():
            uri = "ap://did:key:z6MkjchhfUsD6mmvni8mCdXHw216Xrm9bQe2mBH1P5RDjVJG/actor/inbox"
            portable = [PortableInbox(uri, ["https://g1.test"])]
            deliverer.send_portable(activity("5"), SENDER, portable, batch=Batch(tag="t"), session=session)
        assert queue.outbox.find_one({"inboxes.url": uri})["inboxes"][0]["gateways"] == ["https://g1.test"]
        assert deliverer.send_portable(activity("6"), SENDER, portable).new == 1
        queue.outbox.delete_one({"inboxes.url": uri})
        session.start_transaction()
        deliverer.send(activity("3"), SENDER, INBOXES, session=session)
        session.abort_transaction()
        assert queue.outbox.count_documents({}) == 2
        assert deliverer.send(activity("4"), SENDER, ["ftp://x"], session=session).count(SentState.REFUSED) == 1
    wrong: Any = "a session"
    with pytest.raises(InputError, match="session is a str; allowed is one of a MongoClient"):
        deliverer.send(activity("4"), SENDER, INBOXES, session=wrong)


def test_a_key_source_that_calls_back_is_told_so_and_does_not_wait_for_itself(deliverer_with):
    class Loop:
        async def keys_of(self, sender: str) -> Any:
            return deliverer.send(activity("2"), sender, INBOXES)

    deliverer = deliverer_with(keys=Loop())
    with pytest.raises(ConfigError, match="used by code that it runs itself"):
        deliverer.send(activity("1"), SENDER, INBOXES)


FORKING = """
import os, sys, threading
from ojak import sync

url, name = sys.argv[1:]
deliverer = sync.Deliverer(url, database=name)

def send(n):
    sent = deliverer.send({"id": f"https://a.test/{n}", "type": "Like"}, "https://a.test/u", ["https://b.test/inbox"])
    assert sent.new == 1, sent

if __name__ == "__main__":
    send("before")
    held = threading.Event()
    go = threading.Event()

    def hold():
        with deliverer._lock:
            held.set()
            go.wait()

    # As gunicorn forks: while another thread of the parent is in the middle of something.
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    children = []
    for n in range(3):
        pid = os.fork()
        if pid == 0:
            send(f"child-{n}")
            send(f"child-{n}-again")
            sys.exit(0)
        children.append(pid)
    go.set()
    holder.join()
    send("after")
    for pid in children:
        assert os.waitpid(pid, 0)[1] == 0
    send("at the end")
"""


def test_made_before_a_fork_it_works_in_parent_and_children(db, mongod_url, queue, tmp_path):
    program = tmp_path / "forking.py"
    program.write_text(FORKING)
    ran = subprocess.run(
        [sys.executable, program, mongod_url, db.name], check=False, capture_output=True, text=True, timeout=30
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert queue.jobs.count_documents({}) == 9
