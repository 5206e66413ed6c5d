# SPDX-License-Identifier: Apache-2.0
"""What an operator sets for a host, and limits that adapt (SPEC section 4; field reports R10 and R37)."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from ojak import Deliverer, DelivererConfig, InputError
from ojak.breaker.circuit import Signal
from ojak.breaker.store import BreakerResult, MemoryBreakers
from ojak.farm import FarmHandle, FarmPlan, HostPlan, Phase, running_farm
from ojak.farm.behaviour import Respond
from ojak.http.knock import ACTIVITY_JSON, LD_JSON
from ojak.model.host import ContentForm, ProbeAnswer
from ojak.store.counts import count_by_state
from ojak.store.database import QueueDatabase

from .conftest import SENDER, running

QUICK = DelivererConfig(poll_every_s=0.05)
HOUR_S = 3600.0
STOUT = "short and stout "


async def send(deliverer: Deliverer, inboxes: Any, count: int, *, what: str = "n") -> None:
    for number in range(count):
        await deliverer.send({"id": f"https://a.test/{what}{number}", "type": "Like"}, SENDER, inboxes)


def name_of(inbox: str) -> str:
    return inbox.partition("://")[2].partition("/")[0]


async def count(db: QueueDatabase, state: str, number: int) -> bool:
    return await db.jobs.count_documents({"state": state}) >= number


@pytest.fixture
def choosy(tmp_path: Path, keys_dir: Path) -> Iterator[FarmHandle]:
    """Hosts that look at the Content-Type, byte for byte; one of them takes nothing."""
    taken = {"plain": (ACTIVITY_JSON,), "profile": (LD_JSON,), "either": (ACTIVITY_JSON, LD_JSON), "neither": ("x/y",)}
    hosts = tuple(HostPlan(name=f"{label}.test", label=label, content_types=forms) for label, forms in taken.items())
    teapot = HostPlan(name="teapot.test", script=(Phase(behaviour=Respond(status=418, body=STOUT * 50)),))
    with running_farm(FarmPlan(hosts=(*hosts, teapot)), folder=tmp_path / "farm", keys_folders=[keys_dir]) as here:
        yield here


async def test_r10_one_exact_content_type_and_the_other_by_host(choosy, deliverer_to, db, ended):
    """Deliveries were refused over a parameter or a space."""
    deliverer = deliverer_to(choosy, config=QUICK)
    async with running(deliverer):
        await send(deliverer, choosy.inboxes(), 1)
        await ended(5)
        assert await count_by_state(db) == {"delivered": 2, "refused": 3}
        reasons = {row["last"]["reason"]: row["last"].get("detail") async for row in db.jobs.find({"state": "refused"})}
        assert reasons == {"status-415": None, "status-418": (STOUT * 50)[:200].strip()}, "and how the answer began"
        for label in ("profile", "either"):
            await deliverer.set_content_form(name_of(choosy.inboxes(label)[0]), ContentForm.LD_JSON)
        await send(deliverer, [*choosy.inboxes("profile"), *choosy.inboxes("either")], 1, what="again")
        await ended(7)
        await deliverer.set_content_form(name_of(choosy.inboxes("profile")[0]), None)
        await send(deliverer, choosy.inboxes("profile"), 1, what="back")
        await ended(8)
    assert await count_by_state(db) == {"delivered": 4, "refused": 4}
    assert ACTIVITY_JSON == "application/activity+json"
    assert LD_JSON == 'application/ld+json; profile="https://www.w3.org/ns/activitystreams"'


async def test_a_pin_goes_before_what_was_learnt_allows_no_second_knock_and_is_learnt_nothing_from(
    farm, deliverer_to, db, ended
):
    here = farm({"rfc9421-only": 1})
    (inbox,) = here.inboxes()
    deliverer = deliverer_to(here, config=QUICK)
    async with running(deliverer):
        await send(deliverer, [inbox], 1)
        await ended(1)
        await until(lambda: _learnt(db))
        await deliverer.pin_scheme(name_of(inbox), "cavage")
        await send(deliverer, [inbox], 1, what="pinned")
        await until(lambda: _tried(db))
        await deliverer.pin_scheme(name_of(inbox), "rfc9421")
        await send(deliverer, [inbox], 1, what="well")
        await ended(2)
        await deliverer.pin_scheme(name_of(inbox), None)
        await send(deliverer, [inbox], 1, what="unpinned")
        await ended(3)
    by_activity = [(arrival.activity.rpartition("/")[2], arrival.scheme) for arrival in here.ledger().arrivals]
    assert by_activity[:2] == [("n0", "cavage"), ("n0", "rfc9421")], "a decisive pair"
    assert by_activity[2:] == [("pinned0", "cavage"), ("well0", "rfc9421"), ("unpinned0", "rfc9421")]


async def _learnt(db: QueueDatabase) -> bool:
    return await db.hosts.count_documents({"scheme.name": "rfc9421"}) == 1


async def _tried(db: QueueDatabase) -> bool:
    return await db.jobs.count_documents({"state": "queued", "tries": 1}) == 1


def most_open(here: FarmHandle, *, after: int = 0) -> int:
    return max(arrival.open_requests for arrival in here.ledger(after=after).arrivals)


async def test_more_than_two_at_a_time_only_where_an_operator_allows_it(farm, deliverer_to, db, ended):
    here = farm({"accept:60": 2})
    wide, usual = here.inboxes()
    deliverer = deliverer_to(here, config=QUICK)
    await deliverer.limit_host(name_of(wide), 5)
    async with running(deliverer):
        await send(deliverer, [wide, usual], 20)
        await ended(40)
        most = {inbox: _most(here, inbox) for inbox in (wide, usual)}
        assert (most[wide], most[usual]) == (5, 2)
        await deliverer.limit_host(name_of(wide), 1)
        seen = len(here.ledger().arrivals)
        await send(deliverer, [wide], 6, what="one")
        await ended(46)
    assert most_open(here, after=seen) == 1


def _most(here: FarmHandle, inbox: str) -> int:
    return max(arrival.open_requests for arrival in here.ledger().arrivals if arrival.inbox == inbox)


async def test_slow_answers_leave_one_at_a_time_until_quick_ones_came_and_a_restart_knows(
    farm, deliverer_to, db, ended
):
    here = farm({"accept:300": 1})
    config = DelivererConfig(poll_every_s=0.05, slow_answer_s=0.25, quick_answers=6)
    first = deliverer_to(here, config=config)
    async with running(first):
        await send(first, here.inboxes(), 6)
        await until(lambda: _arrived(here, 4))
        assert most_open(here) == 2, "nobody knew"
        assert most_open(here, after=2) == 1
        await ended(6)
        record = await first.host(name_of(here.inboxes()[0]))
        assert record.limit == 1
    here.client.behave("accept:300", Respond(status=202, latency_ms=40))
    seen = len(here.ledger().arrivals)
    second = deliverer_to(here, config=config)
    async with running(second):
        await send(second, here.inboxes(), 16, what="quick")
        await ended(22)
        opened = [one.open_requests for one in sorted(here.ledger(after=seen).arrivals, key=lambda one: one.seq)]
        assert max(opened[:6]) == 1
        assert max(opened[7:]) == 2
        assert (await second.host(name_of(here.inboxes()[0]))).limit is None
        # A 429 without a time to wait: retried, and one at a time.
        here.client.behave("accept:300", Respond(status=429))
        await send(second, here.inboxes(), 1, what="much")
        await until(lambda: _narrow(second, here))


async def _arrived(here: FarmHandle, number: int) -> bool:
    return len(here.ledger().arrivals) >= number


async def _narrow(deliverer: Deliverer, here: FarmHandle) -> bool:
    return (await deliverer.host(name_of(here.inboxes()[0]))).limit == 1


# R37: the wait of a recovered host had grown to hours, and only a change in the database ended it.


async def ojak(mongod_url: str, db: QueueDatabase, *arguments: str) -> str:
    """Run a command as on another machine: it shares nothing with the workers but the database."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ojak",
        *arguments,
        "--mongo-url",
        mongod_url,
        "--database",
        db.name,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ},
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def dead_for_long(db: QueueDatabase, deliverer: Deliverer, inbox: str) -> None:
    """Its third quarantine has begun: hours to go, and some deliveries wait."""
    await send(deliverer, [inbox], 4)
    breaker = {"rev": b"1", "open": True, "failures": 0, "step": 3, "to_go": 0, "heard": False}
    await db.hosts.update_one(
        {"_id": name_of(inbox)},
        [
            {"$set": {"breaker": {"$literal": breaker}}},
            {"$set": {"breaker.until": db.now.plus(4 * HOUR_S), "breaker.ends": db.now.plus(4 * HOUR_S)}},
            {
                "$set": {
                    "hold_until": "$breaker.until",
                    "ready": {"0": "$breaker.until", "1": "$breaker.until"},
                }
            },
        ],
    )


