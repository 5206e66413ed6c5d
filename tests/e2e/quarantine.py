# SPDX-License-Identifier: Apache-2.0
"""Hosts that fail, and the time in their quarantines, for tests that look at breakers."""

from collections.abc import Sequence
from typing import Any

from tests.waiting import until

from ojak import Deliverer, DelivererConfig
from ojak.farm import FarmHandle
from ojak.farm.behaviour import Respond
from ojak.model.job import Priority
from ojak.store.hosts import Due, lower_due

from .conftest import SENDER

HOUR_S = 3600.0
WORKS = Respond(status=202, latency_ms=20)


def config(*, breaker_first_s: float = HOUR_S, **more: Any) -> DelivererConfig:
    return DelivererConfig(
        poll_every_s=0.05, breaker_first_s=breaker_first_s, breaker_longest_s=max(100.0, breaker_first_s), **more
    )


async def _settled(db: Any) -> bool:
    return await db.jobs.count_documents({"state": "leased"}) == 0


async def hurry(db: Any) -> None:
    """What failed before waits for its own time, half a minute: let it come."""
    await until(lambda: _settled(db))
    await db.jobs.update_many({"state": "queued"}, [{"$set": {"run_at": "$$NOW"}}])
    await lower_due(db, [Due(authority=name, priority=Priority.SMALL) for name in await db.jobs.distinct("lane")])


async def send(
    deliverer: Deliverer, inboxes: Sequence[str], count: int, *, what: str = "n", sender: str = SENDER
) -> None:
    for number in range(count):
        await deliverer.send({"id": f"https://a.test/{what}{number}", "type": "Like"}, sender, inboxes)


async def arrived(farm: FarmHandle, count: int) -> bool:
    return len(farm.ledger().arrivals) >= count


async def is_open(db: Any, count: int = 1) -> bool:
    return await db.hosts.count_documents({"breaker.open": True}) == count
