# SPDX-License-Identifier: Apache-2.0
"""Gateways of portable inboxes to which nothing goes for now are passed over, without a request (SPEC section 3)."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.waiting import until

from ojak import (
    BreakerResult,
    BreakerScope,
    CircuitBreaker,
    DelivererConfig,
    FailureReason,
    MemoryBreakers,
    PortableInbox,
    SettledOutcome,
    Signal,
)
from ojak.farm import FarmHandle

from .conftest import SENDER, running
from .gateways import ACTIVITY, CONFIG, PATH, URI, authority, hold, origins, were_tried


async def test_a_held_gateway_is_passed_over_without_a_request(farm, deliverer_to, db, told):
    here = farm({"accept": 1, "accept:1": 1})
    held, other = origins(here, "accept", "accept:1")
    await hold(db, held)
    deliverer = deliverer_to(here, config=CONFIG, **told.callbacks())
    async with running(deliverer):
        await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(URI, [held, other])])
        end = await told.end()
    assert (end.outcome, end.attempts) == (SettledOutcome.DELIVERED, 1)
    assert [arrival.inbox for arrival in here.ledger().arrivals] == [f"{other}{PATH}"]


async def test_what_waits_for_a_gateway_that_is_held_meanwhile_goes_to_another(farm, deliverer_to, db, told):
    """Queued while both are open, and nobody runs; then the first is held, by nobody who would say so."""
    here = farm({"accept": 1, "accept:1": 1})
    first, other = origins(here, "accept", "accept:1")
    deliverer = deliverer_to(here, config=CONFIG, **told.callbacks())
    inboxes = [PortableInbox(f"{URI}/{n}", [first, other]) for n in range(20)]
    await deliverer.send_portable(ACTIVITY, SENDER, inboxes)
    assert await db.jobs.count_documents({"lane": authority(first)}) == 20
    await hold(db, first)
    async with running(deliverer):
        ends = [await told.end() for _ in inboxes]
    assert {(end.outcome, end.attempts) for end in ends} == {(SettledOutcome.DELIVERED, 1)}
    assert {arrival.host for arrival in here.ledger().arrivals} == {here.labelled("accept:1")[0].name}


async def test_a_held_gateway_leaves_it_retried_when_the_others_answered(farm, deliverer_to, db, told):
    here = farm({"status:404": 1, "accept": 1})
    gone, held = origins(here, "status:404", "accept")
    await hold(db, held)
    deliverer = deliverer_to(here, config=CONFIG, **told.callbacks())
    async with running(deliverer):
        await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(URI, [gone, held])])
        await until(lambda: were_tried(db, 1))
        row = await db.jobs.find_one()
        assert (row["lane"], row["state"]) == (authority(gone), "queued")
    assert len(here.ledger().arrivals) == 1


async def test_with_all_gateways_held_it_waits_for_the_first_to_open_without_an_attempt(farm, deliverer_to, db, told):
    here = farm({"accept": 1, "accept:1": 1, "accept:2": 1})
    gateways = origins(here, "accept", "accept:1", "accept:2")
    await hold(db, gateways[0], hours=3)
    await hold(db, gateways[1], hours=1)
    await hold(db, gateways[2], hours=2)
    deliverer = deliverer_to(here, config=CONFIG, **told.callbacks())
    async with running(deliverer):
        await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(URI, gateways)])
        (row,) = [row async for row in db.jobs.find()]
        assert (row["lane"], row["at"], row["tries"]) == (authority(gateways[1]), 1, 0)
        # The third opens first after all.
        await hold(db, gateways[2], hours=0.5)
        await until(lambda: _in_lane(db, authority(gateways[2])))
        assert (told.attempts, here.ledger().arrivals) == ([], ())
        await hold(db, gateways[2], hours=-1)
        end = await told.end()
    assert (end.outcome, end.attempts) == (SettledOutcome.DELIVERED, 1)
    assert [arrival.inbox for arrival in here.ledger().arrivals] == [f"{gateways[2]}{PATH}"]


async def _in_lane(db: Any, lane: str) -> bool:
    return await db.jobs.count_documents({"lane": lane, "state": "queued"}) == 1


async def test_a_gateway_whose_breaker_opens_is_left_by_all_that_wait_for_it(farm, deliverer_to, db, told):
    here = farm({"status:503": 1, "accept": 1})
    gateways = origins(here, "status:503", "accept")
    config = DelivererConfig(poll_every_s=0.05, breaker_threshold=3, breaker_first_s=3600)
    deliverer = deliverer_to(here, config=config, breakers="shared", **told.callbacks())
    inboxes = [PortableInbox(f"{URI}/{n}", gateways) for n in range(40)]
    await deliverer.send_portable(ACTIVITY, SENDER, inboxes)
    async with running(deliverer):
        ends = [await told.end() for _ in inboxes]
    assert {(end.outcome, end.attempts) for end in ends} == {(SettledOutcome.DELIVERED, 1)}
    counts = Counter(arrival.host for arrival in here.ledger().arrivals)
    assert counts[here.labelled("status:503")[0].name] in (3, 4), "one more may have been on the wire"
    assert counts[here.labelled("accept")[0].name] == 40


@pytest.mark.parametrize("attempts", [16, 1])
async def test_a_gateway_that_is_held_while_it_is_next_ends_the_attempt_that_others_were_asked_in(
    farm, deliverer_to, db, told, attempts
):
    """The first gateway was asked and failed, the delivery waits for the second, and that is held before its turn."""
    here = farm({"status:500": 1, "accept": 1})
    asked, held = origins(here, "status:500", "accept")
    config = DelivererConfig(poll_every_s=0.05, max_attempts=attempts)
    deliverer = deliverer_to(here, config=config, **told.callbacks())
    await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(URI, [asked, held])])
    tried = {"at": 0, "came": "failed", "status": 500, "reason": "status-500", "scheme": "cavage"}
    await db.jobs.update_one({}, {"$set": {"lane": authority(held), "at": 1, "tried": [tried]}})
    await hold(db, held)
    async with running(deliverer):
        if attempts == 1:
            end = await told.end()
            assert (end.outcome, end.attempts, end.status) == (FailureReason.OUT_OF_RETRIES, 1, 500)
        else:
            await until(lambda: were_tried(db, 1))
            row = await db.jobs.find_one()
            assert (row["lane"], row["at"], row["last"]["status"]) == (authority(asked), 0, 500)
            assert 15 < (row["run_at"] - row["queued_at"]).total_seconds() < 60
    assert here.ledger().arrivals == ()


async def test_probes_of_held_gateways_spend_no_attempt(farm, deliverer_to, db, told):
    here = farm({"status:503": 2})
    gateways = origins(here, "status:503")
    config = DelivererConfig(
        poll_every_s=0.05, breaker_threshold=1, breaker_first_s=0.3, breaker_longest_s=0.3, breaker_growth=1
    )
    deliverer = deliverer_to(here, config=config, breakers="shared", **told.callbacks())
    async with running(deliverer):
        await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(URI, gateways)])
        await until(lambda: _arrived(here, 8))
        assert {row["tries"] async for row in db.jobs.find()} == {1}, "the first attempt, at both"
        here.client.heal()
        end = await told.end()
    assert (end.outcome, end.attempts) == (SettledOutcome.DELIVERED, 2)
    assert {attempt.number for attempt in told.attempts[2:]} == {2}


async def _arrived(farm: FarmHandle, count: int) -> bool:
    return len(farm.ledger().arrivals) >= count


async def make_unavailable(db: Any, *gateways: str) -> None:
    now = datetime.now(UTC)
    for origin in gateways:
        await hold(db, origin, hours=72)
        breaker = {
            "rev": b"seeded",
            "open": True,
            "failures": 0,
            "step": 9,
            "to_go": 0,
            "until": now + timedelta(hours=72),
            "ends": now + timedelta(hours=72),
            "heard": False,
            "quiet_since": now - timedelta(days=40),
            "unavailable_at": now - timedelta(days=10),
        }
        await db.hosts.update_one(
            {"_id": authority(origin)}, {"$set": {"breaker": breaker}, "$unset": {"gate_until": ""}}
        )


async def test_gateways_that_have_been_away_for_a_month_are_passed_over_and_all_of_them_end_it(
    farm, deliverer_to, db, told
):
    here = farm({"status:503": 2, "accept": 1})
    away, other = origins(here, "status:503"), origins(here, "accept")
    deliverer = deliverer_to(here, config=CONFIG, breakers="shared", **told.callbacks())
    await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(f"{URI}/late", [away[0], *other])])
    await make_unavailable(db, *away)
    async with running(deliverer):
        await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(URI, [*away, *other])])
        await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(f"{URI}/2", away)])
        ends = [await told.end() for _ in range(3)]
        assert {end.inbox: (end.outcome, end.attempts, end.reason) for end in ends} == {
            f"{URI}/late": (SettledOutcome.DELIVERED, 1, ""),
            URI: (SettledOutcome.DELIVERED, 1, ""),
            f"{URI}/2": (SettledOutcome.HOST_UNAVAILABLE, 0, "host-unavailable"),
        }
        # One that is held and not given up on is waited for.
        await hold(db, *other)
        await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(f"{URI}/3", [*away, *other])])
        await until(lambda: _in_lane(db, authority(other[0])))
    assert len(here.ledger().arrivals) == 2


async def test_breakers_of_inboxes_are_of_the_inbox_at_its_gateway(farm, deliverer_to, db, told):
    here = farm({"accept": 1, "accept:1": 1})
    gateways = origins(here, "accept", "accept:1")
    store = MemoryBreakers(CircuitBreaker(threshold=1, first_s=3600, scope=BreakerScope.INBOX))
    await store.record([BreakerResult(key=f"{gateways[0]}{PATH}", signal=Signal.FAILURE)])
    deliverer = deliverer_to(here, config=CONFIG, breakers=store, **told.callbacks())
    async with running(deliverer):
        await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(URI, gateways)])
        end = await told.end()
        assert (end.outcome, end.attempts) == (SettledOutcome.DELIVERED, 1)
        await store.record([BreakerResult(key=f"{gateways[1]}{PATH}", signal=Signal.FAILURE)])
        await deliverer.send_portable(
            {"id": "https://a.test/2", "type": "Like"}, SENDER, [PortableInbox(URI, gateways)]
        )
        await until(lambda: _waits_long(db))
    assert [arrival.inbox for arrival in here.ledger().arrivals] == [f"{gateways[1]}{PATH}"]


async def _waits_long(db: Any) -> bool:
    row = await db.jobs.find_one({"state": "queued", "tries": 0, "last.reason": "inbox-held"})
    return row is not None and (row["run_at"] - row["queued_at"]).total_seconds() > 3000
