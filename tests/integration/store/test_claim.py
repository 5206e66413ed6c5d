# SPDX-License-Identifier: Apache-2.0
import contextlib
import secrets
from datetime import UTC, datetime, timedelta

from ojak.model.job import Priority
from ojak.shard import SHARDS, shard_of
from ojak.store import claim as claim_module
from ojak.store.claim import claim, ready_hosts
from ojak.store.database import QueueDatabase
from ojak.store.hand_back import hand_back
from ojak.store.hosts import Due, lower_due
from ojak.store.now import NEVER
from ojak.store.shards import owned, take


class Died(Exception):
    """The claimer was killed here."""


class Claims:
    """A worker that owns every shard."""

    def __init__(self, db: QueueDatabase) -> None:
        self.db = db
        self.owner = secrets.token_bytes(16)
        self.epochs: dict[int, int] = {}

    async def own(self) -> None:
        await take(self.db, self.owner, count=SHARDS, lease_s=45)
        self.epochs = await owned(self.db, self.owner)

    async def ready(self, priority: Priority = Priority.FANOUT, limit: int = 100):
        return await ready_hosts(self.db, shards=range(SHARDS), priority=priority, busy=[], quick=limit, others=limit)

    async def claim(self, hosts, each: int = 2, priority: Priority = Priority.FANOUT, lease_s: float = 120):
        return await claim(
            self.db,
            hosts,
            owner=self.owner,
            stamp=secrets.token_bytes(16),
            epochs=self.epochs,
            priority=priority,
            share=lambda host, foreign: max(0, each - foreign),
            lease_s=lease_s,
            max_age_s=86_400,
        )


async def due_of(db: QueueDatabase, authority: str) -> datetime:
    row = await db.hosts.find_one({"_id": authority})
    assert row is not None
    due: datetime = row["due"]["1"]
    return due


def from_now_s(moment: datetime) -> float:
    return (moment - datetime.now(UTC)).total_seconds()


async def test_a_claim_leases_so_many_of_each_host_under_one_stamp(db: QueueDatabase, put):
    claims = Claims(db)
    await claims.own()
    for n in range(3):
        await put(["https://h.test/a", "https://g.test/a"], activity_id=f"https://a.test/{n}")
    claimed = await claims.claim(await claims.ready())
    assert sorted(item.host.authority for item in claimed) == ["g.test", "h.test"]
    assert all(len(item.jobs) == 2 for item in claimed)
    assert await db.jobs.count_documents({"state": "leased", "lease.by": claims.owner}) == 4
    assert len({job.stamp for item in claimed for job in item.jobs}) == 1


async def test_a_host_that_has_more_is_due_at_once_and_stands_behind_the_others(db: QueueDatabase, put):
    claims = Claims(db)
    await claims.own()
    for n in range(4):
        await put(["https://h.test/a"], activity_id=f"https://a.test/{n}")
    await put(["https://g.test/a"])
    first = await claims.ready(limit=1)
    assert [host.authority for host in first] == ["h.test"]
    await claims.claim(first)
    # h.test has an older backlog than g.test has work, and yet it is g.test's turn.
    assert [host.authority for host in await claims.ready()] == ["g.test", "h.test"]


async def test_a_host_whose_jobs_are_all_leased_is_due_again_when_the_leases_end(db: QueueDatabase, put):
    claims = Claims(db)
    await claims.own()
    await put(["https://h.test/a"])
    await claims.claim(await claims.ready())
    assert 100 < from_now_s(await due_of(db, "h.test")) <= 120


async def test_a_claim_that_finds_nothing_makes_the_host_idle_and_lets_it_expire(db: QueueDatabase, put):
    claims = Claims(db)
    await claims.own()
    await put(["https://h.test/a"])
    await db.jobs.delete_many({})
    assert await claims.claim(await claims.ready()) == []
    row = await db.hosts.find_one({"_id": "h.test"})
    assert row is not None
    assert row["due"]["1"] == NEVER
    assert 29 * 86_400 < from_now_s(row["expire_at"]) <= 30 * 86_400


async def test_a_job_inserted_while_a_claim_is_under_way_is_not_forgotten(db: QueueDatabase, put, monkeypatch):
    claims = Claims(db)
    await claims.own()
    await put(["https://h.test/a"])
    hosts = await claims.ready()
    show = claim_module._show

    async def insert_then_show(*args, **kwargs):
        await put(["https://h.test/b"])
        await show(*args, **kwargs)

    monkeypatch.setattr(claim_module, "_show", insert_then_show)
    await claims.claim(hosts)
    assert [host.authority for host in await claims.ready()] == ["h.test"]


async def test_a_retry_due_earlier_than_the_claim_found_is_not_undone(db: QueueDatabase, put, monkeypatch):
    claims = Claims(db)
    await claims.own()
    await put(["https://h.test/a"])
    hosts = await claims.ready()
    show = claim_module._show

    async def lower_then_show(*args, **kwargs):
        await lower_due(db, [Due(authority="h.test", priority=Priority.FANOUT, delay_s=5)])
        await show(*args, **kwargs)

    monkeypatch.setattr(claim_module, "_show", lower_then_show)
    await claims.claim(hosts)
    assert 0 < from_now_s(await due_of(db, "h.test")) <= 5


async def test_a_claim_that_dies_before_leasing_hides_the_host_for_one_lease_only(db: QueueDatabase, put, monkeypatch):
    claims = Claims(db)
    await claims.own()
    await put(["https://h.test/a"])
    hosts = await claims.ready()

    async def die(*args, **kwargs):
        raise Died

    monkeypatch.setattr(claim_module, "lane_heads", die)
    with contextlib.suppress(Died):
        await claims.claim(hosts)
    assert await claims.ready() == []
    assert 100 < from_now_s(await due_of(db, "h.test")) <= 120