Command = Callable[[str, QueueDatabase, str], Any]


async def by_probe(url: str, db: QueueDatabase, host: str) -> None:
    assert "its probe goes now" in await ojak(url, db, "hosts", "probe", host)


async def by_resume(url: str, db: QueueDatabase, host: str) -> None:
    assert "resumed" in await ojak(url, db, "hosts", "resume", host)


async def by_reset(url: str, db: QueueDatabase, host: str) -> None:
    assert "reset" in await ojak(url, db, "hosts", "reset", host)


@pytest.mark.parametrize("command", [by_probe, by_resume, by_reset])
async def test_r37_a_command_on_one_machine_sends_from_whichever_worker_owns_the_host(
    farm, deliverer_to, db, ended, mongod_url, *, command: Command
):
    """The workers look by themselves every 30 s only: what wakes them is the command. One starts while it is dead."""
    here = farm({"accept": 1})
    (inbox,) = here.inboxes()
    config = DelivererConfig(poll_every_s=30)
    before, after = (deliverer_to(here, config=config, breakers="shared") for _ in range(2))
    await dead_for_long(db, before, inbox)
    async with running(before), running(after):
        await until(lambda: _shared(db))
        assert here.ledger().arrivals == ()
        began_s = time.monotonic()
        await command(mongod_url, db, name_of(inbox))
        said_s = time.monotonic()
        await until(lambda: _arrived(here, 1), within_s=5)
        assert time.monotonic() - said_s < 5
        assert said_s - began_s < 10
        await ended(4)
    assert await count_by_state(db) == {"delivered": 4}


