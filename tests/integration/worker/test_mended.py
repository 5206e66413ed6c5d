# SPDX-License-Identifier: Apache-2.0
"""Faults that were found and mended, each by its name."""

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.errors import AutoReconnect
from tests.jobs import TEMPLATE
from tests.waiting import until

from ojak import Deliverer, FolderSenderKeys, Settled
from ojak.clock import ManualClock
from ojak.model.activity import activity_of
from ojak.model.job import Priority
from ojak.model.outcome import SettledOutcome
from ojak.shard import SHARDS
from ojak.signing import Scheme
from ojak.store.bodies import put_body
from ojak.store.claim import ReadyHost
from ojak.store.database import QueueDatabase
from ojak.store.ends import mark_rows_told
from ojak.store.hosts import HostNews
from ojak.store.settle import Ended
from ojak.store.sweep import mend_dues
from ojak.worker import bodies as bodies_module
from ojak.worker import teller as teller_module
from ojak.worker.bodies import Bodies
from ojak.worker.scheme_memory import FIRM_S, SchemeShown
from ojak.worker.standings import Standings
from ojak.worker.teller import Teller

SENDER = "https://a.test/u"


class NoKeys:
    async def keys_of(self, sender: str):
        raise RuntimeError("nothing is to be sent in these tests")


async def owners(db: QueueDatabase) -> int:
    return await db.shards.count_documents({"owner": {"$ne": None}})


async def test_a_run_that_is_cancelled_while_it_starts_leaves_no_ghost(db: QueueDatabase, mongod_url: str):
    deliverer = Deliverer(mongod_url, database=db.name, keys=NoKeys(), expected=5)
    run = asyncio.create_task(deliverer.run())

    async def joined() -> bool:
        return await db.workers.count_documents({}) == 1

    await until(joined)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    await deliverer.close()
    assert await db.workers.count_documents({}) == 0
    assert await owners(db) == 0


async def test_a_slow_callback_at_a_drain_keeps_no_shards(db: QueueDatabase, mongod_url: str, tmp_path):
    keys = FolderSenderKeys(tmp_path)
    keys.generate(SENDER)
    called, go_on = asyncio.Event(), asyncio.Event()

    async def on_settled(end: Settled) -> None:
        called.set()
        await go_on.wait()

    deliverer = Deliverer(mongod_url, database=db.name, keys=keys, on_settled=on_settled)
    run = asyncio.create_task(deliverer.run())
    # The guard refuses this address: the delivery ends at once, and nothing is sent.
    await deliverer.send({"id": "https://a.test/1", "type": "Like"}, SENDER, ["http://127.0.0.1:9/inbox"])
    await asyncio.wait_for(called.wait(), 20)
    assert await owners(db) == SHARDS
    ending = asyncio.create_task(deliverer.stop())

    async def released() -> bool:
        return await owners(db) == 0

    await until(released)
    go_on.set()
    await ending
    await run
    await deliverer.close()


@pytest.mark.parametrize(
    "damage", [{"leases": "x"}, {"tries": "x", "end": "x"}, {"end": 1.5}, {"sender": None}, {"priority": 1, "body": 7}]
)
async def test_a_row_that_cannot_be_read_stops_no_other(db: QueueDatabase, mongod_url: str, damage: dict[str, Any]):
    attempted = asyncio.Semaphore(0)
    sender = Deliverer(mongod_url, database=db.name)
    for n in range(12):
        # Each by a sender of its own: one without a key holds up all that is his.
        like = {"id": f"https://a.test/{n}", "type": "Like"}
        await sender.send(like, f"{SENDER}{n}", [f"http://h{n}.test/inbox"], priority=Priority.FANOUT)
    await sender.close()
    deliverer = Deliverer(mongod_url, database=db.name, keys=NoKeys(), on_attempt=lambda _: attempted.release())
    await db.jobs.update_one({"lane": "h3.test"}, {"$set": damage})
    run = asyncio.create_task(deliverer.run())
    async with asyncio.timeout(20):
        for _ in range(11):
            await attempted.acquire()

    async def parked() -> bool:
        return await db.jobs.count_documents({"lane": "h3.test", "state": "parked"}) == 1

    await until(parked)
    await deliverer.close()
    await run


