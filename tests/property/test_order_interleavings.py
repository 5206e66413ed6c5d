# SPDX-License-Identifier: Apache-2.0
"""Rule A under random interleavings on a real MongoDB: senders, workers and sweeps that die between any two statements.

What must hold at every claim: nothing of the same order that was queued before is unfinished. And at the end, once
nobody dies any more: everything has ended.
"""

import asyncio
import random
import secrets
from collections.abc import Collection

import pytest
from pymongo.errors import AutoReconnect

from ojak.model.activity import activity_of
from ojak.model.hold import Hold, HoldKind, hold_id
from ojak.model.job import UNFINISHED, Job, Priority
from ojak.model.outcome import FailureReason, SettledOutcome
from ojak.model.selection import Selection
from ojak.shard import SHARDS
from ojak.store import aside as aside_module
from ojak.store import enqueue as enqueue_module
from ojak.store import settle as settle_module
from ojak.store.aside import SetAside, let_go, let_go_all, stray_holds, write_asides
from ojak.store.aside import check_holds as real_check_holds
from ojak.store.cancel import cancel_selected
from ojak.store.claim import claim, ready_hosts
from ojak.store.database import QueueDatabase
from ojak.store.enqueue import NewJob, enqueue
from ojak.store.handover import hand_over
from ojak.store.holds import end_hold, forget_hold, holds_of
from ojak.store.hosts import look_again
from ojak.store.order import LIVE, mend_order
from ojak.store.order import promote as real_promote
from ojak.store.reap import bury
from ojak.store.settle import Ended, Retried, write_ends, write_retries
from ojak.store.shards import owned, take

INBOXES = ["https://h.test/a", "https://h.test/b"]
STEPS = 25


class Play:
    """One play of senders and workers over three posts and two inboxes."""

    def __init__(self, db: QueueDatabase, seed: int) -> None:
        self.db = db
        self.dice = random.Random(seed)
        self.deaths = 0.25
        self.owner = secrets.token_bytes(16)
        # Whether sends come one after another, so that their order is known.
        self.quiet = False
        self.faults: list[str] = []

    async def promote(self, db: QueueDatabase, orders) -> int:
        """As the store's, by somebody who may have died before it."""
        if self.dice.random() < self.deaths:
            raise AutoReconnect("died")
        await asyncio.sleep(0)
        return await real_promote(db, orders)

    async def send(self) -> None:
        post = f"https://a.test/post{self.dice.randrange(3)}"
        kind = self.dice.choice(["Create", "Update", "Update", "Delete"])
        name = f"https://a.test/{kind}{self.dice.randrange(6)}-{post[-1]}"
        activity = activity_of({"id": name, "type": kind, "object": post}, max_bytes=1 << 16)
        priority = self.dice.choice(list(Priority))
        handover = await hand_over(self.db, activity, sender="https://a.test/u", priority=priority, kept_s=60)
        jobs = [NewJob(authority="h.test", inbox=inbox, shared=False, ref=None) for inbox in INBOXES]
        async for _ in enqueue(self.db, jobs, handover):
            pass

    async def work(self) -> None:
        jobs = await self.claim(self.dice.choice(list(Priority)))
        await self.check(jobs)
        for job in jobs:
            choice = self.dice.random()
            if choice < 0.15:
                await bury(self.db, self.owner, [job.id], max_deaths=3)
            elif choice < 0.25:
                hold = Hold(kind=HoldKind.QUARANTINE, of=job.inbox, reason="inbox-held", for_s=3600)
                await write_asides(self.db, [SetAside(job=job, hold=hold, stands=False, reason=hold.reason)])
            elif choice < 0.4:
                retry = Retried(job=job, delay_s=0, spent=True, status=503, reason="status-503", scheme=None)
                await write_retries(self.db, [retry])
            else:
                outcomes: list[SettledOutcome | FailureReason] = [
                    SettledOutcome.DELIVERED,
                    FailureReason.OUT_OF_RETRIES,
                ]
                outcome = self.dice.choice(outcomes)
                end = Ended(job=job, outcome=outcome, spent=True, status=1, reason="", scheme=None)
                await write_ends(self.db, [end], tell=False, kept_s=60)

    async def release(self) -> None:
        """End the hold of an inbox, by somebody who may die before he has let go what waits for it, or in between."""
        hold = hold_id(HoldKind.QUARANTINE, self.dice.choice(INBOXES))
        await end_hold(self.db, hold)
        for _ in range(self.dice.randrange(3)):
            await let_go(self.db, hold, limit=1)
        if self.dice.random() >= self.deaths:
            await let_go_all(self.db, hold)
            for row in (await holds_of(self.db, [hold])).values():
                await forget_hold(self.db, row)

    async def check_holds(self, db: QueueDatabase, ids: Collection[bytes]) -> None:
        """As the store's, by somebody who may have died before it."""
        if self.dice.random() < self.deaths:
            raise AutoReconnect("died")
        await real_check_holds(db, ids)

    async def claim(self, priority: Priority) -> list[Job]:
        hosts = await ready_hosts(self.db, shards=range(SHARDS), priority=priority, busy=[], quick=9, others=9)
        if not hosts:
            return []
        claimed = await claim(
            self.db,
            hosts,
            owner=self.owner,
            stamp=secrets.token_bytes(16),
            epochs=await owned(self.db, self.owner),
            priority=priority,
            share=lambda host, foreign: 3,
            lease_s=120,
            max_age_s=86_400,
        )
        return [job for item in claimed for job in item.jobs]

    async def check(self, jobs: list[Job]) -> None:
        """Never two of one order. Which of two sends at once goes first is open, so it is not asked here."""
        for job in jobs:
            others = self.db.jobs.find({"order": job.order, "state": {"$in": LIVE}})
            if len(await others.to_list()) > 1:
                self.faults.append("two of one order at once")

    async def cancel(self) -> None:
        await cancel_selected(self.db, Selection(activity=f"https://a.test/Update{self.dice.randrange(6)}-0"))

    async def act(self) -> None:
        for _ in range(STEPS):
            step = self.dice.choices([self.send, self.work, self.cancel, self.release], [4, 5, 1, 1])[0]
            try:
                await step()
            except AutoReconnect:
                continue

    async def settle(self) -> None:
        """Nobody dies any more: drain, in order."""
        self.deaths = 0.0
        await bury(self.db, self.owner, [], max_deaths=3)
        for inbox in INBOXES:
            await end_hold(self.db, hold_id(HoldKind.QUARANTINE, inbox))
        for stray in await stray_holds(self.db):
            await let_go_all(self.db, stray)
        idle = 0
        while idle < 2:
            await look_again(self.db, {}, within_s=3600)
            jobs = [*await self.claim(Priority.SMALL), *await self.claim(Priority.FANOUT)]
            for job in jobs:
                await self.check_first(job)
            ends = [
                Ended(job=job, outcome=SettledOutcome.DELIVERED, spent=True, status=1, reason="", scheme=None)
                for job in jobs
            ]
            if ends:
                await write_ends(self.db, ends, tell=False, kept_s=60)
            # Twice: a claim that finds nothing may have promoted what the next one finds.
            idle = 0 if ends or await mend_order(self.db) else idle + 1

    async def check_first(self, job: Job) -> None:
        row = await self.db.jobs.find_one({"_id": job.id})
        assert row is not None
        unfinished = {"order": job.order, "state": {"$in": UNFINISHED}}
        if self.quiet and await self.db.jobs.count_documents({**unfinished, "seq": {"$lt": row["seq"]}}):
            self.faults.append("overtaken")


