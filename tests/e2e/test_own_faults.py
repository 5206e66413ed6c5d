# SPDX-License-Identifier: Apache-2.0
"""Faults of our own spend no attempt, open no breaker, and pass (SPEC section 4)."""

import errno
import gc
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from tests.waiting import until

from ojak import AttemptOutcome, CachingSenderKeys, DelivererConfig, DeliveryAttempt
from ojak.farm import judge
from ojak.http.aiohttp_transport import AiohttpTransport
from ojak.http.guard import Guard
from ojak.http.resolver import Dns, Resolver
from ojak.model.job import Priority
from ojak.signing import KeysOutOfReach
from ojak.store.counts import count_by_state
from ojak.store.hosts import Due, lower_due

from .conftest import SENDER, running

LIKE = {"id": "https://a.test/1", "type": "Like"}
HOSTS = 30


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Let this process open so many more descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()
    taken = [os.dup(0) for _ in range(64)]
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def none_is_left_out(db: Any) -> bool:
    """Whether each delivery has been tried, and none is being tried now."""
    return not await db.jobs.count_documents(
        {"$or": [{"state": "leased"}, {"state": "queued", "last": None}, {"state": "queued", "last.reason": ""}]}
    )


async def hurry(db: Any) -> None:
    """What met a fault of our own waits for half a minute: let it come."""
    await db.jobs.update_many({"state": "queued"}, [{"$set": {"run_at": "$$NOW"}}])
    await lower_due(db, [Due(authority=name, priority=Priority.FANOUT) for name in await db.jobs.distinct("lane")])


async def test_too_few_descriptors_cost_no_attempt_and_harm_no_host(farm, deliverer_to, db, ended):
    here = farm({"accept:300": HOSTS})
    attempts: list[DeliveryAttempt] = []
    config = DelivererConfig(poll_every_s=0.05, concurrency=16, concurrency_max=16, breaker_threshold=1)
    deliverer = deliverer_to(here, config=config, breakers="shared", on_attempt=attempts.append)
    # Else the files of keys could not be opened either (below).
    deliverer._keys = CachingSenderKeys(deliverer._keys)
    async with running(deliverer):
        await deliverer.send({"id": "https://a.test/warm", "type": "Like"}, SENDER, here.inboxes()[:12])
        await ended(12)
        with descriptors_left(3):
            await deliverer.send(LIKE, SENDER, here.inboxes())
            await until(partial(none_is_left_out, db))
        own = [attempt for attempt in attempts if attempt.outcome is AttemptOutcome.OWN_FAULT]
        assert own, "there were too few"
        assert {attempt.reason for attempt in own} == {"local"}
        assert await db.hosts.count_documents({"breaker": {"$exists": True}}) == 0
        await hurry(db)
        await ended(12 + HOSTS)
    assert await count_by_state(db) == {"delivered": 12 + HOSTS}
    assert {row["tries"] async for row in db.jobs.find()} == {1}
    assert judge(here.ledger()).clean


async def test_a_key_file_that_this_machine_cannot_open_is_called_no_broken_key(
    farm, deliverer_to, db, ended, monkeypatch
):
    here = farm({"accept": 3})
    deliverer = deliverer_to(here, config=DelivererConfig(poll_every_s=0.05))
    await deliverer.send(LIKE, SENDER, here.inboxes(), priority=Priority.FANOUT)

    def out_of_descriptors(*_args: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with running(deliverer):
        with monkeypatch.context() as patched:
            patched.setattr("ojak.signing.folder.os.open", out_of_descriptors)
            with pytest.raises(KeysOutOfReach, match="Too many open files"):
                await deliverer.send({**LIKE, "id": "https://a.test/2"}, SENDER, here.inboxes())
            await until(partial(none_is_left_out, db))
        assert {(row["last"]["reason"], row["tries"]) async for row in db.jobs.find()} == {("local", 0)}
        assert await deliverer.sender_pauses() == []
        await hurry(db)
        await ended(3)
    assert await count_by_state(db) == {"delivered": 3}


async def test_a_name_server_that_is_gone_quarantines_nobody(farm, deliverer_to, db, ended, monkeypatch):
    here = farm({"accept": HOSTS})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    dns = Dns(servers=[f"127.0.0.1:{port}"], timeout_s=0.3, tries=1)
    monkeypatch.setattr(
        "ojak.deliverer.AiohttpTransport",
        lambda **options: AiohttpTransport(**options, resolver=Resolver(guard=Guard(), lookup=dns.lookup)),
    )
    config = DelivererConfig(poll_every_s=0.05, breaker_threshold=1)
    deliverer = deliverer_to(here, config=config, breakers="shared")
    async with running(deliverer):
        await deliverer.send(LIKE, SENDER, here.inboxes())
        await until(partial(none_is_left_out, db))
    assert {(row["last"]["reason"], row["tries"]) async for row in db.jobs.find()} == {("local", 0)}
    assert await db.hosts.count_documents({"breaker": {"$exists": True}}) == 0
    assert here.report().connections == 0
    monkeypatch.undo()
    again = deliverer_to(here, config=config, breakers="shared")
    async with running(again):
        await hurry(db)
        await ended(HOSTS)
    await dns.close()
    assert await count_by_state(db) == {"delivered": HOSTS}
    assert {row["tries"] async for row in db.jobs.find()} == {1}


async def test_connections_that_were_closed_meanwhile_cost_an_attempt_each_and_no_delivery(
    farm, deliverer_to, db, ended
):
    """A POST is never repeated by itself: each request is an attempt of its own, and what may have arrived is told."""
    here = farm({"close-after:2": 2})
    attempts: list[DeliveryAttempt] = []
    deliverer = deliverer_to(here, config=DelivererConfig(poll_every_s=0.05), on_attempt=attempts.append)
    async with running(deliverer):
        for number in range(12):
            await deliverer.send({"id": f"https://a.test/{number}", "type": "Like"}, SENDER, here.inboxes())

        async def all_are_through() -> bool:
            await hurry(db)
            return await count_by_state(db) == {"delivered": 24}

        await until(all_are_through)
    arrivals = here.ledger().arrivals
    assert len(arrivals) <= len(attempts) == sum([row["tries"] async for row in db.jobs.find()])
    lost = [attempt for attempt in attempts if attempt.outcome is AttemptOutcome.RETRY]
    assert {(attempt.reason, attempt.maybe_delivered) for attempt in lost} <= {
        ("closed-before-answer", True),
        ("reset", True),
    }
    assert judge(arrivals).clean
