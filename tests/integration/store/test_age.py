# SPDX-License-Identifier: Apache-2.0
"""What is too old is given up on, whatever it waits for, at a cost that grows with it and not with the queue."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.monitoring import CommandListener

from ojak.model.activity import activity_of
from ojak.model.job import Priority
from ojak.model.selection import Selection
from ojak.store.age import end_too_old
from ojak.store.bodies import put_body
from ojak.store.database import QueueDatabase, connect
from ojak.store.hosts import hold_host
from ojak.store.now import Now
from ojak.store.replay import replay_selected

from .claiming import Hand
from .conftest import Put

WEEK_S = 7 * 86_400.0
START = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def hand(db: QueueDatabase) -> Hand:
    return Hand(db)


def turn(db: QueueDatabase, *, days: float) -> None:
    db.now.turn(START + timedelta(days=days))


async def test_what_nobody_claims_is_given_up_on_without_an_attempt(db: QueueDatabase, put: Put, hand: Hand):
    """Behind a held host, for a retry, behind another of its order: a week after it was handed over."""
    turn(db, days=0)
    await put(["https://held.test/in", "https://h.test/in"])
    for n in range(2):
        await put(["https://h.test/in"], activity_id=f"https://a.test/u{n}", kind="Update", about="https://a.test/p")
    (await_retry,) = [job for job in await hand.claim(Priority.FANOUT) if job.activity_id.endswith("/1")][:1]
    await hand.retry(await_retry, delay_s=30 * 86_400)
    await hold_host(db, "held.test", 60 * 86_400)
    turn(db, days=3)
    await put(["https://h.test/in"], activity_id="https://a.test/young")
    turn(db, days=6.99)
    assert await end_too_old(db, max_age_s=WEEK_S) == 0
    turn(db, days=7)
    leased = await db.jobs.count_documents({"state": "leased"})
    assert await end_too_old(db, max_age_s=WEEK_S) == 4 - leased
    await db.jobs.update_many({"state": "leased"}, {"$set": {"state": "queued"}})
    assert await end_too_old(db, max_age_s=WEEK_S) == leased, "what was leased is found when it comes back"
    assert await db.jobs.distinct("state", {"activity": {"$ne": "https://a.test/young"}}) == ["too-old"]
    assert await db.jobs.count_documents({"state": "too-old", "told": False, "end": 1, "tries": {"$lte": 1}}) == 4
    reasons = {row["last"]["reason"] async for row in db.jobs.find({"state": "too-old"})}
    assert reasons == {"too-old", "status-503"}, "what was last answered stays"
    assert await db.jobs.count_documents({"state": "queued"}) == 1
    assert await db.bodies.count_documents({"waits_since": {"$exists": True}}) == 1


async def test_each_delivery_has_its_own_age_though_it_shares_a_body(db: QueueDatabase, put: Put):
    turn(db, days=0)
    await put(["https://h.test/a"])
    turn(db, days=5)
    await put(["https://h.test/b"])
    turn(db, days=7)
    assert await end_too_old(db, max_age_s=WEEK_S) == 1
    assert await end_too_old(db, max_age_s=WEEK_S) == 0
    turn(db, days=12)
    assert await end_too_old(db, max_age_s=WEEK_S) == 1
    await replay_selected(db, Selection(activity="https://a.test/1"), outcomes={"too-old"}, kept_s=WEEK_S)
    assert await end_too_old(db, max_age_s=WEEK_S) == 0
    turn(db, days=19)
    assert await end_too_old(db, max_age_s=WEEK_S) == 2, "what was replayed is as old as its replay"


async def test_a_body_whose_rows_are_still_being_inserted_is_looked_at_again(db: QueueDatabase, put: Put):
    """Its body is handed over a second time, a sweep comes between that and the rows."""

    turn(db, days=0)
    await put(["https://h.test/a"])
    await db.jobs.delete_many({})
    turn(db, days=8)
    content = {"id": "https://a.test/1", "type": "Like", "summary": ""}
    await put_body(db, activity_of(content, max_bytes=1 << 20), sender="https://a.test/u", kept_s=60)
    assert await end_too_old(db, max_age_s=WEEK_S) == 0
    await put(["https://h.test/b"])
    turn(db, days=15)
    assert await end_too_old(db, max_age_s=WEEK_S) == 1


class Reads(CommandListener):
    def __init__(self) -> None:
        self.commands: list[Any] = []

    def started(self, event: Any) -> None:
        self.commands.append(event.command)

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass


async def test_young_activities_are_not_even_looked_at(db: QueueDatabase, put: Put, mongod_url: str):
    turn(db, days=0)
    await asyncio.gather(*(put([f"https://h{n}.test/a"], activity_id=f"https://a.test/{n}") for n in range(20)))
    reads = Reads()
    client = connect(mongod_url, event_listeners=[reads])
    watched = QueueDatabase(client, db.name, now=Now(START + timedelta(days=6)))
    assert await end_too_old(watched, max_age_s=WEEK_S) == 0
    assert [command["find"] for command in reads.commands if "find" in command] == ["bodies"]
    find = {name: reads.commands[-1][name] for name in ("find", "filter", "projection")}
    plan = await client[db.name].command("explain", find, verbosity="executionStats")
    assert plan["executionStats"]["totalDocsExamined"] == 0
    await client.close()