async def _shared(db: QueueDatabase) -> bool:
    owners = await db.shards.distinct("owner")
    return len(owners) == 2 and None not in owners


async def test_r37_resume_ends_a_pause_from_another_machine(farm, deliverer_to, db, ended, mongod_url):
    here = farm({"accept": 1})
    (inbox,) = here.inboxes()
    deliverer = deliverer_to(here, config=DelivererConfig(poll_every_s=30))
    async with running(deliverer):
        await ojak(mongod_url, db, "hosts", "pause", name_of(inbox))
        await send(deliverer, [inbox], 3)
        assert "until it is resumed; 3 deliveries wait" in await ojak(mongod_url, db, "queue", "status")
        await ojak(mongod_url, db, "hosts", "resume", name_of(inbox))
        await until(lambda: _arrived(here, 1), within_s=5)
        await ended(3)


async def test_r37_a_probe_that_fails_leaves_the_quarantine_as_it_was(farm, deliverer_to, db):
    here = farm({"status:503": 1})
    (inbox,) = here.inboxes()
    deliverer = deliverer_to(here, config=QUICK, breakers="shared")
    await dead_for_long(db, deliverer, inbox)
    async with running(deliverer):
        ends = (await deliverer.host(name_of(inbox))).held_until
        for number in range(1, 3):
            assert await deliverer.probe_host(name_of(inbox)) is ProbeAnswer.GOES
            await until(lambda: _arrived(here, number))  # noqa: B023 - awaited before the next one
            await until(lambda: _held(deliverer, inbox))
            record = await deliverer.host(name_of(inbox))
            assert record.held_until == ends
            assert record.breaker is not None
            assert record.breaker.quarantine == 3
        assert await deliverer.probe_host(name_of(inbox)) is ProbeAnswer.GOES
    assert await db.jobs.count_documents({"tries": {"$gt": 0}}) == 0


