# SPDX-License-Identifier: Apache-2.0
"""Slots and connections come back, whatever their requests came to (field report R44)."""

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.sockets import ESTABLISHED, SYN_SENT, sockets
from tests.waiting import until

from ojak import Deliverer, DelivererConfig, DeliveryAttempt
from ojak.farm import FarmHandle
from ojak.farm.arrival import Arrival
from ojak.farm.report import Counted
from ojak.http.aiohttp_transport import AiohttpTransport
from ojak.model.job import UNFINISHED

from .conftest import SENDER, running

SLOTS = 8
GOOD = "accept:300"
"""So slow that a busy machine has begun one in every slot before the first of them is answered."""
LEAST = 9
"""Interruptions, however little time there is."""
ROUND = 48


class Transports(AiohttpTransport):
    """Keeps unused connections for a short while only, and is kept itself, to be looked at."""

    made: list["Transports"]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, keepalive_s=0.5)
        self.made.append(self)

    @property
    def in_use(self) -> tuple[int, int]:
        """The connections that requests hold in the pool, and those that stand."""
        return sum(len(connector._acquired) for connector in (self._kept, self._closing)), len(self._open)


def most_at_once(arrivals: tuple[Arrival, ...]) -> int:
    """The most requests that were open at the same time, at all hosts together."""
    moments = [(arrival.arrived_s, 1) for arrival in arrivals]
    moments += [(arrival.ended_s, -1) for arrival in arrivals if arrival.ended_s is not None]
    most = now = 0
    for _, change in sorted(moments):
        now += change
        most = max(most, now)
    return most


class Chaos:
    """One Deliverer whose runs are interrupted at random moments, in each way that there is."""

    def __init__(self, db: Any, make: Callable[..., Deliverer]) -> None:
        self.db = db
        self.source = random.Random(9670)
        self.attempts = 0
        self.changed = asyncio.Event()
        self.deliverer = make(on_attempt=self.note)
        self.run = asyncio.create_task(self.deliverer.run())

    def note(self, attempt: DeliveryAttempt) -> None:
        self.attempts += 1
        self.changed.set()

    async def some_attempts(self) -> None:
        """Wait until a few more attempts came out, so that the next interruption meets requests anywhere."""
        wanted = self.attempts + self.source.randrange(1, 12)
        async with asyncio.timeout(60):
            while self.attempts < wanted:
                self.changed.clear()
                await self.changed.wait()

    async def steal(self) -> None:
        """Every lease is somebody else's, who says nothing more: the worker finds out when it renews."""
        stolen = secrets.token_bytes(16)
        await self.db.jobs.update_many({"state": "leased"}, {"$set": {"lease.stamp": stolen}})

    async def cancel(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.run, self.source.random() / 10)
        self.run = asyncio.create_task(self.deliverer.run())

    async def stop(self) -> None:
        await self.deliverer.stop()
        await self.run
        self.run = asyncio.create_task(self.deliverer.run())

    async def interrupt(self) -> None:
        await self.some_attempts()
        how: Callable[[], Awaitable[None]] = self.source.choice([self.steal, self.cancel, self.stop])
        await how()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("holes", "good", "for_s"),
    [(40, 10, 0.0), pytest.param(500, 50, 300.0, marks=pytest.mark.long)],
    ids=["scaled", "full"],
)
async def test_r44_after_black_holes_and_interruptions_every_slot_and_connection_is_there_again(
    farm, deliverer_to, db, monkeypatch, *, holes: int, good: int, for_s: float
):
    """Good hosts at their full rate, as many sockets as slots, and nothing left of the pool when idle."""
    monkeypatch.setattr(Transports, "made", [], raising=False)
    monkeypatch.setattr("ojak.deliverer.AiohttpTransport", Transports)
    here: FarmHandle = farm({"black-hole": holes, GOOD: good})
    hole_port = int(here.inboxes("black-hole")[0].split(":")[2].split("/")[0])
    config = DelivererConfig(
        poll_every_s=0.05,
        concurrency=SLOTS,
        connect_s=0.2,
        request_s=1,
        lease_s=1.5,
        reap_every_s=0.1,
        drain_s=0.1,
        breaker_threshold=1000,
        max_deaths=100,
    )

    async def rate(deliverer: Deliverer, what: str) -> float:
        """Deliveries a second to as many good hosts as have a slot for each of two requests."""
        before = (await here.async_client.report()).accepted
        began_s = time.monotonic()
        for number in range(ROUND * 2 // SLOTS):
            activity = {"id": f"https://a.test/{what}{number}", "type": "Like"}
            await deliverer.send(activity, SENDER, here.inboxes(GOOD)[: SLOTS // 2])
        assert await here.async_client.wait(Counted.OPEN, at_least=SLOTS)
        assert sockets(here.http_port, ESTABLISHED) == SLOTS
        assert await here.async_client.wait(Counted.ACCEPTED, at_least=before + ROUND, timeout_s=60)
        return ROUND / (time.monotonic() - began_s)

    async def nothing_waits() -> bool:
        return not await db.jobs.count_documents({"state": {"$in": list(UNFINISHED)}})

    async def nothing_is_kept() -> bool:
        return {transport.in_use for transport in Transports.made} == {(0, 0)}

    calm = deliverer_to(here, config=config)
    async with running(calm):
        await calm.send({"id": "https://a.test/warm", "type": "Like"}, SENDER, here.inboxes(GOOD))
        await until(nothing_waits)
        await until(nothing_is_kept)
        before = await rate(calm, "calm")

    def make(**options: Any) -> Deliverer:
        made: Deliverer = deliverer_to(here, config=config, **options)
        return made

    chaos = Chaos(db, make)
    began_s, interruptions = time.monotonic(), 0
    while interruptions < LEAST or time.monotonic() - began_s < for_s:
        if interruptions % LEAST == 0:
            for number in range(6):
                activity = {"id": f"https://a.test/chaos{interruptions}-{number}", "type": "Like"}
                await chaos.deliverer.send(activity, SENDER, here.inboxes())
        await chaos.interrupt()
        interruptions += 1
    for _ in range(3):
        # This run, whose pool is looked at below, has lost leases too.
        await chaos.some_attempts()
        await chaos.steal()
    assert len(Transports.made) > 3
    await chaos.deliverer.cancel(sender=SENDER)
    await until(nothing_waits)
    await until(nothing_is_kept)
    assert sockets(hole_port, SYN_SENT) == 0
    seen = here.ledger().arrivals[-1].seq
    after = await rate(chaos.deliverer, "after")
    assert most_at_once(here.ledger(after=seen).arrivals) == SLOTS
    assert after > 0.8 * before
    await until(nothing_is_kept)
    assert (await here.async_client.report()).open_connections == 0
    await chaos.deliverer.close()
    await chaos.run
