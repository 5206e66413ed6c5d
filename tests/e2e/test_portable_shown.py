# SPDX-License-Identifier: Apache-2.0
"""What is shown of deliveries to portable inboxes."""

from tests.waiting import until

from ojak import PortableInbox, WaitsFor

from .conftest import SENDER, running
from .gateways import ACTIVITY, CONFIG, URI, hold, let_come, origins, were_tried


async def test_explain_shows_the_gateways_what_they_said_and_what_it_waits_for(farm, deliverer_to, db, told):
    here = farm({"status:500": 1, "accept": 1})
    bad, held = origins(here, "status:500", "accept")
    await hold(db, held)
    deliverer = deliverer_to(here, config=CONFIG, **told.callbacks())
    async with running(deliverer):
        await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(URI, [bad, held])])
        await until(lambda: were_tried(db, 1))
        (shown,) = (await deliverer.explain(ACTIVITY["id"])).deliveries
        assert (shown.inbox, shown.waits_for, shown.attempts) == (URI, WaitsFor.TIME, 1)
        first, second = shown.gateways
        assert (first.origin, first.status, first.reason, first.next) == (bad, 500, "status-500", True)
        assert (second.origin, second.status, second.next) == (held, None, False)
        assert first.held_until is None
        assert second.held_until is not None
        await hold(db, held, hours=-1)
        await let_come(db)
        await told.end()
        (shown,) = (await deliverer.explain(ACTIVITY["id"])).deliveries
    assert [(one.reason, one.next, one.held_until) for one in shown.gateways] == [
        ("status-500", False, None),
        ("", True, None),
    ]