async def _held(deliverer: Deliverer, inbox: str) -> bool:
    record = await deliverer.host(name_of(inbox))
    return record.breaker is not None and record.breaker.state == "open" and record.held_until is not None


async def test_a_probe_is_had_once_in_a_quarantine_that_another_store_keeps(farm, deliverer_to, db, ended):
    here = farm({"accept": 1})
    (inbox,) = here.inboxes()
    store = MemoryBreakers()
    await store.record([BreakerResult(key=name_of(inbox), signal=Signal.FAILURE)] * 10)
    deliverer = deliverer_to(here, config=QUICK, breakers=store)
    async with running(deliverer):
        await send(deliverer, [inbox], 3)
        await until(lambda: _held(deliverer, inbox))
        assert here.ledger().arrivals == ()
        assert await deliverer.probe_host(name_of(inbox)) is ProbeAnswer.GOES
        await ended(3)


# What a host shows of itself.

ASKS = ("Accept-Signature", 'sig1=("@method" "@target-uri" "@authority" "content-digest");created;keyid')


async def test_a_host_that_asks_for_rfc_9421_in_an_answer_is_sent_to_so(farm, deliverer_to, db, ended):
    here = farm({"accept": 1})
    here.client.behave("accept", Respond(status=503, headers=(ASKS,)))
    deliverer = deliverer_to(here, config=QUICK)
    async with running(deliverer):
        await send(deliverer, here.inboxes(), 1)
        await until(lambda: _arrived(here, 1))
        here.client.behave("accept", Respond(status=202))
        await send(deliverer, here.inboxes(), 1, what="lone")
        await ended(1)
        here.client.behave("accept", Respond(status=202, headers=(ASKS,)))
        await send(deliverer, here.inboxes(), 1, what="asks")
        await ended(2)
        await send(deliverer, here.inboxes(), 1, what="asked")
        await ended(3)
    schemes = {one.activity.rpartition("/")[2]: one.scheme for one in here.ledger().arrivals}
    assert schemes == {"n0": "cavage", "lone0": "cavage", "asks0": "cavage", "asked0": "rfc9421"}


async def test_a_host_that_asks_for_what_it_does_not_take_costs_one_pair_and_no_more(farm, deliverer_to, db, ended):
    here = farm({"cavage-only": 1})
    here.client.behave("cavage-only", Respond(status=202, headers=(ASKS,)))
    deliverer = deliverer_to(here, config=QUICK)
    async with running(deliverer):
        for number in range(4):
            await send(deliverer, here.inboxes(), 1, what=f"n{number}")
            await ended(number + 1)
    assert [one.scheme for one in here.ledger().arrivals] == ["cavage", "rfc9421", "cavage", "cavage", "cavage"]


async def test_a_verified_request_by_rfc_9421_is_a_hint_and_a_pin_goes_before_it(farm, deliverer_to, db, ended):
    here = farm({"accept": 1})
    (inbox,) = here.inboxes()
    deliverer = deliverer_to(here, config=QUICK)
    async with running(deliverer):
        assert await deliverer.heard_from(name_of(inbox), "cavage") is False
        assert await deliverer.heard_from(name_of(inbox), "rfc9421") is False
        await send(deliverer, [inbox], 1, what="hinted")
        await ended(1)
        await deliverer.pin_scheme(name_of(inbox), "cavage")
        await deliverer.heard_from(name_of(inbox), "rfc9421")
        await send(deliverer, [inbox], 1, what="pinned")
        await ended(2)
        for wrong in (("not a host", None), (name_of(inbox), "rot13")):
            with pytest.raises(InputError, match="allowed is"):
                await deliverer.heard_from(*wrong)
    assert [one.scheme for one in here.ledger().arrivals] == ["rfc9421", "cavage"]