async def test_a_host_due_in_hours_with_a_row_that_has_come_is_mended(db: QueueDatabase, mongod_url: str):
    deliverer = Deliverer(mongod_url, database=db.name)
    await deliverer.send({"id": "https://a.test/1", "type": "Like"}, SENDER, ["http://h.test/a"])
    await deliverer.close()
    late = datetime.now(UTC) + timedelta(hours=5)
    await db.hosts.update_one({}, {"$set": {"due.0": late, "ready.0": late}})
    assert await mend_dues(db, lease_s=120) == 1
    host = await db.hosts.find_one()
    assert host is not None
    assert host["ready"]["0"] <= datetime.now(UTC) + timedelta(seconds=1)
    assert await mend_dues(db, lease_s=120) == 0


async def test_bodies_in_memory_are_counted_once_and_bounded(db: QueueDatabase, monkeypatch):
    monkeypatch.setattr(bodies_module, "KEPT_BYTES", 10_000)
    activities = [
        activity_of({"id": f"https://a.test/{n}", "content": "o" * 3000}, max_bytes=1 << 20) for n in range(12)
    ]
    for activity in activities:
        await put_body(db, activity, sender=SENDER, kept_s=60)
    kept = Bodies(db)
    found = await asyncio.gather(*(kept.get(activities[0].key) for _ in range(8)))
    assert all(body is not None and body.content == activities[0].body for body in found)
    assert kept._bytes == len(activities[0].body)
    await kept.load(activity.key for activity in activities)
    assert kept._bytes == sum(len(body.content) for body in kept._kept.values()) <= 10_000
    again = await kept.get(activities[0].key)
    assert again is not None
    assert again.content == activities[0].body


PAIR = SchemeShown(scheme=Scheme.RFC9421, decisive=True)


def ready(authority: str, scheme: str | None) -> ReadyHost:
    return ReadyHost(authority=authority, shard=0, asks=1, quick=True, proven=True, answer_ms=5.0, scheme=scheme)


def test_a_hold_and_a_scheme_survive_news_that_could_not_be_written():
    standings = Standings(ManualClock())
    standings.note("h.test", came_through=False, answer_ms=5, shown=PAIR, scheme_kept_s=60, hold_s=30)
    lost = standings.take_news()
    standings.note("h.test", came_through=True, answer_ms=7)
    standings.put_back(lost)
    (news,) = standings.take_news()
    assert news == HostNews(
        authority="h.test",
        proven=True,
        quick=True,
        answer_ms=news.answer_ms,
        scheme="rfc9421",
        scheme_kept_s=60,
        scheme_firm_s=FIRM_S,
        hold_s=30,
    )


def test_a_scheme_is_forgotten_when_the_record_forgets_it():
    standings = Standings(ManualClock())
    standings.learn(ready("h.test", "rfc9421"))
    assert standings.scheme("h.test") == "rfc9421"
    standings.learn(ready("h.test", None))
    assert standings.scheme("h.test") is None


async def test_ends_are_told_on_after_a_mark_that_failed(db: QueueDatabase, monkeypatch):
    told: list[str] = []
    teller = Teller(
        db=db,
        clock=ManualClock(),
        on_settled=lambda end: told.append(end.delivery_id),
        on_failure=None,
        every_s=60,
        kept_s=60,
        give_up_s=60,
    )
    ends = [
        Ended(
            job=dataclasses.replace(TEMPLATE, id=n.to_bytes(16)),
            outcome=SettledOutcome.DELIVERED,
            spent=True,
            status=202,
            reason="",
            scheme="cavage",
        )
        for n in range(250)
    ]
    teller.tell_soon(ends)
    marked: list[Any] = []

    async def failing_once(db, ids_by_end, *, kept_s):
        marked.append(ids_by_end)
        if len(marked) == 1:
            raise AutoReconnect("gone")
        await mark_rows_told(db, ids_by_end, kept_s=kept_s)

    monkeypatch.setattr(teller_module, "mark_rows_told", failing_once)
    with pytest.raises(AutoReconnect):
        await teller.tell_step()
    for _ in range(2):
        await teller.tell_step()
    assert sorted(told) == sorted({end.job.id.hex() for end in ends}), "each once, also those whose mark had failed"
    assert sum(len(ids) for ids in marked[1].values()) == 200
    asking = asyncio.create_task(teller.tell_step())
    await asyncio.wait_for(teller.idle(), 5)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
