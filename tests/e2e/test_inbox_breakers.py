# SPDX-License-Identifier: Apache-2.0
"""Breakers that are kept for inboxes: one that fails is left alone, and its neighbours are not (SPEC section 4)."""

import dataclasses
from typing import Any

from tests.waiting import until

from ojak import BreakerResult, BreakerScope, CircuitBreaker, MemoryBreakers, Signal
from ojak.farm import FarmHandle
from ojak.store.now import EPOCH

from .conftest import running
from .quarantine import HOUR_S, WORKS, arrived, config, send


async def test_breakers_of_inboxes_hold_one_inbox_and_no_other(farm, deliverer_to, db, ended):
    here = farm({"accept": 1})
    (good,) = here.inboxes(path="/users/a/inbox")
    plan_bad = here.hosts[0]
    bad = plan_bad.inbox("/users/b/inbox")
    store = MemoryBreakers(CircuitBreaker(threshold=2, first_s=HOUR_S, scope=BreakerScope.INBOX))
    await store.record([BreakerResult(key=bad, signal=Signal.FAILURE)] * 2)
    deliverer = deliverer_to(here, config=config(), breakers=store)
    await send(deliverer, [good, bad], 3)
    async with running(deliverer):
        await ended(3)
        await until(lambda: _aside(db, 3))
    assert {arrival.inbox for arrival in here.ledger().arrivals} == {good}
    row = await db.jobs.find_one({"inbox": bad})
    assert row["tries"] == 0
    hold = await db.holds.find_one({"_id": row["behind"]})
    assert (hold["of"], hold["kind"]) == (bad, "quarantine")
    assert (hold["until"] - row["queued_at"]).total_seconds() > HOUR_S - 60


async def test_an_inbox_that_is_held_is_tried_with_one_delivery_and_lets_the_others_go_when_it_is_back(
    farm, deliverer_to, db, ended
):
    here = farm({"status:503": 1})
    store = MemoryBreakers(CircuitBreaker(threshold=2, first_s=HOUR_S, recovery=1, scope=BreakerScope.INBOX))
    await store.record([BreakerResult(key=here.inboxes()[0], signal=Signal.FAILURE)] * 2)
    deliverer = deliverer_to(here, config=config(), breakers=store)
    await send(deliverer, here.inboxes(), 6)
    async with running(deliverer):
        await until(lambda: _aside(db, 6))
        await _come(db, store, here)
        await until(lambda: arrived(here, 1))
        await until(lambda: _aside(db, 6))
        assert len(here.ledger().arrivals) == 1, "one tried it, and waits with the others"
        here.client.behave("status:503", WORKS)
        await _come(db, store, here)
        await ended(6)
    assert await db.holds.count_documents({"over": {"$ne": True}}) == 0


async def _come(db: Any, store: MemoryBreakers, farm: FarmHandle) -> None:
    """The quarantine is over."""
    circuit = store._circuits[farm.inboxes()[0]]
    store._circuits[farm.inboxes()[0]] = dataclasses.replace(circuit, until_s=0.0)
    await db.holds.update_one({}, {"$set": {"until": EPOCH, "look_at": EPOCH}})


async def _aside(db: Any, count: int) -> bool:
    return await db.jobs.count_documents({"state": "aside"}) == count
