# SPDX-License-Identifier: Apache-2.0
"""Order as receivers see it, with several workers and failures in between."""

import asyncio

from tests.waiting import until

from ojak import Settled, SettledOutcome

from .conftest import SENDER, running

POST = "https://a.test/post"


def activity(name: str, kind: str, about: object = POST) -> dict[str, object]:
    return {"id": f"https://a.test/{name}", "type": kind, "object": about}


async def test_every_inbox_sees_the_activities_about_a_post_in_the_order_they_were_sent(farm, deliverer_to, ended):
    here = farm({"accept": 6, "accept:30": 6})
    deliverers = [deliverer_to(here) for _ in range(2)]
    names = ["c", *(f"u{n}" for n in range(8)), "d"]
    kinds = ["Create", *["Update"] * 8, "Delete"]
    async with running(*deliverers):
        for n, (name, kind) in enumerate(zip(names, kinds, strict=True)):
            await deliverers[n % 2].send(activity(name, kind), SENDER, here.inboxes())
        await ended(120)
    for inbox in here.inboxes():
        arrivals = sorted((a for a in here.ledger().arrivals if a.inbox == inbox), key=lambda arrival: arrival.seq)
        seen = [arrival.activity.rpartition("/")[2] for arrival in arrivals]
        # A Create that was not begun when its Delete was queued is dropped.
        assert seen in (names, names[1:]), inbox
        assert max(arrival.open_requests for arrival in arrivals) == 1


async def test_a_delivery_that_is_retried_holds_up_what_comes_after_it(farm, deliverer_to, ended, db):
    here = farm({"status:503": 1, "accept": 1})
    deliverer = deliverer_to(here)
    async with running(deliverer):
        await deliverer.send(activity("c", "Create"), SENDER, here.inboxes())
        await until(lambda: _is(db, {"state": "queued", "tries": 1}))
        await deliverer.send(activity("u", "Update"), SENDER, here.inboxes())
        await ended(2)
        assert await _is(db, {"state": "blocked", "activity": "https://a.test/u"})
    assert len(here.ledger().arrivals) == 3


async def test_a_create_is_dropped_by_its_delete_and_told_as_superseded(farm, deliverer_to):
    here = farm({"accept": 2})
    told: asyncio.Queue[Settled] = asyncio.Queue()
    deliverer = deliverer_to(here, on_settled=told.put)
    await deliverer.send(activity("c", "Create"), SENDER, here.inboxes())
    await deliverer.send(activity("d", "Delete"), SENDER, here.inboxes()[:1])
    async with running(deliverer):
        ends = [await asyncio.wait_for(told.get(), 20) for _ in range(2)]
    assert {(end.activity_id[-1], end.outcome) for end in ends} == {
        ("c", SettledOutcome.DELIVERED),
        ("d", SettledOutcome.DELIVERED),
    }
    assert {arrival.activity[-1] for arrival in here.ledger().arrivals if arrival.inbox == here.inboxes()[0]} == {"d"}


async def _is(db, row: dict[str, object]) -> bool:
    return await db.jobs.count_documents(row) == 1