async def test_what_is_due_later_is_not_leased_and_tells_when_its_host_is_due(db: QueueDatabase, put):
    claims = Claims(db)
    await claims.own()
    await put(["https://h.test/a"])
    await db.jobs.update_many({}, {"$set": {"run_at": datetime.now(UTC) + timedelta(seconds=600)}})
    assert await claims.claim(await claims.ready()) == []
    assert 590 < from_now_s(await due_of(db, "h.test")) <= 600


async def test_a_shard_that_changed_hands_during_the_claim_gives_everything_back(db: QueueDatabase, put, monkeypatch):
    claims = Claims(db)
    await claims.own()
    await put(["https://h.test/a"])
    hosts = await claims.ready()
    await db.shards.update_one({"_id": shard_of("h.test")}, {"$inc": {"epoch": 1}})
    assert await claims.claim(hosts) == []
    row = await db.jobs.find_one()
    assert row is not None
    assert row["state"] == "queued"
    assert row["tries"] == 0
    assert "lease" not in row
    assert [host.authority for host in await claims.ready()] == ["h.test"]


async def test_a_former_owners_requests_count_toward_the_limit(db: QueueDatabase, put):
    former, claims = Claims(db), Claims(db)
    await former.own()
    for n in range(4):
        await put(["https://h.test/a"], activity_id=f"https://a.test/{n}")
    await former.claim(await former.ready(), each=2)
    await db.shards.update_many({}, {"$set": {"until": datetime.fromtimestamp(0, UTC)}})
    await claims.own()
    assert await claims.claim(await claims.ready(), each=2) == []
    # Looked at again soon, not in a tight circle.
    assert 0 < from_now_s(await due_of(db, "h.test")) <= 0.5


async def test_a_row_that_cannot_be_read_is_parked_and_harms_no_other(db: QueueDatabase, put):
    claims = Claims(db)
    await claims.own()
    await put([f"https://h.test/{n}" for n in range(2)])
    await db.jobs.update_one({"inbox": "https://h.test/0"}, {"$set": {"sender": 7}})
    (claimed,) = await claims.claim(await claims.ready())
    assert [job.inbox for job in claimed.jobs] == ["https://h.test/1"]
    parked = await db.jobs.find_one({"state": "parked"})
    assert parked is not None
    assert parked["last"] == {"reason": "unreadable", "detail": "sender is a int; allowed is str"}
    assert parked["told"] is False


async def test_a_row_with_a_null_or_textual_time_is_never_due(db: QueueDatabase, put):
    claims = Claims(db)
    await claims.own()
    await put([f"https://h.test/{n}" for n in range(3)])
    await db.jobs.update_one({"inbox": "https://h.test/0"}, {"$set": {"run_at": None}})
    await db.jobs.update_one({"inbox": "https://h.test/1"}, {"$set": {"run_at": "1970-01-01"}})
    (claimed,) = await claims.claim(await claims.ready(), each=10)
    assert [job.inbox for job in claimed.jobs] == ["https://h.test/2"]


async def test_handing_back_makes_the_host_due_and_spends_nothing(db: QueueDatabase, put):
    claims = Claims(db)
    await claims.own()
    await put(["https://h.test/a"])
    (claimed,) = await claims.claim(await claims.ready())
    (job,) = claimed.jobs
    await hand_back(db, {secrets.token_bytes(16): [job.id]})
    assert await db.jobs.count_documents({"state": "leased"}) == 1, "a foreign stamp hands nothing back"
    await hand_back(db, {job.stamp: [job.id]})
    row = await db.jobs.find_one()
    assert row is not None
    assert (row["state"], row["tries"], row["deaths"]) == ("queued", 0, 0)
    assert [host.authority for host in await claims.ready()] == ["h.test"]


async def test_two_claimers_of_one_host_never_lease_the_same_job(db: QueueDatabase, put):
    one, two = Claims(db), Claims(db)
    await one.own()
    two.owner, two.epochs = one.owner, one.epochs
    for n in range(6):
        await put(["https://h.test/a"], activity_id=f"https://a.test/{n}")
    hosts = await one.ready()
    first = await one.claim(hosts, each=4)
    second = await two.claim(hosts, each=4)
    ids = [job.id for item in (*first, *second) for job in item.jobs]
    assert len(ids) == len(set(ids)) == 6


async def test_a_flood_of_names_that_answer_nobody_is_not_read_to_find_those_that_answer(db: QueueDatabase):
    """All of it waits for longer: whoever read by waiting time alone would read every name of it at each claim."""
    await lower_due(db, [Due(authority=f"x{n}.test", priority=Priority.FANOUT) for n in range(3000)])
    await lower_due(db, [Due(authority=f"good{n}.test", priority=Priority.FANOUT) for n in range(5)])
    await db.hosts.update_many({"_id": {"$regex": "good"}}, {"$set": {"proven": True, "quick": True}})
    profiled = db.client[db.name]
    await profiled.command("profile", 2)
    try:
        hosts = await ready_hosts(
            db, shards=range(SHARDS), priority=Priority.FANOUT, busy=["good0.test"], quick=64, others=16
        )
    finally:
        await profiled.command("profile", 0)
    assert sum(host.quick for host in hosts) == 4
    assert len(hosts) == 4 + 16
    reads = await profiled["system.profile"].find({"op": "command", "ns": f"{db.name}.{db.hosts.name}"}).to_list()
    assert 0 < sum(read["docsExamined"] for read in reads) < 100