@pytest.mark.parametrize("seed", range(6))
async def test_order_holds_and_nothing_is_stuck_whoever_dies(db: QueueDatabase, monkeypatch, seed: int):
    play = Play(db, seed)
    monkeypatch.setattr(enqueue_module, "promote", play.promote)
    monkeypatch.setattr(settle_module, "promote", play.promote)
    monkeypatch.setattr(aside_module, "promote", play.promote)
    monkeypatch.setattr(aside_module, "check_holds", play.check_holds)
    await take(db, play.owner, count=SHARDS, lease_s=45)
    await asyncio.gather(*(play.act() for _ in range(4)))
    await play.settle()
    assert play.faults == []
    stuck = await db.jobs.count_documents({"state": {"$in": UNFINISHED}})
    assert stuck == 0
    assert await db.jobs.count_documents({}) > 10


@pytest.mark.parametrize("seed", range(6))
async def test_sends_one_after_another_are_delivered_in_that_order_whoever_dies(
    db: QueueDatabase, monkeypatch, seed: int
):
    """One sender, many workers: the first unfinished row goes first, always."""
    play = Play(db, 100 + seed)
    play.quiet = True
    monkeypatch.setattr(settle_module, "promote", play.promote)
    await take(db, play.owner, count=SHARDS, lease_s=45)
    for _ in range(STEPS):
        for _ in range(play.dice.randrange(1, 4)):
            await play.send()
        try:
            jobs = [*await play.claim(Priority.SMALL), *await play.claim(Priority.FANOUT)]
            for job in jobs:
                await play.check_first(job)
            for job in jobs:
                end = Ended(job=job, outcome=SettledOutcome.DELIVERED, spent=True, status=1, reason="", scheme=None)
                await write_ends(db, [end], tell=False, kept_s=60)
        except AutoReconnect:
            continue
    await play.settle()
    assert play.faults == []
    assert await db.jobs.count_documents({"state": {"$in": UNFINISHED}}) == 0
